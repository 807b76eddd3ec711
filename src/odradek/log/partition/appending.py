"""Writing to the end of a log: what is checked there, the roll to a new segment, what is noted afterwards.

Everything here serves the appends of `PartitionLog`, which says what may be raised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.errors import KafkaStorageError, OffsetOutOfRangeError, RecordBatchTooLargeError
from odradek.log.partition.append_rules import newest_of, stamped
from odradek.log.partition.format_conversion import Prepared, prepare
from odradek.log.producers.producer_replay import read_marker
from odradek.log.producers.producer_state import Origin
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_list import open_segment
from odradek.log.segments.time_index import NO_TIMESTAMP, TimestampOffset
from odradek.log.segments.txn_index import AbortedTxn
from odradek.log.storage.checkpoint_file import EpochEntry
from odradek.log.storage.files import Buffer
from odradek.log.storage.gap_marker import note_gaps
from odradek.records.batch import BatchHeader, TimestampType
from odradek.records.control import EndTransactionMarker
from odradek.records.message_set import check_entry, iter_entries

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class AppendInfo(NamedTuple):
    """What an append came to. `log_append_time_ms` is -1 for CreateTime topics.

    With `duplicate` nothing was appended: the offsets are those of the first time the batch was sent.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Duplicate(NamedTuple):
    """A batch that is here already: its offsets and the timestamp that it got."""

    first_offset: int
    last_offset: int
    timestamp: int


def append_prepared(
    log: PartitionLog, prepared: Prepared, leader_epoch: int, origin: Origin, now_ms: int
) -> AppendInfo:
    """See `PartitionLog.append_prepared`."""
    rules, placed = log.rules, prepared.placed
    if prepared.rules is not rules or (placed is not None and placed.first_offset != log.log_end_offset):
        prepared = prepare(
            rules,
            prepared.source,
            base_offset=log.log_end_offset,
            from_client=origin is Origin.CLIENT,
            now_ms=now_ms,
            produce_version=prepared.produce_version,
        )
        placed = prepared.placed
    if prepared.headers:
        return append_batches(log, prepared.records, prepared.headers, leader_epoch, origin, now_ms)
    time_ms = now_ms if rules.kind is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP
    if placed is None:
        return AppendInfo(-1, -1, time_ms, log.log_start_offset)
    if log.epochs.latest >= 0:
        _forget_epochs(log)
    records = placed.records
    write(log, [records], len(records), prepared.entries, prepared.newest, placed.first_offset, now_ms)
    flush_if_due(log)
    return AppendInfo(placed.first_offset, placed.last_offset, time_ms, log.log_start_offset)


def _forget_epochs(log: PartitionLog) -> None:
    """The format was set back: what was known of epochs says nothing of what comes now (as in Kafka)."""
    try:
        log.epochs.clear()
    except OSError as error:
        raise log.storage_error("writing the leader epochs", error) from error


def append_batches(
    log: PartitionLog,
    records: Buffer,
    headers: Sequence[BatchHeader],
    leader_epoch: int,
    origin: Origin,
    now_ms: int,
) -> AppendInfo:
    """Append batches that were validated, and are in the codec that the topic wants."""
    kind = log.rules.kind
    markers = check_producers(log, headers, records, origin)
    if isinstance(markers, Duplicate):
        return AppendInfo(*markers, log.log_start_offset, True)
    base_offset = log.log_end_offset
    parts, size, headers = stamped(
        records, headers, kind, base_offset=base_offset, leader_epoch=leader_epoch, now_ms=now_ms
    )
    if leader_epoch != log.epochs.latest and leader_epoch >= 0:
        log.assign_epochs([EpochEntry(leader_epoch, base_offset)])
    last = headers[-1]
    last_offset = last[0] + last[6]
    if len(headers) == 1:
        newest = TimestampOffset(last[8], last_offset)
        entries = [(size, last_offset)]
    else:
        newest = newest_of(headers)
        entries = [(header.size, header.last_offset) for header in headers]
    segment = write(log, parts, size, entries, newest, base_offset, now_ms)
    note_producers(log, segment, headers, markers)
    flush_if_due(log)
    time_ms = now_ms if kind is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP
    return AppendInfo(base_offset, log.log_end_offset - 1, time_ms, log.log_start_offset)


def check_producers(
    log: PartitionLog, headers: Sequence[BatchHeader], records: Buffer, origin: Origin
) -> list[EndTransactionMarker | None] | Duplicate:
    """The marker of each batch, or what to answer for a batch that is here already."""
    producers = log.producers
    markers: list[EndTransactionMarker | None] = []
    position = 0
    for header in headers:
        marker = None
        if header[9] >= 0:
            if header.is_control:
                marker = read_marker(header, memoryview(records)[position : position + header.size])
                if marker is not None:
                    producers.check_marker(header, marker)
            else:
                if origin is Origin.CLIENT:
                    seen = producers.find_duplicate(header)
                    if seen is not None:
                        return Duplicate(seen.first_offset, seen.last_offset, seen.timestamp)
                producers.check(header, origin)
        markers.append(marker)
        position += header.size
    return markers


def require_writable(log: PartitionLog, size: int) -> None:
    """Raise `KafkaError` where so many bytes cannot be appended."""
    if size > log.config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"{size} bytes are more than a segment of {log.config.segment_bytes} bytes takes"
        )
    if log.syncing.failed:
        raise KafkaStorageError("an earlier sync to the disk failed; the broker must be started again")


