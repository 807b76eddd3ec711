"""What was acknowledged is there after the process dies at any operation, or the power fails.

Every test prints nothing and is exact: operations are numbered, the random generator is seeded by the number.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from odradek.errors import KafkaError, KafkaStorageError
from odradek.log import LogConfig, LogDamagedError, LogManager, PartitionLog
from odradek.log.memory_files import Killed, MemoryFileSystem
from odradek.util.clock import ManualClock

from .batches import NOW_MS, batch, marker, values_of

DATA = Path("/data")
CONFIG = LogConfig(
    segment_bytes=900,
    segment_index_bytes=240,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    retention_ms=-1,
)
TOPIC_ID = bytes(range(16))
PRODUCER = 7


class Writer:
    """Writes with an idempotent producer and remembers what was acknowledged.

    A batch that failed or whose answer never came is sent again first, as a client does.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.acknowledged: list[tuple[int, bytes]] = []
        self.sequence = 0
        self.unanswered: list[bytes] | None = None
        self.deleted_below = 0
        self.counter = 0

    def next_values(self) -> list[bytes]:
        """The batch to send now."""
        if self.unanswered is None:
            count = self.rng.randint(1, 3)
            size = self.rng.choice((3, 30, 120))
            self.unanswered = []
            for _ in range(count):
                self.unanswered.append(b"%d" % self.counter + b"." * size)
                self.counter += 1
        return self.unanswered

    def send(self, log: PartitionLog, leader_epoch: int = 0) -> None:
        """Append, and note the answer."""
        values = self.next_values()
        data = batch(values, producer_id=PRODUCER, epoch=0, sequence=self.sequence)
        info = log.append(data, leader_epoch=leader_epoch, now_ms=NOW_MS)
        assert info.last_offset - info.first_offset + 1 == len(values)
        self.acknowledged += [(info.first_offset + n, value) for n, value in enumerate(values)]
        self.sequence += len(values)
        self.unanswered = None

    def check(self, log: PartitionLog) -> None:
        """All that was acknowledged is there once and in order; at most the unanswered batch beside it."""
        expected = [entry for entry in self.acknowledged if entry[0] >= log.log_start_offset]
        found = values_of(log)
        assert found[: len(expected)] == expected
        extra = [value for _, value in found[len(expected) :]]
        assert extra in ([], self.unanswered)
        assert log.log_start_offset <= self.deleted_below or log.log_start_offset == 0


def start(files: MemoryFileSystem, clock: ManualClock) -> tuple[LogManager, PartitionLog]:
    """What a broker does when it starts."""
    manager = LogManager([DATA], files, clock, CONFIG)
    manager.check_identity(1, "cluster")
    manager.load()
    return manager, manager.create("t", 0, CONFIG, TOPIC_ID)


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
                manager.flush_dirty(NOW_MS)
                manager.checkpoint()
            if step == 11:
                leader_epoch += 1
                clock.advance(1000)
        manager.create("other", 0, CONFIG, TOPIC_ID)
        manager.delete("other", 0)
        manager.remove_deleted(NOW_MS + 10_000)
        manager.close()


def operations_of_life() -> int:
    files = MemoryFileSystem()
    life(files, ManualClock(NOW_MS), Writer(1))
    return files.operations


OPERATIONS = operations_of_life()


def test_a_life_has_many_operations():
    assert OPERATIONS > 300


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
        manager, log = start(files, clock)
        writer.check(log)
        writer.send(log)
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


@pytest.mark.parametrize("seed", range(60))
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
        manager.check_identity(1, "cluster")
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


@pytest.mark.parametrize("seed", range(40))
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
            manager.flush_dirty(NOW_MS)
            manager.checkpoint()
    synced = log.recovery_point
    files.lose_power()
    try:
        _, log = start(files, clock)
    except LogDamagedError as error:
        # A segment lost its end while the next one kept what was written later. Nothing is cut then.
        assert "valid batches go on" in str(error)
        return
    found = values_of(log)
    assert found == sent[: len(found)]
    assert len(found) >= synced
    log.append(batch([b"more"]), leader_epoch=0, now_ms=NOW_MS)


def _torn_folder() -> tuple[MemoryFileSystem, Path, int, int, list]:
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    _, log = start(files, clock)
    for number in range(4):
        log.append(
            batch([b"%d" % number, b"v" * 40], producer_id=3, epoch=0, sequence=2 * number),
            leader_epoch=0,
            now_ms=NOW_MS,
        )
    path = log.segments.active.path
    before_last = values_of(log)[:-2]
    size = log.segments.active.size
    last = size // 4
    files.restart()
    return files, path, size - last, size, before_last


