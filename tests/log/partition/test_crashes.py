"""What was acknowledged is there after the process dies at any operation, or the power fails.

Every test prints nothing and is exact: operations are numbered, the random generator is seeded by the number.
"""

from __future__ import annotations

import errno
import random

import pytest

from odradek.errors import KafkaStorageError
from odradek.log import LogConfig, LogDamagedError, LogManager, PartitionLog
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import Killed, MemoryFileSystem
from odradek.util.clock import ManualClock
from seeds import each_seed

from ..batches import NOW_MS, batch, marker, values_of
from ..following import flush_dirty, remove_deleted
from ..writer import CONFIG, DATA, TOPIC_ID, Writer, restarted, start


def life(files: MemoryFileSystem, clock: ManualClock, writer: Writer) -> None:
    """Two lives of a broker with everything that touches the disk: writes, rolls, deletions, clean stops."""
    leader_epoch = 0
    for _ in range(2):
        manager, log = start(files, clock)
        for step in range(14):
            writer.send(log, leader_epoch)
            log.update_high_watermark(log.log_end_offset)
            if step == 4:
                manager.checkpoint()
            if step == 7:
                writer.deleted_below = max(writer.deleted_below, log.log_end_offset // 2)
                log.delete_records_before(log.log_end_offset // 2)
                manager.apply_retention(NOW_MS)
            if step == 9:
                flush_dirty(manager, NOW_MS)
                manager.checkpoint()
            if step == 11:
                leader_epoch += 1
                clock.advance(1000)
        manager.create("other", 0, CONFIG, TOPIC_ID)
        manager.delete("other", 0)
        remove_deleted(manager, NOW_MS + 10_000)
        manager.close()


def operations_of_life() -> int:
    files = MemoryFileSystem()
    life(files, ManualClock(NOW_MS), Writer(1))
    return files.operations


OPERATIONS = operations_of_life()


def test_a_life_has_many_operations():
    assert OPERATIONS > 300


@pytest.mark.model
@pytest.mark.parametrize("block", range(10))
def test_killed_at_every_operation(block):
    for kill_at in range(block, OPERATIONS, 10):
        files = MemoryFileSystem(random.Random(kill_at))
        clock = ManualClock(NOW_MS)
        writer = Writer(1)
        files.kill_at = kill_at
        with pytest.raises(Killed):
            life(files, clock, writer)
        files.restart()
        manager, _ = restarted(files, clock, writer)
        assert manager.close()
        _, log = start(files, clock)
        files.locked.clear()
        writer.check(log)


def test_killed_again_while_recovering():
    files = MemoryFileSystem(random.Random(5))
    clock = ManualClock(NOW_MS)
    writer = Writer(3)
    _, log = start(files, clock)
    for _ in range(25):
        writer.send(log)
    tail = log.segments.active.path
    files.restart()
    files.files[tail].data += b"torn"
    saved = {path: bytes(inode.data) for path, inode in files.files.items()}
    attempt = 0
    while True:
        files.kill_at = files.operations + attempt
        try:
            _, log = start(files, clock)
        except Killed:
            files.restart()
            attempt += 1
            # Each attempt goes on from where the one before it died.
            continue
        break
    assert attempt > 5
    assert saved
    writer.check(log)


@each_seed(60)
def test_power_loss_with_flush_messages_1_loses_nothing_acknowledged(seed):
    rng = random.Random(seed)
    files = MemoryFileSystem(random.Random(seed))
    clock = ManualClock(NOW_MS)
    writer = Writer(seed)
    config = LogConfig(
        segment_bytes=900,
        segment_index_bytes=240,
        index_interval_bytes=150,
        flush_messages=1,
        retention_ms=-1,
    )
    for _ in range(3):
        manager = LogManager([DATA], files, clock, config)
        manager.identity.check(1, "cluster")
        manager.load()
        log = manager.create("t", 0, config, TOPIC_ID)
        writer.check(log)
        files.kill_at = files.operations + rng.randint(1, 80)
        with pytest.raises(Killed):
            while True:
                writer.send(log)
                log.update_high_watermark(log.log_end_offset)
                if rng.random() < 0.2:
                    manager.checkpoint()
        files.lose_power()


@each_seed(40)
def test_power_loss_without_flushes_leaves_a_prefix(seed):
    """What was not synced may be gone, but what is left is the beginning of the log, and it can be used."""
    rng = random.Random(seed)
    files = MemoryFileSystem(random.Random(seed))
    clock = ManualClock(NOW_MS)
    manager, log = start(files, clock)
    sent = []
    for number in range(rng.randint(1, 20)):
        values = [b"%d" % number + b"." * 50]
        info = log.append(batch(values), leader_epoch=0, now_ms=NOW_MS)
        sent.append((info.first_offset, values[0]))
        if rng.random() < 0.2:
            flush_dirty(manager, NOW_MS)
            manager.checkpoint()
    synced = log.recovery_point
    files.lose_power()
    try:
        _, log = start(files, clock)
    except LogDamagedError as error:
        # A segment lost its end, or all, while the next one kept what was written later. Nothing is cut.
        assert any(why in str(error) for why in ("valid batches go on", "it is empty, and the next segment"))
        return
    found = values_of(log)
    assert found == sent[: len(found)]
    assert len(found) >= synced
    log.append(batch([b"more"]), leader_epoch=0, now_ms=NOW_MS)


def test_full_disk_fails_the_append_and_nothing_else():
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    writer = Writer(4)
    manager, log = start(files, clock)
    for _ in range(3):
        writer.send(log)
    for free in (0, 1, 17, 60, 61, 100):
        files.capacity = sum(len(inode.data.rstrip(b"\0")) for inode in files.files.values()) + free
        failed = False
        try:
            for _ in range(12):
                writer.send(log)
        except KafkaStorageError:
            failed = True
        assert failed
        writer.check(log)
        files.capacity = None
        for _ in range(4):
            writer.send(log)
        writer.check(log)
    assert manager.close()
    _, log = start(files, clock)
    writer.check(log)


def test_a_write_cut_short_by_a_full_disk_is_undone():
    files = MemoryFileSystem()
    _, log = start(files, ManualClock(NOW_MS))
    log.append(batch([b"kept"]), leader_epoch=0, now_ms=NOW_MS)
    path, size = log.segments.active.path, log.segments.active.size
    files.capacity = sum(len(inode.data.rstrip(b"\0")) for inode in files.files.values()) + 30
    with pytest.raises(KafkaStorageError):
        log.append(batch([b"lost"]), leader_epoch=0, now_ms=NOW_MS)
    assert len(files.files[path].data) == size
    # When even that is not possible, the next append begins by doing it.
    files.failing["truncate"] = lambda failing: failing == path
    files.failing_with = errno.ENOSPC
    with pytest.raises(KafkaStorageError):
        log.append(batch([b"lost"]), leader_epoch=0, now_ms=NOW_MS)
    assert len(files.files[path].data) > size
    files.capacity = None
    with pytest.raises(KafkaStorageError):
        log.append(batch([b"lost"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing.clear()
    log.append(batch([b"too"]), leader_epoch=0, now_ms=NOW_MS)
    assert values_of(log) == [(0, b"kept"), (1, b"too")]
    assert len(files.files[path].data) == log.segments.active.size


@pytest.mark.parametrize("how", ["truncate", "restart", "retain"])
def test_killed_at_every_operation_of_a_cut(how):
    """A log that is being cut holds, at any instant, a run of its records without a hole."""
    kill_at = 0
    while True:
        files = MemoryFileSystem(random.Random(kill_at))
        clock = ManualClock(NOW_MS)
        log = open_partition_log(DATA / "t-0", "t", 0, CONFIG, files, clock)
        for number in range(30):
            log.append(batch([b"%d" % number * 60]), leader_epoch=number // 9, now_ms=NOW_MS)
        log.update_high_watermark(30)
        whole = values_of(log)
        assert len(log.segments) > 4
        files.kill_at = files.operations + kill_at
        try:
            if how == "truncate":
                log.truncate_to(4)
            elif how == "restart":
                log.truncate_fully_and_start_at(100)
            else:
                log.config = LogConfig.from_topic({"retention.bytes": "300"}, CONFIG)
                log.apply_retention(NOW_MS)
            finished = True
        except Killed:
            finished = False
        files.restart()
        log = open_partition_log(DATA / "t-0", "t", 0, CONFIG, files, clock)
        found = values_of(log)
        start_at = found[0][0] if found else 0
        assert found == whole[start_at : start_at + len(found)]
        if how == "retain":
            assert found
            assert found[-1] == whole[-1]
        else:
            assert start_at == 0
        log.append(batch([b"more"]), leader_epoch=9, now_ms=NOW_MS)
        if finished:
            break
        kill_at += 1
    assert kill_at > 10


def test_full_disk_everywhere_then_killed():
    """However much room is left, and wherever it runs out, what was acknowledged survives a kill."""
    for free in range(0, 1200, 7):
        files = MemoryFileSystem()
        clock = ManualClock(NOW_MS)
        writer = Writer(free)
        _, log = start(files, clock)
        writer.send(log)
        files.capacity = sum(len(inode.data.rstrip(b"\0")) for inode in files.files.values()) + free
        for _ in range(10):
            try:
                writer.send(log)
            except KafkaStorageError:
                continue
        files.restart()
        files.capacity = None
        restarted(files, clock, writer)


@pytest.mark.parametrize("block", range(10))
def test_io_error_at_every_operation(block):
    """EIO at any one operation: an error or none, never a wrong answer, and nothing acknowledged is lost."""
    for fail_at in range(block, OPERATIONS, 10):
        files = MemoryFileSystem(random.Random(fail_at))
        clock = ManualClock(NOW_MS)
        writer = Writer(1)
        files.fail_at = fail_at
        try:
            life(files, clock, writer)
        except Exception as error:
            assert type(error).__module__.startswith("odradek"), (fail_at, files.history[-1], error)
        files.fail_at = None
        files.restart()
        _, log = restarted(files, clock, writer)
        writer.check(log)


def test_a_read_error_is_a_storage_error_and_passes():
    files = MemoryFileSystem()
    _, log = start(files, ManualClock(NOW_MS))
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing["pread"] = lambda path: path.suffix == ".log"
    with pytest.raises(KafkaStorageError):
        log.read(0, 1000, upper_bound=1, min_one_batch=True)
    files.failing.clear()
    assert values_of(log) == [(0, b"a")]


def test_after_a_failed_sync_appends_are_refused_until_a_new_start():
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    config = LogConfig(flush_messages=1)
    log = open_partition_log(DATA / "t-0", "t", 0, config, files, clock)
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing["fsync"] = lambda path: path.suffix == ".log"
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            log.append(batch([b"b"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing.clear()
    assert log.log_end_offset == 2
    with pytest.raises(KafkaStorageError, match="started again"):
        log.append(batch([b"c"]), leader_epoch=0, now_ms=NOW_MS)
    log = open_partition_log(DATA / "t-0", "t", 0, config, files, clock)
    log.append(batch([b"c"]), leader_epoch=0, now_ms=NOW_MS)
    assert [value for _, value in values_of(log)] == [b"a", b"b", b"c"]


@each_seed(30)
def test_transactions_survive_a_kill(seed):
    rng = random.Random(seed)
    files = MemoryFileSystem(random.Random(seed))
    clock = ManualClock(NOW_MS)
    _, log = start(files, clock)
    sequences = {1: 0, 2: 0}
    for _ in range(rng.randint(5, 40)):
        producer = rng.choice((1, 2))
        entry = log.producers.entries.get(producer)
        if entry and entry.txn_first_offset >= 0 and rng.random() < 0.4:
            from odradek.log import Origin

            log.append(
                marker(producer, 0, commit=rng.random() < 0.5),
                leader_epoch=0,
                origin=Origin.COORDINATOR,
                now_ms=NOW_MS,
            )
        else:
            log.append(
                batch(
                    [b"v" * 30],
                    producer_id=producer,
                    epoch=0,
                    sequence=sequences[producer],
                    transactional=True,
                ),
                leader_epoch=0,
                now_ms=NOW_MS,
            )
            sequences[producer] += 1
    log.update_high_watermark(log.log_end_offset)

    def facts(log: PartitionLog) -> tuple:
        log.update_high_watermark(log.log_end_offset)
        entries = log.producers.entries.values()
        producers = sorted((e.producer_id, e.last_sequence, e.txn_first_offset) for e in entries)
        aborted = log.aborted_transactions(0, log.log_end_offset)
        return log.log_end_offset, log.last_stable_offset, producers, aborted

    before = facts(log)
    files.restart()
    manager, log = start(files, clock)
    assert facts(log) == before
    manager.close()
    assert facts(start(files, clock)[1]) == before


def test_a_process_that_dies_loses_nothing_and_one_without_power_may():
    files = MemoryFileSystem()
    manager, log = start(files, ManualClock(NOW_MS))
    key = log.topic, log.partition
    manager.checkpoint()
    files.fsync_dir(DATA)
    files.restart()
    for noted, power_fails, unlost in (
        (False, False, False),
        (True, False, True),
        (False, False, True),
        # What was lost is lost for whoever comes after the first that finds it, too, until others know of it.
        (True, True, False),
        (False, False, False),
        (True, False, True),
    ):
        manager, _ = start(files, ManualClock(NOW_MS))
        if noted:
            manager.directories.note_boot()
        if power_fails:
            files.lose_power()
        files.restart()
        manager, _ = start(files, ManualClock(NOW_MS))
        assert (key in manager.unlost) is unlost
        files.restart()