def segment_ms(log: PartitionLog, segment: Segment) -> int:
    """`segment.ms` less the segment's own share of `segment.jitter.ms`; no more than
    `max.compaction.lag.ms` of a compacted log, which needs complete segments to be compacted."""
    config = log.config
    limit = config.segment_ms
    if config.segment_jitter_ms:
        limit -= hash((log.partition, segment.base_offset)) % min(config.segment_jitter_ms, limit)
    return min(limit, config.max_compaction_lag_ms) if config.compact else limit


def write(
    log: PartitionLog,
    parts: Sequence[Buffer],
    size: int,
    entries: Sequence[tuple[int, int]],
    newest: TimestampOffset,
    first_offset: int,
    now_ms: int,
) -> Segment:
    """Write batches or messages at the log's end; the segment that has them.

    Args:
        parts, size: the bytes, and how many they are.
        entries: size and last offset of each batch or message.
        newest: the largest timestamp, and the last offset of what has it.
        first_offset: of the first record.
    """
    require_writable(log, size)
    config = log.config
    last_offset = entries[-1][1]
    try:
        segment = log.segments.active
        if segment.should_roll(
            size, last_offset, newest[0], now_ms, config.segment_bytes, segment_ms(log, segment)
        ):
            segment = log.roll(now_ms, first_offset)
        segment.append(parts, size, entries, newest)
    except OSError as error:
        raise log.storage_error("appending", error) from error
    log.log_end_offset = log.producers.end_offset = last_offset + 1
    return segment


def flush_if_due(log: PartitionLog) -> None:
    """Sync the log when `flush.messages` have come."""
    if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
        log.flush()


def note_producers(
    log: PartitionLog,
    segment: Segment,
    headers: Sequence[BatchHeader],
    markers: Sequence[EndTransactionMarker | None],
) -> None:
    """Take note of what was appended, sequences and ends of transactions."""
    for header, marker in zip(headers, markers, strict=True):
        if header[9] >= 0:
            note_producer(log, segment, header, marker)


def note_producer(
    log: PartitionLog, segment: Segment, header: BatchHeader, marker: EndTransactionMarker | None
) -> None:
    """As `note_producers`, for one batch that has a producer."""
    completed = log.producers.append(header, marker)
    if completed is None:
        return
    last_stable_offset = log.producers.complete(completed)
    if completed.aborted:
        entry = AbortedTxn(
            completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )
        try:
            segment.txn_index.append(entry)
        except OSError as error:
            # It is known in memory, written with the next one, and found again by recovery.
            logger.warning("%s not yet in %s: %s", entry, segment.txn_index.path, error)


def append_as_given(log: PartitionLog, records: Buffer, now_ms: int) -> AppendInfo | None:
    """See `PartitionLog.append_follower`."""
    headers, markers = [], []
    entries: list[tuple[int, int]] = []
    epochs: list[EpochEntry] = []
    newest = TimestampOffset(-1, -1)
    first_offset = None
    size = 0
    for header, entry in iter_entries(records):
        check_entry(header, entry)
        next_offset = entries[-1][1] + 1 if entries else log.log_end_offset
        base_offset = header.base_offset if isinstance(header, BatchHeader) else header.offset
        if base_offset < next_offset or header.last_offset < base_offset:
            raise OffsetOutOfRangeError(
                f"offsets {base_offset} to {header.last_offset} cannot come at {next_offset}"
            )
        if isinstance(header, BatchHeader):
            headers.append(header)
            is_marker = header.is_control and header.record_count
            markers.append(read_marker(header, entry) if is_marker else None)
            if header.partition_leader_epoch >= 0:
                epochs.append(EpochEntry(header.partition_leader_epoch, base_offset))
        if header.max_timestamp > newest.timestamp:
            newest = TimestampOffset(header.max_timestamp, header.last_offset)
        if first_offset is None:
            # Where the messages in a wrapper begin is not known without unpacking it.
            known = isinstance(header, BatchHeader) or not header.is_wrapper
            first_offset = base_offset if known else next_offset
        entries.append((header.size, header.last_offset))
        size += header.size
    if first_offset is None:
        return None
    if first_offset > log.log_end_offset:
        try:
            note_gaps(log.files, log.directory)
        except OSError as error:
            raise log.storage_error("appending", error) from error
    log.assign_epochs(epochs)
    if newest.offset < 0:
        newest = TimestampOffset(-1, entries[-1][1])
    segment = write(log, [memoryview(records)[:size]], size, entries, newest, first_offset, now_ms)
    note_producers(log, segment, headers, markers)
    flush_if_due(log)
    return AppendInfo(first_offset, log.log_end_offset - 1, NO_TIMESTAMP, log.log_start_offset)


def roll(log: PartitionLog, now_ms: int, first_offset: int | None) -> Segment:
    """See `PartitionLog.roll`."""
    base = max(log.log_end_offset, first_offset or 0)
    old = log.segments.active
    if old.base_offset == base and old.size == 0:
        return old
    log.producers.end_offset = base
    log.snapshots.take(log.producers, sync=False)
    old.become_inactive()
    if log.syncing.names_made != log.syncing.names_synced[0]:
        # So that a power failure cannot keep the new segment and lose the name of an older one.
        log.files.fsync_dir(log.directory)
    segment = open_segment(log.files, log.directory, base, log.config)
    try:
        segment.create(now_ms, log.config.segment_bytes if log.config.preallocate else 0)
    except OSError:
        segment.release()
        for path in segment.paths():
            log.files.remove(path)
        raise
    old.forget_tail()
    old.release()
    log.segments.add(segment)
    log.syncing.names_made += 1
    return segment
