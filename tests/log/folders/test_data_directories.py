"""Several data folders: one that fails goes offline alone, at a start and later."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.event_loop.slices import take_all
from odradek.errors import KafkaStorageError
from odradek.log import DataDirectoryError, LogConfig, LogManager, PartitionLog
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, values_of
from ..following import flush_dirty

FIRST, SECOND, THIRD = Path("/a"), Path("/b"), Path("/c")
TOPIC_ID = bytes(range(1, 17))
CONFIG = LogConfig(file_delete_delay_ms=0, flush_ms=0)


def start(files: MemoryFileSystem, *directories: Path, clock: ManualClock | None = None) -> LogManager:
    manager = LogManager(list(directories or (FIRST, SECOND)), files, clock or ManualClock(NOW_MS), CONFIG)
    manager.identity.check(1, "cluster")
    manager.load()
    return manager


def with_logs(files: MemoryFileSystem, count: int = 4) -> tuple[LogManager, list[PartitionLog]]:
    manager = start(files)
    logs = [manager.create("t", partition, CONFIG, TOPIC_ID) for partition in range(count)]
    for log in logs:
        append(log)
    return manager, logs


def append(log: PartitionLog, value: bytes = b"v") -> None:
    log.append(batch([value]), leader_epoch=0, now_ms=NOW_MS)
    log.commit_all()


def below(directory: Path) -> Callable[[Path], bool]:
    return lambda path: directory in path.parents or path == directory


def flush(manager: LogManager, log: PartitionLog) -> None:
    flush_dirty(manager, NOW_MS + 1)


def write(manager: LogManager, log: PartitionLog) -> None:
    with pytest.raises(KafkaStorageError):
        append(log)


def checkpoint(manager: LogManager, log: PartitionLog) -> None:
    manager.checkpoint()


def create(manager: LogManager, log: PartitionLog) -> None:
    for partition in (10, 11):
        try:
            manager.create("t", partition, CONFIG, TOPIC_ID)
        except KafkaStorageError:
            return
    raise AssertionError("neither was refused")


def delete(manager: LogManager, log: PartitionLog) -> None:
    with pytest.raises(KafkaStorageError):
        manager.delete(log.topic, log.partition)


@pytest.mark.parametrize(
    ("operation", "act"),
    [
        ("pwrite", write),
        ("fsync", flush),
        ("fsync", checkpoint),
        ("create", checkpoint),
        ("mkdir", create),
        ("rename", delete),
        ("fsync_dir", delete),
    ],
)
@pytest.mark.parametrize("failing", [FIRST, SECOND])
def test_a_failed_folder_goes_offline_alone(
    failing: Path, operation: str, act: Callable[[LogManager, PartitionLog], None]
) -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    told: list[tuple[Path, set[tuple[str, int]]]] = []
    manager.on_failure = lambda path, keys, reason: told.append((path, set(keys)))
    here = [log for log in logs if log.directory.parent == failing]
    others = [log for log in logs if log.directory.parent != failing]
    assert len(here) == len(others) == 2
    files.failing[operation] = below(failing)
    act(manager, here[0])

    offline = {("t", log.partition) for log in here}
    assert len(told) == 1
    assert told[0][0] == failing
    assert told[0][1] <= offline
    assert manager.online_dirs == [path for path in (FIRST, SECOND) if path != failing]
    assert "Input/output error" in str(manager.directories.failure_of(failing))
    assert {(log.topic, log.partition) for log in manager.all() if log.partition < 10} == {
        ("t", log.partition) for log in others
    }
    # Whoever still holds a log of the folder cannot write to it, although the disk would take it now.
    files.failing.clear()
    with pytest.raises(KafkaStorageError):
        append(here[1])
    for log in others:
        append(log, b"after")
        assert values_of(log)[-1][1] == b"after"
    # A new partition goes where it can; one that may be in the failed folder is not made anew.
    assert manager.create("new", 0, CONFIG, TOPIC_ID).directory.parent != failing
    with pytest.raises(KafkaStorageError, match="failed"):
        manager.create("old", 0, CONFIG, TOPIC_ID, is_new=False)
    with pytest.raises(KafkaStorageError, match="failed"):
        manager.create("t", here[1].partition, CONFIG, TOPIC_ID)
    # Only the sound folder is left as after a clean stop; the next start has all records that were flushed.
    assert not manager.close()
    clean = [path for path in (FIRST, SECOND) if path / ".kafka_cleanshutdown" in files.files]
    assert clean == [path for path in (FIRST, SECOND) if path != failing]
    manager = start(files)
    for log in logs:
        found = manager.get("t", log.partition)
        if found is not None:
            assert values_of(found)[0] == (0, b"v")


def test_a_full_disk_is_no_failed_folder() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    files.failing_with = errno.ENOSPC
    files.failing["pwrite"] = below(FIRST)
    for log in logs:
        if log.directory.parent == FIRST:
            with pytest.raises(KafkaStorageError):
                append(log)
    assert manager.online_dirs == [FIRST, SECOND]
    files.failing.clear()
    for log in logs:
        append(log)
    assert manager.close()


def test_nothing_comes_to_a_log_after_the_stop() -> None:
    """The next start believes what the stop has noted of it."""
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    assert manager.close()
    for log in logs:
        with pytest.raises(KafkaStorageError, match="the broker stops"):
            append(log)
        with pytest.raises(KafkaStorageError, match="the broker stops"):
            log.truncate_to(0)
        with pytest.raises(KafkaStorageError, match="the broker stops"):
            log.truncate_fully_and_start_at(9)
    again = start(files)
    assert [values_of(again.get("t", log.partition)) for log in logs] == [[(0, b"v")]] * len(logs)


def test_nothing_is_written_in_a_folder_that_is_let_go() -> None:
    """As when a start fails: another broker may have it by then."""
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    late = manager.checkpoints.begin()
    append(logs[0])
    late_log_starts = manager.checkpoints.begin_log_starts()
    manager.unlock()
    before = files.operations
    late.run()
    late_log_starts.run()
    for log in logs:
        with pytest.raises(KafkaStorageError, match="the broker stops"):
            append(log)
    assert files.operations == before


def test_a_full_disk_fails_its_folder_where_others_take_over() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    manager.directories.gives_up_full_disks = True
    files.failing_with = errno.ENOSPC
    files.failing["pwrite"] = below(FIRST)
    with pytest.raises(KafkaStorageError):
        append(next(log for log in logs if log.directory.parent == FIRST))
    assert manager.online_dirs == [SECOND]
    # Room that comes back later does not bring it back: others lead by now.
    files.failing.clear()
    for log in logs:
        if log.directory.parent == FIRST:
            with pytest.raises(KafkaStorageError):
                append(log)
        else:
            append(log)


def test_a_read_error_concerns_the_reader_alone() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    files.failing["pread"] = below(FIRST)
    for log in logs:
        if log.directory.parent == FIRST:
            with pytest.raises(KafkaStorageError):
                log.read(0, 1000, upper_bound=1, min_one_batch=True)
    assert manager.online_dirs == [FIRST, SECOND]


@pytest.mark.parametrize("operation", ["mkdir", "read", "open"])
def test_a_folder_that_cannot_be_used_at_the_start(operation: str) -> None:
    files = MemoryFileSystem()
    if operation != "mkdir":
        manager, _ = with_logs(files)
        manager.close()
    files.failing[operation] = below(FIRST)
    manager = start(files)
    assert manager.online_dirs == [SECOND]
    assert all(log.directory.parent == SECOND for log in manager.all())
    assert len(manager.all()) == (0 if operation == "mkdir" else 2)
    with pytest.raises(KafkaStorageError):
        manager.create("t", 0, CONFIG, TOPIC_ID, is_new=False)
    assert manager.create("new", 0, CONFIG, TOPIC_ID).directory.parent == SECOND
    manager.close()
    assert FIRST / ".lock" not in files.locked


def test_nothing_is_removed_from_a_folder_that_fails_in_the_middle_of_a_start() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    for log in logs:
        manager.delete("t", log.partition)
    manager.close()
    # What is left there has been found by then.
    files.failing["fsync_dir"] = lambda path: path == FIRST
    manager = start(files)
    assert manager.online_dirs == [SECOND]
    files.failing.clear()
    assert {folder.parent for folder in manager.removals.begin(NOW_MS).folders} == {SECOND}


def test_what_is_taken_away_with_its_folder_is_not_made_anew_in_another() -> None:
    """It would be there twice when the folder is back, and no start would know which one counts."""
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    key = next(("t", log.partition) for log in logs if log.directory.parent == FIRST)
    manager.directories.fail(FIRST, "for the test")
    for _ in range(2):
        assert not manager.delete(*key)
        assert not manager.offline.is_gone(key)
        manager.prepare([(*key, TOPIC_ID)])
        for is_copied in (False, True):
            with pytest.raises(KafkaStorageError, match="/a, which has failed"):
                manager.create(*key, CONFIG, TOPIC_ID, is_new=True, is_copied=is_copied)
    # What was in the folder is known: another one may be copied to here.
    assert manager.create("moved", 0, CONFIG, TOPIC_ID, is_copied=True).directory.parent == SECOND
    manager.close()
    manager = start(files)
    assert len(manager.all()) == len(logs) + 1
    found = manager.get(*key)
    assert found is not None and found.directory.parent == FIRST
    assert values_of(found) == [(0, b"v")]
    assert manager.delete(*key) and manager.offline.is_gone(key)


def test_while_nobody_knows_what_is_in_a_folder_nothing_is_copied_to_another() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    manager.close()
    away = [("t", log.partition) for log in logs if log.directory.parent == FIRST]
    files.failing["open"] = below(FIRST)
    manager = start(files)
    assert not manager.delete(*away[0])
    with pytest.raises(
        KafkaStorageError, match=r"could not be read at the start: /a\. Repair that or take it"
    ):
        manager.create(*away[0], CONFIG, TOPIC_ID, is_new=True, is_copied=True)
    # A partition that nobody has yet cannot be there.
    assert manager.create("new", 0, CONFIG, TOPIC_ID).directory.parent == SECOND
    manager.close()
    files.failing.clear()
    manager = start(files)
    assert len(manager.all()) == len(logs) + 1
    # Nor does it keep anybody from copying to here any more.
    manager.create("moved", 0, CONFIG, TOPIC_ID, is_copied=True)


def test_a_damaged_log_is_not_forgotten_with_its_folder() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    manager.close()
    log = next(log for log in logs if log.directory.parent == FIRST)
    key = ("t", log.partition)
    segment = log.directory / "00000000000000000000.log"
    files.remove(segment)
    files.make_dirs(segment)
    manager = LogManager([FIRST, SECOND], files, ManualClock(NOW_MS), CONFIG, refuses_damage=False)
    manager.load()
    assert key in manager.damaged
    manager.directories.fail(FIRST, "for the test")
    assert not manager.delete(*key)
    with pytest.raises(KafkaStorageError):
        manager.create(*key, CONFIG, TOPIC_ID, is_copied=True)
    manager.close()


def test_no_start_without_any_folder() -> None:
    files = MemoryFileSystem()
    files.failing["mkdir"] = lambda path: True
    with pytest.raises(DataDirectoryError, match="cannot be used"):
        start(files)


def test_checkpoints_and_identity_are_per_folder() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    flush_dirty(manager, NOW_MS + 1)
    manager.checkpoint()
    for directory in (FIRST, SECOND):
        here = sorted(log.partition for log in logs if log.directory.parent == directory)
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            lines = files.read(directory / name).decode().splitlines()
            assert sorted(lines[2:]) == [f"t {partition} 1" for partition in here]
        assert b"broker.id=1" in files.read(directory / "meta.properties")
    # A folder that is added later gets its identity, and the next partitions.
    manager.close()
    manager = start(files, FIRST, SECOND, THIRD)
    assert b"cluster.id=cluster" in files.read(THIRD / "meta.properties")
    assert [manager.create("u", n, CONFIG, TOPIC_ID).directory.parent for n in range(2)] == [THIRD, THIRD]


def test_what_is_told_of_the_folders() -> None:
    files = MemoryFileSystem()
    files.capacity = 10_000_000
    manager, logs = with_logs(files)
    logs[0].append(batch([b"not committed"]), leader_epoch=0, now_ms=NOW_MS)
    manager.directories.fail(SECOND, "why")
    first, second = take_all(manager.describe())
    assert (first.path, first.failure, first.total_bytes) == (FIRST, None, 10_000_000)
    assert 0 < first.usable_bytes < 10_000_000
    assert [(state.topic, state.partition, state.offset_lag) for state in first.replicas] == [
        ("t", 0, 1),
        ("t", 2, 0),
    ]
    assert first.replicas[0].size_bytes == logs[0].size_bytes
    assert second == (SECOND, "why", -1, -1, [])


def test_folders_made_beforehand_are_used() -> None:
    files = MemoryFileSystem()
    manager = start(files)
    manager.create("t", 0, CONFIG, TOPIC_ID)
    manager.prepare([("t", n, TOPIC_ID) for n in range(4)] + [("u", 0, None)])
    made = {path for path in files.dirs if path.name.startswith(("t-", "u-"))}
    assert len(made) == 5
    for n in range(4):
        files.failing["fsync"] = files.failing["fsync_dir"] = lambda path: True
        log = manager.create("t", n, CONFIG, TOPIC_ID)
        files.failing.clear()
        assert log.directory in made
        assert log.topic_id == TOPIC_ID
        append(log)
    assert len([log for log in manager.all() if log.directory.parent == FIRST]) == 2
    manager.close()


def test_a_later_checkpoint_is_not_replaced_by_an_earlier_one() -> None:
    files = MemoryFileSystem()
    manager, logs = with_logs(files, 1)
    early = manager.checkpoints.begin()
    append(logs[0])
    manager.checkpoint()
    early.run()
    manager.checkpoints.finish(early)
    assert files.read(FIRST / "replication-offset-checkpoint") == b"0\n1\nt 0 2\n"
    # And what it did not write is not thought to be written.
    append(logs[0])
    manager.checkpoint()
    assert files.read(FIRST / "replication-offset-checkpoint") == b"0\n1\nt 0 3\n"


def test_a_folder_that_failed_may_have_lost_records_without_a_boot() -> None:
    """After a failed sync the kernel has what it could not write no more."""
    files = MemoryFileSystem()
    manager, logs = with_logs(files)
    manager.directories.note_boot()
    files.restart()
    assert start(files).unlost == {("t", log.partition) for log in logs}
    files.restart()
    manager = start(files)
    manager.directories.fail(FIRST, "for the test")
    files.restart()
    assert start(files).unlost == {("t", log.partition) for log in logs if log.directory.parent == SECOND}
