"""Data folders: locks, identity, checkpoints, clean stops, deleted and strange folders, several folders."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

from odradek.errors import InvalidTopicError, KafkaStorageError
from odradek.log import (
    DataDirectoryError,
    DataDirectoryInUseError,
    InconsistentIdentityError,
    LogConfig,
    LogDamagedError,
    LogManager,
    RealFileSystem,
)
from odradek.log.partition.leader_epochs import LeaderEpochs
from odradek.log.storage.checkpoint_file import (
    CorruptCheckpointError,
    EpochEntry,
    decode_lines,
    read_offsets,
    write_offsets,
)
from odradek.log.storage.file_names import (
    delete_dir,
    marker_of_dir,
    parse_numbered,
    parse_partition_dir,
    partition_dir,
)
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, values_of
from ..following import remove_deleted

TOPIC_ID = bytes(range(1, 17))
CONFIG = LogConfig(file_delete_delay_ms=1000)


def listdir(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def manager_of(
    *directories: Path, clock: ManualClock | None = None, config: LogConfig = CONFIG
) -> LogManager:
    return LogManager(list(directories), RealFileSystem(), clock or ManualClock(NOW_MS), config)


def test_a_locked_folder_names_the_file_and_the_holder(tmp_path):
    held = manager_of(tmp_path)
    with pytest.raises(DataDirectoryInUseError) as refused:
        manager_of(tmp_path)
    assert refused.value.lock_file == tmp_path / ".lock"
    assert refused.value.holder_pid == os.getpid()
    assert str(tmp_path / ".lock") in str(refused.value)
    assert str(os.getpid()) in str(refused.value)
    held.close()
    manager_of(tmp_path).close()


def test_the_lock_tells_whether_the_machine_has_booted_since_it_was_noted(tmp_path):
    if not Path("/proc/sys/kernel/random/boot_id").exists():
        pytest.skip("the system does not tell which boot it is")
    lock = tmp_path / ".lock"

    def unlost() -> bool:
        manager = manager_of(tmp_path)
        manager.load()
        manager.create("t", 0, None, TOPIC_ID)
        found = ("t", 0) in manager.unlost
        manager.unlock()  # and it dies
        return found

    assert [unlost(), unlost()] == [False, False], "it was not noted"
    manager = manager_of(tmp_path)
    manager.load()
    manager.directories.note_boot()
    manager.unlock()
    assert [unlost(), unlost()] == [True, True]
    manager = manager_of(tmp_path)
    manager.directories.fail(tmp_path, "for the test")
    manager.unlock()
    assert [unlost(), unlost()] == [False, False]
    manager = manager_of(tmp_path)
    manager.load()
    manager.directories.note_boot()
    manager.unlock()
    for text in (b"", b"123", b"123\n", b"123\n0\n", b"\xff\xff\n\xff", b"\0" * 50):
        noted = lock.read_bytes()
        lock.write_bytes(text)
        assert [unlost(), unlost()] == [False, False], text
        lock.write_bytes(noted)
        assert unlost()


HOLDER = """
import sys, time
from pathlib import Path
from odradek.log import LogManager, RealFileSystem
from odradek.util.clock import SystemClock
manager = LogManager([Path(sys.argv[1])], RealFileSystem(), SystemClock())
print("held", flush=True)
sys.stdin.read()
"""
# As Java's FileChannel.tryLock does it: a POSIX record lock, and no process id in the file.
JAVA_HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1] + "/.lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("script", [HOLDER, JAVA_HOLDER], ids=["ours", "java"])
def test_a_folder_locked_by_another_process(tmp_path, script):
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataDirectoryInUseError) as refused:
            manager_of(tmp_path)
        assert refused.value.holder_pid == holder.pid
        holder.kill()
    manager_of(tmp_path).close()


def test_the_same_folder_twice(tmp_path):
    with pytest.raises(DataDirectoryError, match="twice"):
        manager_of(tmp_path, tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataDirectoryError, match="cannot be used"):
        manager_of(tmp_path / "file" / "data")


def test_identity_is_written_and_checked(tmp_path):
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert manager.identity.stored_cluster_id() is None
    manager.identity.check(3, "cluster-of:mine")
    assert not (tmp_path / "a" / "meta.properties").exists(), "the start may be refused yet"
    manager.load()
    manager.close()
    text = (tmp_path / "a" / "meta.properties").read_text(encoding="utf-8")
    assert text.splitlines()[2:] == ["version=0", "broker.id=3", "cluster.id=cluster-of\\:mine"]
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    assert (manager.identity.stored_broker_id(), manager.identity.stored_cluster_id()) == (
        3,
        "cluster-of:mine",
    )
    manager.identity.check(3, "cluster-of:mine")
    for broker_id, cluster_id, key in ((4, "cluster-of:mine", "broker.id"), (3, "other", "cluster.id")):
        with pytest.raises(InconsistentIdentityError) as refused:
            manager.identity.check(broker_id, cluster_id)
        assert str(tmp_path / "a" / "meta.properties") in str(refused.value)
        assert key in str(refused.value)
    assert (tmp_path / "a" / "meta.properties").read_text(encoding="utf-8") == text
    manager.close()


def test_an_older_file_gets_the_cluster_id_and_keeps_the_rest(tmp_path):
    path = tmp_path / "meta.properties"
    path.write_text(
        "#\n#Sat Nov 21 00:51:45 UTC 2026\nbroker.id=1\nversion=0\nodd.key=kept\n", encoding="utf-8"
    )
    manager = manager_of(tmp_path)
    manager.load()
    manager.identity.check(1, "abc")
    manager.close()
    assert path.read_text(encoding="utf-8").splitlines()[2:] == [
        "broker.id=1",
        "version=0",
        "odd.key=kept",
        "cluster.id=abc",
    ]


@pytest.mark.parametrize("text", ["version=7\n", "broker.id=one\nversion=0\n"])
def test_an_identity_that_cannot_be_understood(tmp_path, text):
    (tmp_path / "meta.properties").write_text(text, encoding="utf-8")
    manager = manager_of(tmp_path)
    with pytest.raises(InconsistentIdentityError, match=r"meta\.properties cannot be understood"):
        manager.identity.check(1, "abc")
    manager.unlock()


def test_a_clean_stop_is_marked_and_the_mark_goes_with_the_next_start(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    log = manager.create("t", 0, None, TOPIC_ID)
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW_MS)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert manager.close()
    assert (tmp_path / ".kafka_cleanshutdown").read_text(encoding="utf-8") == '{"version":0,"brokerEpoch":-1}'
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text(encoding="utf-8") == "0\n1\nt 0 1\n"
    assert (tmp_path / "t-0" / "partition.metadata").read_text(encoding="utf-8") == (
        "version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA"
    )
    manager = manager_of(tmp_path)
    manager.load()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = manager.get("t", 0)
    assert (log.topic_id, log.recovery_point, values_of(log)) == (TOPIC_ID, 1, [(0, b"a")])
    assert manager.stopped_cleanly == {("t", 0)}
    with pytest.raises(KafkaStorageError, match="belongs to topic id"):
        manager.create("t", 0, None, bytes(16))
    manager.unlock()


def test_a_log_is_not_taken_for_cleanly_stopped_when_the_mark_is_missing(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    manager.create("t", 0, None, TOPIC_ID).append(batch([b"a"]), leader_epoch=0, now_ms=NOW_MS)
    assert manager.stopped_cleanly == set()
    manager.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    manager = manager_of(tmp_path)
    manager.load()
    assert manager.get("t", 0) is not None
    assert manager.stopped_cleanly == set()
    manager.close()


def test_a_refused_start_leaves_the_mark_of_the_clean_stop(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    for topic in ("good", "bad"):
        log = manager.create(topic, 0, None, TOPIC_ID)
        for number in range(3):
            log.append(batch([b"%d" % number]), leader_epoch=0, now_ms=NOW_MS)
    manager.close()
    path = tmp_path / "bad-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[8 + len(content) // 3] ^= 1  # the length of the second batch
    path.write_bytes(content)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()}
    manager = manager_of(tmp_path)
    with pytest.raises(LogDamagedError) as refused:
        manager.load()
    manager.unlock()
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()}
    before.pop(tmp_path / ".lock")
    after.pop(tmp_path / ".lock")
    assert after == before
    assert str(path) in str(refused.value)


def test_deleted_partitions_go_after_the_delay_also_through_a_stop(tmp_path):
    clock = ManualClock(NOW_MS)
    manager = manager_of(tmp_path, clock=clock)
    manager.load()
    for partition in range(3):
        manager.create("t", partition, None, TOPIC_ID)
    assert manager.delete("t", 0)
    assert not manager.delete("t", 0)
    assert manager.get("t", 0) is None
    [folder] = [name for name in listdir(tmp_path) if name.endswith("-delete")]
    assert folder.startswith("t-0.")
    assert remove_deleted(manager, NOW_MS + 999) == 0
    assert remove_deleted(manager, NOW_MS + 1000) == 1
    assert not (tmp_path / folder).exists()
    manager.delete("t", 1)
    manager.close()
    manager = manager_of(tmp_path, clock=clock)
    assert [(log.topic, log.partition) for log in manager.load()] == [("t", 2)]
    assert remove_deleted(manager, NOW_MS + 1000) == 1
    assert not [name for name in listdir(tmp_path) if name.endswith("-delete")]
    # A partition of that name can be made again at once.
    manager.create("t", 0, None, bytes(range(2, 18)))
    manager.close()


@pytest.mark.parametrize("killed", [False, True])
def test_a_topic_made_again_is_not_told_what_the_deleted_one_had(tmp_path, killed):
    """A checkpoint that still speaks of a deleted partition must not cut off its successor's records."""
    manager = manager_of(tmp_path)
    manager.load()
    log = manager.create("t", 0, None, TOPIC_ID)
    for number in range(5):
        log.append(batch([b"%d" % number]), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(5)
    log.delete_records_before(4)
    log.flush()
    manager.checkpoint()
    manager.delete("t", 0)
    if killed:
        manager.unlock()
        manager = manager_of(tmp_path)
        assert manager.load() == []
    log = manager.create("t", 0, None, bytes(range(2, 18)))
    log.append(batch([b"new"]), leader_epoch=0, now_ms=NOW_MS)
    manager.unlock()
    manager = manager_of(tmp_path)
    [log] = manager.load()
    assert (log.log_start_offset, values_of(log)) == (0, [(0, b"new")])
    manager.close()


def test_a_topic_id_cut_short_by_a_power_failure_is_written_again(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    manager.create("t", 0, None, TOPIC_ID)
    manager.unlock()
    path = tmp_path / "t-0" / "partition.metadata"
    content = path.read_bytes()
    for size in (0, 7, 20, len(content) - 1):
        path.write_bytes(content[:size])
        manager = manager_of(tmp_path)
        [log] = manager.load()
        assert log.topic_id is None
        manager.create("t", 0, None, TOPIC_ID)
        assert path.read_bytes() == content
        manager.unlock()


def test_strange_folders_are_left_alone(tmp_path):
    names = ["t-0.0123456789abcdef-future", "t-1.0123456789abcdef-stray", "lost+found", "no-number", "x"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"untouched")
    manager = manager_of(tmp_path)
    assert manager.load() == []
    manager.close()
    for name in names:
        assert listdir(tmp_path / name) == ["00000000000000000000.log"]
        assert (tmp_path / name / "00000000000000000000.log").read_bytes() == b"untouched"


def test_several_folders_share_the_partitions(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    manager = manager_of(first, second)
    manager.load()
    for partition in range(6):
        log = manager.create("t", partition, None, TOPIC_ID)
        log.append(batch([b"%d" % partition]), leader_epoch=0, now_ms=NOW_MS)
    assert len([name for name in listdir(first) if name.startswith("t-")]) == 3
    manager.close()
    manager = manager_of(first, second)
    assert len(manager.load()) == 6
    assert values_of(manager.get("t", 4)) == [(0, b"4")]
    manager.close()
    (second / "t-0").mkdir(exist_ok=True)
    (first / "t-0").mkdir(exist_ok=True)
    manager = manager_of(first, second)
    with pytest.raises(DataDirectoryError, match="is in both"):
        manager.load()
    manager.unlock()


def test_a_failed_close_leaves_no_clean_mark():
    files = MemoryFileSystem()
    manager = LogManager([Path("/d")], files, ManualClock(NOW_MS), CONFIG)
    manager.load()
    log = manager.create("t", 0, None, TOPIC_ID)
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing["fsync"] = lambda path: path.suffix == ".log"
    assert not manager.close()
    assert Path("/d/.kafka_cleanshutdown") not in files.files


def test_damaged_checkpoints_are_done_without(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    log = manager.create("t", 0, None, TOPIC_ID)
    log.append(batch([b"a"]), leader_epoch=4, now_ms=NOW_MS)
    manager.close()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_text("0\n7\nt 0 1\n", encoding="utf-8")
    (tmp_path / "replication-offset-checkpoint").write_text("nonsense", encoding="utf-8")
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n4 zero\n", encoding="utf-8")
    manager = manager_of(tmp_path)
    [log] = manager.load()
    assert values_of(log) == [(0, b"a")]
    assert log.epochs.entries == [EpochEntry(4, 0)]
    manager.close()


def test_the_log_start_survives_in_its_checkpoint(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    log = manager.create("t", 0, None, TOPIC_ID)
    for number in range(5):
        log.append(batch([b"%d" % number]), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(5)
    assert log.delete_records_before(3) == 3
    manager.checkpoint()
    assert (tmp_path / "log-start-offset-checkpoint").read_text(encoding="utf-8") == "0\n1\nt 0 3\n"
    manager.unlock()
    manager = manager_of(tmp_path)
    [log] = manager.load()
    assert (log.log_start_offset, log.high_watermark) == (3, 5)
    assert log.delete_records_before(-1) == 5
    assert log.epochs.entries == [EpochEntry(0, 5)]
    manager.close()


def test_descriptors_are_bounded(tmp_path):
    files = RealFileSystem(max_open=8)
    manager = LogManager([tmp_path], files, ManualClock(NOW_MS), CONFIG)
    manager.load()
    before = len(listdir(Path("/proc/self/fd")))
    for round_ in range(3):
        for partition in range(40):
            log = manager.create("t", partition, None, TOPIC_ID)
            log.append(batch([b"%d" % round_]), leader_epoch=0, now_ms=NOW_MS)
            assert len(listdir(Path("/proc/self/fd"))) <= before + 8
    assert all(len(values_of(log)) == 3 for log in manager.all())
    manager.close()


def test_a_thousand_partitions_load_fast(tmp_path):
    manager = manager_of(tmp_path)
    manager.load()
    for partition in range(300):
        manager.create("t", partition, None, None)
    manager.close()
    manager = manager_of(tmp_path)
    started = time.process_time()
    assert len(manager.load()) == 300
    assert time.process_time() - started < 3
    manager.unlock()


def test_checkpoint_text():
    files = MemoryFileSystem()
    files.make_dirs(Path("/d"))
    path = Path("/d/checkpoint")
    assert read_offsets(files, path) == {}
    write_offsets(files, path, {("a-1", 0): 5, ("b", 12): 2**40})
    assert files.read(path) == b"0\n2\na-1 0 5\nb 12 1099511627776\n"
    assert read_offsets(files, path) == {("a-1", 0): 5, ("b", 12): 2**40}
    assert decode_lines(b"", 3, path) == []
    for bad in (
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"x\n",
        b"0\nx\n",
        b"\xff\n0\n",
        b"0\n1\na x 1\n",
    ):
        files.files[path].data[:] = bad
        with pytest.raises(CorruptCheckpointError):
            read_offsets(files, path)


def test_leader_epochs():
    files = MemoryFileSystem()
    files.make_dirs(Path("/d"))
    epochs = LeaderEpochs(files, Path("/d/leader-epoch-checkpoint"))
    epochs.load()
    assert epochs.latest == -1
    assert epochs.end_offset_for(0, 10) is None
    for epoch, offset in ((1, 0), (3, 10), (3, 12), (5, 20)):
        epochs.assign(epoch, offset)
    assert files.read(Path("/d/leader-epoch-checkpoint")) == b"0\n3\n1 0\n3 10\n5 20\n"
    expected = {0: (0, 0), 1: (1, 10), 2: (1, 10), 3: (3, 20), 4: (3, 20), 5: (5, 30)}
    assert {epoch: epochs.end_offset_for(epoch, 30) for epoch in expected} == expected
    assert epochs.end_offset_for(6, 30) is None
    assert epochs.end_offset_for(-1, 30) is None
    # A newer leader that began earlier contradicts what came after that.
    epochs.assign(6, 15)
    assert epochs.entries == [(1, 0), (3, 10), (6, 15)]
    epochs.assign(7, 10)
    assert epochs.entries == [(1, 0), (7, 10)]
    epochs.truncate_from_start(4)
    assert epochs.entries == [(1, 4), (7, 10)]
    epochs.truncate_from_end(10)
    epochs.save()
    other = LeaderEpochs(files, Path("/d/leader-epoch-checkpoint"))
    other.load()
    assert other.entries == epochs.entries == [(1, 4)]
    with pytest.raises(ValueError, match="no leader epoch"):
        epochs.assign(-1, 5)


def test_names():
    assert parse_numbered("00000000000000000042.log") == (42, ".log", "")
    assert parse_numbered("00000000000000000042.timeindex.deleted") == (42, ".timeindex", ".deleted")
    for name in ("42.log", "00000000000000000042", "leader-epoch-checkpoint", "00000000000000000042.log.tmp"):
        assert parse_numbered(name) is None
    assert parse_partition_dir("a-b.c_d-12") == ("a-b.c_d", 12)
    assert parse_partition_dir("__consumer_offsets-49") == ("__consumer_offsets", 49)
    for name in (
        "t",
        "t-",
        "t-x",
        "t-0.abc-delete",
        "t-0.abc-future",
        "t-0.abc-stray",
        "t 1-0",
        "t-0\n",
        "t-٣",
    ):
        assert parse_partition_dir(name) is None
    long = delete_dir("x" * 249, 7, UUID(int=1))
    assert len(long) == 255
    assert marker_of_dir(long) == "delete"


@pytest.mark.parametrize("topic", ["../t", "/t", "a/b", "a\x00b", "a\n", "", "ä", "a b"])
def test_no_folder_is_that_of_a_name_which_leads_elsewhere(topic):
    files = MemoryFileSystem(now_ms=lambda: 0)
    logs = LogManager([Path("/data")], files, ManualClock())
    logs.load()
    before = set(files.dirs)
    logs.prepare([(topic, 0, None)])
    with pytest.raises(InvalidTopicError, match="no folder can be that of partition 0"):
        logs.create(topic, 0)
    assert set(files.dirs) == before


def test_no_two_partitions_have_one_folder():
    assert partition_dir("t-", 1) == "t--1"
    with pytest.raises(InvalidTopicError, match="partition -1"):
        partition_dir("t", -1)


def test_configs():
    config = LogConfig.from_topic(
        {
            "segment.bytes": "1000",
            "cleanup.policy": "compact, delete",
            "preallocate": "true",
            "unknown.one": "1",
        }
    )
    assert (config.segment_bytes, config.compact, config.delete, config.preallocate) == (
        1000,
        True,
        True,
        True,
    )
    assert LogConfig.from_topic({}, config) is config
    with pytest.raises(ValueError, match=r"for retention\.ms"):
        LogConfig.from_topic({"retention.ms": "soon"})


def test_a_folder_that_cannot_be_removed_is_tried_again():
    files = MemoryFileSystem()
    manager = LogManager([Path("/data")], files, ManualClock(NOW_MS), LogConfig(file_delete_delay_ms=0))
    manager.load()
    manager.create("t", 0, None, TOPIC_ID)
    manager.delete("t", 0)
    files.failing["rmdir"] = lambda path: True
    job = manager.removals.begin(NOW_MS)
    assert (len(job), job.run(), len(manager.removals.begin(NOW_MS))) == (1, 0, 0)
    manager.removals.finish(job, NOW_MS)
    files.failing.clear()
    assert remove_deleted(manager, NOW_MS) == 1
    assert remove_deleted(manager, NOW_MS) == 0
