"""Who may read how far, what a read gives, and who is sent elsewhere: one rule for looking and reading."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from odradek.log.producers.producer_state import Origin
from odradek.records.batch import iter_batches
from odradek.records.builder import BatchBuilder
from odradek.records.control import ControlType, end_marker_batch
from odradek.replication.partition import Partition
from odradek.replication.reading import (
    Isolation,
    Reader,
    note_follower,
    read_partition,
    readable_end,
    reader_of,
    visible_end,
)
from odradek.wire.messages.fetch import EpochEndOffset, FetchPartition, PartitionData

from .replicas import ME, NOW, SECOND, append, batch, follow, lead, make


def end_for(
    partition: Partition,
    offset: int = 0,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    only_leader: bool = True,
    **wanted: Any,
) -> int | None:
    reader = Reader(-1, isolation, only_leader)
    return readable_end(partition, FetchPartition(fetch_offset=offset, **wanted), reader)


def read(
    partition: Partition,
    offset: int = 0,
    max_bytes: int = 10**6,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    only_leader: bool = True,
    min_one_batch: bool = True,
    **wanted: Any,
) -> PartitionData:
    return read_partition(
        partition,
        FetchPartition(fetch_offset=offset, **wanted),
        Reader(-1, isolation, only_leader),
        max_bytes,
        min_one_batch=min_one_batch,
    )


@pytest.mark.parametrize(
    ("isolation", "end"),
    [(Isolation.READ_UNCOMMITTED, 4), (Isolation.READ_COMMITTED, 4), (Isolation.LOG_END, 10)],
)
def test_who_may_read_how_far(isolation: Isolation, end: int) -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND))
    for _ in range(10):
        append(partition)
    follow(partition, SECOND, 4)
    assert end_for(partition, isolation=isolation) == end
    got = read(partition, isolation=isolation)
    assert len(got.records) == end * len(batch())
    assert (got.high_watermark, got.log_start_offset) == (4, 0)
    # Between the high watermark and the log end there is nothing to read, and no error.
    assert end_for(partition, 7, isolation=isolation) == end
    at = read(partition, 7, isolation=isolation)
    assert len(at.records) == (3 * len(batch()) if isolation == Isolation.LOG_END else 0)


def test_bytes_are_bounded_but_for_a_first_batch() -> None:
    partition, _ = make()
    lead(partition)
    for _ in range(3):
        append(partition)
    size = len(batch())
    assert len(read(partition, max_bytes=2 * size + 1).records) == 2 * size
    assert len(read(partition, max_bytes=0).records) == size
    assert read(partition, max_bytes=0, min_one_batch=False).records == b""
    assert read(partition, max_bytes=size - 1, min_one_batch=False).records == b""


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

    def seen(offset: int, isolation: Isolation, max_bytes: int = 10**6) -> tuple[int, list[tuple[int, int]]]:
        got = read(partition, offset, max_bytes, isolation=isolation)
        records = sum(header.record_count for header, _ in iter_batches(got.records))
        return records, [(one.producer_id, one.first_offset) for one in got.aborted_transactions or ()]

    assert visible_end(partition.log, Isolation.READ_COMMITTED) == 6
    assert seen(0, Isolation.READ_COMMITTED) == (6, [(7, 0), (7, 4)])
    assert seen(3, Isolation.READ_COMMITTED) == (3, [(7, 4)])
    # What lies behind the records that were read is of no use yet.
    assert seen(0, Isolation.READ_COMMITTED, max_bytes=1) == (1, [(7, 0)])
    assert seen(0, Isolation.READ_UNCOMMITTED) == (7, [])


def test_a_reader_outside_the_log_is_refused() -> None:
    partition, _ = make()
    lead(partition)
    append(partition, 3)
    append(partition, 3)
    assert read(partition, 6).records == b""
    partition.delete_records_before(3)
    for offset in (7, -1, 2):
        for ask in (read, end_for):
            with pytest.raises(OffsetOutOfRangeError):
                ask(partition, offset)


@pytest.mark.parametrize(
    ("claimed", "error"), [(-1, None), (3, None), (2, FencedLeaderEpochError), (4, UnknownLeaderEpochError)]
)
def test_a_reader_must_know_the_leader_epoch(claimed: int, error: type[Exception] | None) -> None:
    partition, _ = make()
    lead(partition, epoch=3)
    append(partition, 2)
    for ask in (read, end_for):
        if error is None:
            ask(partition, current_leader_epoch=claimed)
        else:
            with pytest.raises(error):
                ask(partition, current_leader_epoch=claimed)


def test_a_follower_is_read_from_by_those_who_may() -> None:
    partition, _ = make()
    lead(partition)
    append(partition, 2)
    partition.make_follower(SECOND, 5, replicas=(ME, SECOND), isr=(SECOND,), partition_epoch=1)
    assert end_for(partition, only_leader=False) == 2
    assert len(read(partition, only_leader=False).records) == len(batch(2))
    for ask in (read, end_for):
        with pytest.raises(NotLeaderOrFollowerError):
            ask(partition)


def test_a_reader_that_has_diverged_is_told_where() -> None:
    partition, _ = make()
    lead(partition, epoch=1)
    append(partition, 5)
    lead(partition, epoch=3)
    append(partition, 5)

    def diverging(offset: int, last_epoch: int) -> tuple[int, int]:
        got = read(partition, offset, last_fetched_epoch=last_epoch)
        has_diverged = got.diverging_epoch != EpochEndOffset()
        assert bool(got.records) != has_diverged
        assert (end_for(partition, offset, last_fetched_epoch=last_epoch) is None) == has_diverged
        return got.diverging_epoch.epoch, got.diverging_epoch.end_offset

    assert diverging(5, 1) == (-1, -1)
    assert diverging(7, 3) == (-1, -1)
    assert diverging(7, 1) == (1, 5)
    assert diverging(5, 2) == (1, 5)
    assert diverging(5, 0) == (0, 0)
    for ask in (read, end_for):
        with pytest.raises(OffsetOutOfRangeError):
            ask(partition, 5, last_fetched_epoch=9)


def test_a_followers_fetch_moves_the_high_watermark_if_it_may() -> None:
    partition, _ = make()
    lead(partition, epoch=2, replicas=(ME, SECOND))
    append(partition, 3)
    with pytest.raises(FencedLeaderEpochError):
        note_follower(partition, FetchPartition(fetch_offset=3, current_leader_epoch=1), SECOND, NOW)
    assert partition.log.high_watermark == 0
    note_follower(partition, FetchPartition(fetch_offset=3, current_leader_epoch=2), SECOND, NOW)
    assert partition.log.high_watermark == 3
    with pytest.raises(NotLeaderOrFollowerError):
        note_follower(partition, FetchPartition(fetch_offset=3), 9, NOW)


@pytest.mark.parametrize(
    ("replica_id", "isolation_level", "version", "reader"),
    [
        (-1, 0, 4, (-1, 0, True)),
        (-1, 1, 10, (-1, 1, True)),
        (-1, 1, 11, (-1, 1, False)),
        (-1, 5, 11, (-1, 0, False)),
        (-2, 0, 11, (-2, 0, False)),
        (3, 1, 4, (3, 2, True)),
        (3, 0, 18, (3, 2, True)),
    ],
)
def test_who_sends_a_fetch(
    replica_id: int, isolation_level: int, version: int, reader: tuple[int, int, bool]
) -> None:
    assert reader_of(replica_id, isolation_level, version) == reader
