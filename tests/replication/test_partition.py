"""A partition over a real log: leadership, high watermark, epochs, reading, looking up, deleting."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownLeaderEpochError,
)
from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.log.producers.producer_state import Origin
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.batch import iter_batches
from odradek.records.builder import BatchBuilder
from odradek.records.control import ControlType, end_marker_batch
from odradek.replication.lookups import OffsetLookup
from odradek.replication.partition import Partition
from odradek.replication.reading import Isolation
from odradek.util.clock import ManualClock

ME, SECOND, THIRD = 1, 2, 3
NOW = 1_700_000_000_000


def batch(count: int = 1, timestamp: int = NOW) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(timestamp + number, b"key%d" % number, b"value", ())
    return builder.build()


def make(config: LogConfig | None = None) -> tuple[Partition, list[Partition]]:
    clock = ManualClock(NOW)
    files = MemoryFileSystem()
    log = open_partition_log(Path("/data/t-0"), "t", 0, config or LogConfig(), files, clock)
    progress: list[Partition] = []
    return Partition(log, topic="t", index=0, broker_id=ME, on_progress=progress.append), progress


def lead(
    partition: Partition,
    epoch: int = 0,
    replicas: tuple[int, ...] = (ME,),
    isr: tuple[int, ...] | None = None,
) -> bool:
    return partition.make_leader(
        epoch, replicas=replicas, isr=isr if isr is not None else replicas, partition_epoch=0, now_ms=NOW
    )


def append(partition: Partition, count: int = 1, acks: int = 1) -> int:
    return partition.append(batch(count), required_acks=acks, now_ms=NOW).last_offset


def follow(partition: Partition, replica: int, offset: int, now_ms: int = NOW) -> None:
    partition.record_follower_fetch(replica, fetch_offset=offset, log_start_offset=0, now_ms=now_ms)


def test_alone_what_is_appended_is_committed() -> None:
    partition, progress = make()
    assert lead(partition)
    progress.clear()
    assert append(partition, 3, acks=-1) == 2
    assert partition.log.high_watermark == 3
    assert partition.committed(3) == (True, ErrorCode.NONE)
    assert partition.committed(4) == (False, ErrorCode.NONE)
    assert progress == [partition]


def test_only_the_leader_appends() -> None:
    partition, _ = make()
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
    lead(partition)
    append(partition)
    partition.make_follower(SECOND, 1, replicas=(ME, SECOND), isr=(SECOND,), partition_epoch=1)
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
    assert partition.committed(1) == (True, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert partition.log.log_end_offset == 1


def test_an_older_epoch_changes_nothing() -> None:
    partition, _ = make()
    lead(partition, epoch=5)
    assert not lead(partition, epoch=4)
    assert not partition.make_follower(SECOND, 4, replicas=(ME, SECOND), isr=(SECOND,), partition_epoch=9)
    assert (partition.leader_id, partition.leader_epoch) == (ME, 5)
    # The same epoch again is no new leadership, but may bring a new ISR.
    assert not lead(partition, epoch=5, replicas=(ME, SECOND), isr=(ME,))
    assert partition.isr == (ME,)


def test_the_high_watermark_is_the_least_of_the_isr() -> None:
    partition, progress = make()
    lead(partition, replicas=(ME, SECOND, THIRD))
    append(partition, 10)
    assert partition.log.high_watermark == 0
    follow(partition, SECOND, 10)
    assert partition.log.high_watermark == 0
    progress.clear()
    follow(partition, THIRD, 4)
    assert partition.log.high_watermark == 4
    assert progress == [partition]
    assert partition.committed(4)[0]
    assert not partition.committed(5)[0]
    # It does not go back when a follower does.
    follow(partition, THIRD, 2)
    assert partition.log.high_watermark == 4


def test_one_outside_the_isr_is_not_waited_for_once_it_lags() -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    append(partition, 5)
    # It counts as caught up at first, so that it can get into the ISR at all.
    assert partition.log.high_watermark == 0
    assert partition.advance_high_watermark(NOW + 30_001)
    assert partition.log.high_watermark == 5


def test_a_stranger_does_not_follow() -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND))
    with pytest.raises(NotLeaderOrFollowerError):
        follow(partition, 9, 0)


def test_acks_all_wants_min_insync_replicas() -> None:
    partition, _ = make(LogConfig(min_insync_replicas=2))
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    with pytest.raises(NotEnoughReplicasError):
        append(partition, acks=-1)
    assert partition.log.log_end_offset == 0
    assert append(partition, acks=1) == 0
    # Below min.insync.replicas the high watermark stands still.
    assert partition.log.high_watermark == 0


def test_an_isr_that_shrinks_after_the_append_is_told() -> None:
    partition, _ = make(LogConfig(min_insync_replicas=2))
    lead(partition, replicas=(ME, SECOND))
    append(partition, acks=-1)
    follow(partition, SECOND, 1)
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    assert partition.committed(1) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def test_min_insync_replicas_beyond_the_replicas_is_their_number() -> None:
    partition, _ = make(LogConfig(min_insync_replicas=3))
    lead(partition)
    assert append(partition, acks=-1) == 0
    assert partition.log.high_watermark == 1


@pytest.mark.parametrize(
    ("claimed", "error"), [(-1, None), (3, None), (2, FencedLeaderEpochError), (4, UnknownLeaderEpochError)]
)
def test_leader_epochs_are_compared(claimed: int, error: type[Exception] | None) -> None:
    partition, _ = make()
    lead(partition, epoch=3)
    if error is None:
        partition.check_leader_epoch(claimed)
    else:
        with pytest.raises(error):
            partition.check_leader_epoch(claimed)


@pytest.mark.parametrize(
    ("isolation", "records"),
    [(Isolation.READ_UNCOMMITTED, 4), (Isolation.READ_COMMITTED, 4), (Isolation.LOG_END, 10)],
)
def test_who_may_read_how_far(isolation: Isolation, records: int) -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND))
    for _ in range(10):
        append(partition)
    follow(partition, SECOND, 4)
    got = partition.read(0, 10**6, isolation=isolation, min_one_batch=True)
    assert len(got.records) == records * len(batch())
    assert (got.high_watermark, got.log_start_offset, got.log_end_offset) == (4, 0, 10)
    # Between the high watermark and the log end there is nothing to read, and no error.
    at = partition.read(7, 10**6, isolation=isolation, min_one_batch=True)
    assert len(at.records) == (3 * len(batch()) if isolation == Isolation.LOG_END else 0)


def test_a_committed_reader_is_told_what_was_aborted() -> None:
    partition, _ = make()
    lead(partition)

    def transactional(producer_id: int, sequence: int) -> None:
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        builder.append(NOW, b"k", b"v", ())
        partition.append(builder.build(), required_acks=1, now_ms=NOW)

    def end(producer_id: int, kind: ControlType) -> None:
        marker = end_marker_batch(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
        )
        partition.append(marker, required_acks=1, now_ms=NOW, origin=Origin.COORDINATOR)

    transactional(7, 0)  # 0
    transactional(8, 0)  # 1
    end(7, ControlType.ABORT)  # 2
    end(8, ControlType.COMMIT)  # 3
    transactional(7, 1)  # 4
    end(7, ControlType.ABORT)  # 5
    transactional(9, 0)  # 6: open

    def read(offset: int, isolation: Isolation, max_bytes: int = 10**6) -> tuple[int, list[tuple[int, int]]]:
        got = partition.read(offset, max_bytes, isolation=isolation, min_one_batch=True)
        records = sum(header.record_count for header, _ in iter_batches(got.records))
        return records, [(one.producer_id, one.first_offset) for one in got.aborted_transactions]

    assert partition.readable_end(Isolation.READ_COMMITTED) == 6
    assert read(0, Isolation.READ_COMMITTED) == (6, [(7, 0), (7, 4)])
    assert read(3, Isolation.READ_COMMITTED) == (3, [(7, 4)])
    # What lies behind the records that were read is of no use yet.
    assert read(0, Isolation.READ_COMMITTED, max_bytes=1) == (1, [(7, 0)])
    assert read(0, Isolation.READ_UNCOMMITTED) == (7, [])


def test_reading_outside_the_log() -> None:
    partition, _ = make()
    lead(partition)
    append(partition, 3)
    assert partition.read(3, 100, isolation=0, min_one_batch=True).records == b""
    for offset in (4, -1):
        with pytest.raises(OffsetOutOfRangeError):
            partition.read(offset, 100, isolation=0, min_one_batch=True)


def test_a_fetcher_that_has_diverged_is_told_where() -> None:
    partition, _ = make()
    lead(partition, epoch=1)
    append(partition, 5)
    lead(partition, epoch=3)
    append(partition, 5)

    def read(offset: int, last_epoch: int) -> tuple[int, int] | None:
        return partition.read(
            offset, 10**6, isolation=0, min_one_batch=True, last_fetched_epoch=last_epoch
        ).diverging_epoch

    assert read(5, 1) is None
    assert read(7, 3) is None
    assert read(7, 1) == (1, 5)
    assert read(5, 2) == (1, 5)
    assert read(5, 0) == (0, 0)
    with pytest.raises(OffsetOutOfRangeError):
        read(5, 9)


def test_where_an_epoch_ended() -> None:
    partition, _ = make()
    lead(partition, epoch=1)
    append(partition, 5)
    lead(partition, epoch=3)
    assert partition.end_offset_for_epoch(1) == (1, 5)
    assert partition.end_offset_for_epoch(2) == (1, 5)
    assert partition.end_offset_for_epoch(3) == (3, 5)
    assert partition.end_offset_for_epoch(9) == (-1, -1)
    assert partition.end_offset_for_epoch(0) == (0, 0)


LOOKUPS = [
    (-1, OffsetLookup(6, -1, 2)),
    (-2, OffsetLookup(0, -1, 2)),
    (-3, OffsetLookup(5, NOW + 5, 2)),
    (-4, OffsetLookup(0, -1, 2)),
    (-5, OffsetLookup(-1, -1, -1)),
    (-6, OffsetLookup(-1, -1, -1)),
    (NOW + 3, OffsetLookup(3, NOW + 3, 2)),
    (0, OffsetLookup(0, NOW, 2)),
    (NOW + 6, OffsetLookup(-1, -1, -1)),
]


@pytest.mark.parametrize(("timestamp", "found"), LOOKUPS)
def test_offsets_by_time(timestamp: int, found: OffsetLookup) -> None:
    partition, _ = make()
    lead(partition, epoch=2)
    append(partition, 6)
    assert partition.offset_for_timestamp(timestamp, isolation=0) == found


def test_offsets_are_not_told_while_the_high_watermark_lags_behind_the_leadership() -> None:
    partition, _ = make()
    lead(partition, epoch=0, replicas=(ME, SECOND))
    append(partition, 6)
    follow(partition, SECOND, 2)
    lead(partition, epoch=1, replicas=(ME, SECOND))
    with pytest.raises(OffsetNotAvailableError):
        partition.offset_for_timestamp(-1, isolation=0)
    with pytest.raises(OffsetNotAvailableError):
        partition.offset_for_timestamp(NOW + 3, isolation=0)
    assert partition.offset_for_timestamp(NOW + 1, isolation=0).offset == 1
    assert partition.offset_for_timestamp(-2, isolation=0).offset == 0
    assert partition.offset_for_timestamp(-1, isolation=None).offset == 6
    follow(partition, SECOND, 6)
    assert partition.offset_for_timestamp(-1, isolation=0).offset == 6


def test_deleting_records() -> None:
    partition, progress = make()
    lead(partition)
    append(partition, 6)
    progress.clear()
    assert partition.delete_records_before(4) == 4
    assert (partition.low_watermark, progress) == (4, [partition])
    assert partition.delete_records_before(-1) == 6
    with pytest.raises(OffsetOutOfRangeError):
        partition.delete_records_before(7)
    with pytest.raises(OffsetOutOfRangeError):
        partition.delete_records_before(-2)
    with pytest.raises(OffsetOutOfRangeError):
        partition.read(3, 100, isolation=0, min_one_batch=True)


def test_a_compacted_topic_does_not_delete_records() -> None:
    partition, _ = make(LogConfig(cleanup_policy=("compact",)))
    lead(partition)
    append(partition, 3)
    with pytest.raises(PolicyViolationError):
        partition.delete_records_before(1)


def test_topic_ids_are_compared_when_both_sides_have_one() -> None:
    partition, _ = make()
    lead(partition)
    partition.require_topic_id(b"x" * 16)
    partition.log.set_topic_id(b"a" * 16)
    partition.require_topic_id(bytes(16))
    partition.require_topic_id(b"a" * 16)
    with pytest.raises(InconsistentTopicIdError):
        partition.require_topic_id(b"b" * 16)