def test_a_tail_torn_at_every_byte_of_the_last_batch():
    files, path, start_of_last, size, before_last = _torn_folder()
    content = bytes(files.files[path].data)
    for cut in range(start_of_last, size):
        files.files[path].data[:] = content[:cut]
        files.locked.clear()
        _, log = start(files, ManualClock(NOW_MS))
        assert values_of(log) == before_last, cut
        assert log.log_end_offset == 6
        assert len(files.files[path].data) == start_of_last
        # The producer may send the batch that was lost again, and no later one.
        with pytest.raises(KafkaError, match="expected was 6"):
            log.append(batch([b"gap"], producer_id=3, epoch=0, sequence=8), leader_epoch=0, now_ms=NOW_MS)
        info = log.append(
            batch([b"3", b"v" * 40], producer_id=3, epoch=0, sequence=6), leader_epoch=0, now_ms=NOW_MS
        )
        assert (info.first_offset, info.duplicate) == (6, False)
        assert bytes(files.files[path].data) == content


def test_a_flipped_bit_anywhere_in_the_last_batch_is_cut():
    files, path, start_of_last, size, before_last = _torn_folder()
    content = bytes(files.files[path].data)
    # Base offset, leader epoch and the length are not under the CRC; the first two change what is read, not
    # whether it is whole.
    for at in [*range(start_of_last + 8, start_of_last + 12), *range(start_of_last + 16, size)]:
        files.files[path].data[:] = content
        files.files[path].data[at] ^= 0x10
        files.locked.clear()
        _, log = start(files, ManualClock(NOW_MS))
        assert values_of(log) == before_last, at


def test_a_flipped_bit_before_the_last_batch_refuses_the_start_and_changes_nothing():
    files, path, start_of_last, _, _ = _torn_folder()
    second = start_of_last // 3
    # Anywhere in the first three batches, also in a length, which makes a batch look torn.
    # Or in an offset, which is not under the CRC but must go on from the one before.
    for at in (
        0,
        5,
        6,
        8,
        11,
        16,
        20,
        100,
        second + 5,
        second + 8,
        second + 9,
        second + 10,
        second + 30,
        start_of_last - 1,
    ):
        files.locked.clear()
        content = bytes(files.files[path].data)
        files.files[path].data[at] ^= 0x10
        before = {name: bytes(inode.data) for name, inode in files.files.items()}
        operations = files.operations
        with pytest.raises(LogDamagedError) as refused:
            start(files, ManualClock(NOW_MS))
        assert str(path) in str(refused.value)
        assert f"position {refused.value.position}" in str(refused.value)
        assert "Nothing was changed" in str(refused.value)
        assert {name: bytes(inode.data) for name, inode in files.files.items()} == before
        assert files.operations == operations
        files.files[path].data[:] = content


def test_damage_in_a_segment_before_others_refuses_the_start():
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    writer = Writer(2)
    _, log = start(files, clock)
    for _ in range(20):
        writer.send(log)
    first = log.segments[0]
    assert len(log.segments) > 2
    files.restart()
    del files.files[first.path].data[first.size - 5 :]
    with pytest.raises(LogDamagedError, match=r"valid batches go on in \d{20}\.log"):
        start(files, clock)


def test_a_payload_that_holds_a_batch_is_no_damage_when_it_is_torn():
    """A torn batch whose value is itself a batch, with an offset that would fit, is cut like any other."""
    inner = batch([b"inner"], base_offset=1)
    files = MemoryFileSystem()
    clock = ManualClock(NOW_MS)
    _, log = start(files, clock)
    log.append(batch([b"first"]), leader_epoch=0, now_ms=NOW_MS)
    log.append(batch([inner, b"rest" * 20]), leader_epoch=0, now_ms=NOW_MS)
    path = log.segments.active.path
    files.restart()
    del files.files[path].data[-3:]
    _, log = start(files, clock)
    assert values_of(log) == [(0, b"first")]


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
        log = PartitionLog.open(DATA / "t-0", "t", 0, CONFIG, files, clock)
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
        log = PartitionLog.open(DATA / "t-0", "t", 0, CONFIG, files, clock)
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
        _, log = start(files, clock)
        writer.check(log)
        writer.send(log)


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
        _, log = start(files, clock)
        writer.check(log)
        writer.send(log)
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
    log = PartitionLog.open(DATA / "t-0", "t", 0, config, files, clock)
    log.append(batch([b"a"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing["fsync"] = lambda path: path.suffix == ".log"
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            log.append(batch([b"b"]), leader_epoch=0, now_ms=NOW_MS)
    files.failing.clear()
    assert log.log_end_offset == 2
    with pytest.raises(KafkaStorageError, match="started again"):
        log.append(batch([b"c"]), leader_epoch=0, now_ms=NOW_MS)
    log = PartitionLog.open(DATA / "t-0", "t", 0, config, files, clock)
    log.append(batch([b"c"]), leader_epoch=0, now_ms=NOW_MS)
    assert [value for _, value in values_of(log)] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("seed", range(30))
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
