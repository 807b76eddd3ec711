"""Finding records by their time.

Both indexes help: the time index says from which offset on the time is reached, the offset index where to
begin reading. Only batches that can hold the record are unpacked: each such `Candidate` is looked at apart
from the log, so that one that unpacks to much may be looked at beside the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.log.segments.segment import Segment
from odradek.log.storage.files import Buffer
from odradek.records._pyscan import INT64_MIN
from odradek.records.batch import BatchHeader, Record, TimestampType, batch_records, records_section
from odradek.records.kernel import kernel
from odradek.records.message_sets.message_set import message_records, parse_entry
from odradek.wire.epochs import NO_EPOCH


class OffsetForTimestamp(NamedTuple):
    """A record found by time. `leader_epoch` is -1 where it is not known."""

    offset: int
    timestamp: int
    leader_epoch: int


class Searched(NamedTuple):
    """The result of a search in a batch, and how many bytes of records were looked at."""

    offset_for_timestamp: OffsetForTimestamp | None
    unpacked_bytes: int


class Candidate(NamedTuple):
    """A batch or message that may hold the first record of a time.

    Attributes:
        entry: its bytes.
        last_offset: its last offset; what is looked for may also be in what follows.
        timestamp, from_offset: the record is not older than that, and not in front of that offset.
    """

    entry: Buffer
    last_offset: int
    timestamp: int
    from_offset: int

    @property
    def is_quick(self) -> bool:
        """Return whether it need not be unpacked."""
        return not parse_entry(self.entry).codec_id

    def search(self) -> OffsetForTimestamp | None:
        """Return the record, if it is here.

        Raises:
            KafkaError: the batch does not unpack.
        """
        return self.search_and_count().offset_for_timestamp

    def search_and_count(self) -> Searched:
        """As `search`, with what that took."""
        header = parse_entry(self.entry)
        if isinstance(header, BatchHeader):
            section = records_section(header, self.entry)
            return Searched(self._search_batch(header, section), len(section))
        # A wrapper says nowhere what it unpacks to; it is packed a thousandfold at most.
        records = message_records(header, memoryview(self.entry), check_crcs=False)
        return Searched(self._search_each(records, NO_EPOCH), len(self.entry))

    def _search_batch(self, header: BatchHeader, section: Buffer) -> OffsetForTimestamp | None:
        epoch = header.partition_leader_epoch
        if header.timestamp_type is TimestampType.CREATE_TIME and header.record_count:
            first = max(0, self.from_offset - header.base_offset)
            # The walk lists the records outside of two bounds, which is how appends are checked. With the
            # upper bound just below the time it lists those that are as new; and of `first + 1` of them at
            # least one is not in front of `first`.
            problem, _, _, newer = kernel.walk(
                section,
                header.record_count,
                header.base_timestamp,
                INT64_MIN,
                self.timestamp - 1,
                False,
                first + 1,
            )
            if not problem:
                for index, _, timestamp in newer:
                    if index >= first:
                        return OffsetForTimestamp(header.base_offset + index, timestamp, epoch)
                return None
        # Compacted, so that offsets have gaps; or what is wrong with it is told.
        return self._search_each(batch_records(header, self.entry), epoch)

    def _search_each(self, records: Iterable[Record], epoch: int) -> OffsetForTimestamp | None:
        for record in records:
            if record.timestamp >= self.timestamp and record.offset >= self.from_offset:
                return OffsetForTimestamp(record.offset, record.timestamp, epoch)
        return None


def newest_candidate(segments: Iterable[Segment], log_start_offset: int) -> Candidate | None:
    """The first batch that may hold a record with the largest timestamp; None where no record has one.

    Raises:
        OSError: a segment cannot be read.
    """
    # Only the first segment can hold records that were deleted.
    largest = [(segment.largest_from(log_start_offset), segment) for segment in segments]
    largest_time, newest = max(largest, key=lambda entry: entry[0].timestamp)
    if largest_time.timestamp < 0:
        return None
    return _first_candidate(newest, largest_time.timestamp, log_start_offset, largest_time.offset)


def candidate_not_older(segments: Iterable[Segment], from_offset: int, timestamp: int) -> Candidate | None:
    """The first batch that may hold a record at or above an offset that is not older than the timestamp.

    Raises:
        OSError: a segment cannot be read.
    """
    for segment in segments:
        largest = segment.known_max_timestamp().timestamp
        if segment.size and (largest < 0 or largest >= timestamp):
            near = segment.reached_before(timestamp).offset
            candidate = _first_candidate(segment, timestamp, from_offset, near)
            if candidate is not None:
                return candidate
    return None


def _first_candidate(segment: Segment, timestamp: int, from_offset: int, near: int) -> Candidate | None:
    """The segment's first; `near` is the last offset of a batch before which there is none."""
    for step in segment.walk(segment.seek(max(near, from_offset)), segment.size):
        if step.max_timestamp >= timestamp and step.last_offset >= from_offset:
            return Candidate(
                segment.pread(step.size, step.position), step.last_offset, timestamp, from_offset
            )
    return None


LATEST, EARLIEST = -1, -2


def bases_before(
    segments: Sequence[Segment],
    timestamp: int,
    most: int,
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
) -> list[int]:
    """Return where the segments begin that were last written to at a time or before it, the newest first.

    What ListOffsets 0 answers (UnifiedLog.legacyFetchOffsetsBefore). The log's end counts as the beginning of
    a segment that is written to now, unless the last one is empty.

    Args:
        timestamp: epoch ms; or `LATEST`: all; or `EARLIEST`: the first alone.
        most: how many offsets at most.

    Raises:
        OSError: a segment's time cannot be looked up.
    """
    starts = [(max(segment.base_offset, log_start_offset), segment.modified_ms()) for segment in segments]
    if segments[-1].size:
        starts.append((log_end_offset, now_ms))
    last = len(starts) - 1
    if timestamp == EARLIEST:
        last = 0
    elif timestamp != LATEST:
        while last >= 0 and starts[last][1] > timestamp:
            last -= 1
    count = max(0, min(most, last + 1))
    return sorted((offset for offset, _ in starts[last + 1 - count : last + 1]), reverse=True)
