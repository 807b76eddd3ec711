"""Batches to append, and what a log is read back as."""

from __future__ import annotations

from odradek.log import PartitionLog
from odradek.records.batch import Record, iter_batches, iter_records
from odradek.records.builder import BatchBuilder
from odradek.records.control import ControlType, end_marker_batch

NOW_MS = 1_700_000_000_000


def batch(
    values: list[bytes],
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    timestamp: int = NOW_MS,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A batch of one record per value, one millisecond apart."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )
    for number, value in enumerate(values):
        builder.append(timestamp + number, b"key", value, [])
    return builder.build()


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> bytes:
    """A transaction marker."""
    return end_marker_batch(
        ControlType.COMMIT if commit else ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=NOW_MS,
    )


def records_of(log: PartitionLog, max_bytes: int = 1 << 20) -> list[Record]:
    """All records from the log's start to its end."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes, upper_bound=log.log_end_offset, min_one_batch=True).records
        if not data:
            break
        found += [record for record in iter_records(data) if record.offset >= offset]
        offset = max(header.next_offset for header, _ in iter_batches(data))
    return found


def values_of(log: PartitionLog, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """Offset and value of all records."""
    return [(record.offset, record.value) for record in records_of(log, max_bytes)]
