# compiled: mypyc
"""Writing to the end of a log: validate, check the producers, roll to a new segment when the last is full,
write.

The batches that a leader appends get their place here: base offset and leader epoch, which stand in front of
the CRC, so that a sender's bytes are usually written as they came. The batches that a follower appends have
their place already.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from mypy_extensions import mypyc_attr

from odradek.errors import KafkaStorageError, OffsetOutOfRangeError, RecordBatchTooLargeError
from odradek.log.partition.append_rules import newest_of
from odradek.log.partition.flushing import NOT_WRITTEN_TO
from odradek.log.partition.format_conversion import Prepared, prepare
from odradek.log.partition.truncation import TruncatableLog
from odradek.log.producers.producer_appends import Duplicate, Markers, check_producers, note_producers
from odradek.log.producers.producer_replay import read_marker
from odradek.log.producers.producer_state import Origin
from odradek.log.segments.segment import Segment
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.checkpoint_file import EpochEntry
from odradek.log.storage.files import Buffer
from odradek.log.storage.gap_marker import note_gaps
from odradek.records.batch import CONTROL_BIT, MAGIC_AT, MAGIC_V2, BatchHeader
from odradek.records.control import EndTransactionMarker
from odradek.records.message_sets.message_set import Entry, check_entry
from odradek.records.patch import assign_offsets
from odradek.records.validate import AcceptedBatch

logger = logging.getLogger(__name__)

_CLIENT: Final = Origin.CLIENT


# A free list of one object: appends follow each other, and each result reuses the memory of the last
# (docs/decisions/the-walk-compiled.md). Acyclic: it holds numbers alone, which the collector need not look
# at.
@mypyc_attr(acyclic=True, free_list_len=1)
@final
class AppendInfo:
    """The result of an append. `log_append_time_ms` is -1 for CreateTime topics.

    With `duplicate` nothing was appended: the offsets are those of the first time the batch was sent.
    `converted`: the records had another format than the log's.
    """

    __slots__ = (
        "converted",
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.converted = False


class _Given(NamedTuple):
    """Batches and messages that have their offsets, as a follower gets them."""

    headers: list[BatchHeader]
    markers: Markers
    entries: list[tuple[int, int]]
    epochs: list[EpochEntry]
    newest: TimestampOffset
    first_offset: int
    size: int


class AppendableLog(TruncatableLog):
    """The part of a `PartitionLog` that writes to its end."""

    # As the leader.

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: Origin = _CLIENT,
        now_ms: int,
        produce_version: int | None = None,
    ) -> AppendInfo:
        """Append as the partition's leader: validate, convert if need be, assign offsets, write.

        Whatever it raises, nothing is appended then.

        Raises:
            KafkaError: as `validate_batches`, `validate_message_set`, the conversions and `check_producers`;
                RECORD_LIST_TOO_LARGE for more than a segment takes.
            KafkaStorageError: the files could not be written.
        """
        rules = self.rules
        # Produce below 3 brings messages of magic 0 or 1 (KIP-98): either side of a conversion.
        if not rules.holds_batches or (produce_version is not None and produce_version < 3):
            prepared = self.prepare(
                records, now_ms=now_ms, produce_version=produce_version, from_client=origin is _CLIENT
            )
            return self.append_prepared(prepared, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
        batch = rules.accept(records, now_ms, produce_version)
        if batch is None:
            records, headers = rules.validated(
                records, from_client=origin is _CLIENT, now_ms=now_ms, produce_version=produce_version
            )
        elif rules.keeps(batch):
            return self._append_as_sent(records, batch, leader_epoch, origin, now_ms)
        else:
            records, headers = rules.recoded(records, [batch.header(records)])
        return self._append_batches(records, headers, leader_epoch, origin, now_ms)

    def prepare(
        self, records: Buffer, *, now_ms: int, produce_version: int | None, from_client: bool = True
    ) -> Prepared:
        """Do the part of `append` that changes nothing, for another thread where it takes long.

        Raises:
            KafkaError: as `append`, but for what only the log's state can say.
        """
        return prepare(
            self.rules,
            records,
            base_offset=self.log_end_offset,
            from_client=from_client,
            now_ms=now_ms,
            produce_version=produce_version,
        )

    def is_current(self, prepared: Prepared) -> bool:
        """Return whether `append_prepared` takes this as it is, and does not make it anew."""
        placed = prepared.placed
        # Only converted messages were given offsets beforehand: these stand inside of what is compressed.
        return prepared.rules is self.rules and (placed is None or placed.first_offset == self.log_end_offset)

    def append_prepared(
        self, prepared: Prepared, *, leader_epoch: int, origin: Origin = _CLIENT, now_ms: int
    ) -> AppendInfo:
        """Do the rest of `append`."""
        info = self._append_prepared(prepared, leader_epoch, origin, now_ms)
        source = prepared.source
        info.converted = len(source) > MAGIC_AT and source[MAGIC_AT] != self.rules.magic
        return info

    def _append_prepared(
        self, prepared: Prepared, leader_epoch: int, origin: Origin, now_ms: int
    ) -> AppendInfo:
        rules, placed = self.rules, prepared.placed
        # The config has changed, or something else was appended, while another thread prepared this.
        if not self.is_current(prepared):
            prepared = prepare(
                rules,
                prepared.source,
                base_offset=self.log_end_offset,
                from_client=origin is _CLIENT,
                now_ms=now_ms,
                produce_version=prepared.produce_version,
            )
            placed = prepared.placed
        accepted = prepared.accepted
        if accepted is not None:
            source = prepared.source
            if rules.keeps(accepted):
                return self._append_as_sent(source, accepted, leader_epoch, origin, now_ms)
            recoded, headers = rules.recoded(source, [accepted.header(source)])
            return self._append_batches(recoded, headers, leader_epoch, origin, now_ms)
        if prepared.headers:
            return self._append_batches(prepared.records, prepared.headers, leader_epoch, origin, now_ms)
        time_ms = now_ms if rules.is_append_time else NO_TIMESTAMP
        if placed is None:
            return AppendInfo(-1, -1, time_ms, self.log_start_offset)
        # Messages are written, so the format was set back since the last batch.
        if self.epochs.latest >= 0:
            self._forget_epochs()
        records = placed.records
        self._write([records], len(records), prepared.entries, prepared.newest, placed.first_offset, now_ms)
        self._flush_if_due()
        return AppendInfo(placed.first_offset, placed.last_offset, time_ms, self.log_start_offset)

    def _forget_epochs(self) -> None:
        """The format was set back: what was known of epochs says nothing of what comes now (as in Kafka)."""
        try:
            self.epochs.clear()
        except OSError as error:
            raise self.storage_error("writing the leader epochs", error) from error

    def _append_as_sent(
        self, records: Buffer, batch: AcceptedBatch, leader_epoch: int, origin: Origin, now_ms: int
    ) -> AppendInfo:
        """Append a batch that is stored as it came, but for its place in the log."""
        has_producer = batch.producer_id >= 0
        # The usual batch is known to be in order by five comparisons, without a header made for the question.
        if has_producer and (origin is not _CLIENT or not self.producers.is_next(batch)):
            checked = check_producers(self.producers, (batch.header(records),), records, origin)
            if isinstance(checked, Duplicate):
                return self._known(checked)
        base_offset = self.log_end_offset
        last_offset = base_offset + batch.last_offset_delta
        # Before the batch: an epoch without records does no harm, records that no epoch names would not be
        # cut where they have to be (KIP-101).
        self._begin_epoch(leader_epoch, base_offset)
        size = len(records)
        timestamp = batch.max_timestamp
        try:
            segment = self._segment_for(size, base_offset, last_offset, timestamp, now_ms)
            segment.append_batch(records, size, base_offset, leader_epoch, last_offset, timestamp)
        except OSError as error:
            raise self.storage_error("appending", error) from error
        self._grow_to(last_offset)
        if has_producer:
            try:
                self.producers.append_batch(batch, base_offset)
            except Exception:
                # The batch would be taken for a new batch when its producer, told of the error, sends it
                # again.
                self._undo_append(base_offset)
                raise
        self._flush_if_due()
        return AppendInfo(base_offset, last_offset, NO_TIMESTAMP, self.log_start_offset)

    def _known(self, seen: Duplicate) -> AppendInfo:
        """The answer for a batch that is here already."""
        # With the first offsets and no error: to its producer it is the answer that got lost.
        return AppendInfo(
            seen.first_offset, seen.last_offset, seen.timestamp, self.log_start_offset, duplicate=True
        )

    def _append_batches(
        self, records: Buffer, headers: Sequence[BatchHeader], leader_epoch: int, origin: Origin, now_ms: int
    ) -> AppendInfo:
        """Append batches that were validated, and are in the codec that the topic wants."""
        checked = check_producers(self.producers, headers, records, origin)
        if isinstance(checked, Duplicate):
            return self._known(checked)
        rules = self.rules
        base_offset = self.log_end_offset
        self._begin_epoch(leader_epoch, base_offset)
        time_ms = now_ms if rules.is_append_time else NO_TIMESTAMP
        # The sender's bytes stay as they are: offsets and timestamps are written into a copy.
        copy = bytearray(records)
        headers = assign_offsets(
            copy,
            base_offset,
            leader_epoch=leader_epoch,
            timestamp_type=rules.kind,
            now_ms=now_ms,
            headers=headers,
        )
        entries = [(header.size, header.last_offset) for header in headers]
        segment = self._write([copy], len(copy), entries, newest_of(headers), base_offset, now_ms)
        self._note_producers(segment, headers, checked, base_offset)
        self._flush_if_due()
        return AppendInfo(base_offset, self.log_end_offset - 1, time_ms, self.log_start_offset)

    # As a follower.

    def append_entries(
        self, records: memoryview, entries: Sequence[tuple[Entry, memoryview]], *, now_ms: int | None = None
    ) -> AppendInfo | None:
        """Append what the leader sent, at the offsets it has there; None if there is no whole batch.

        Args:
            records: whole batches or messages.
            entries: all of these, as `iter_entries` gives them.
            now_ms: wall clock.

        Whatever it raises, nothing is appended then.

        Raises:
            CorruptRecordError: a CRC or a length is wrong.
            OffsetOutOfRangeError: the records begin below the log's end.
            KafkaStorageError: the files could not be written.
        """
        end_offset = self.log_end_offset
        given = _read_given(entries, end_offset)
        if given is None:
            return None
        if given.first_offset > end_offset:
            # The leader's log was compacted. Without the note a start would take the gap for a segment that
            # was lost (`startup/missing_segments.py`).
            try:
                note_gaps(self.files, self.directory)
            except OSError as error:
                raise self.storage_error("appending", error) from error
        # From the batches themselves, not the leader's epoch: they may be of leaders long before.
        self.assign_epochs(given.epochs)
        segment = self._write(
            [records],
            given.size,
            given.entries,
            given.newest,
            given.first_offset,
            self._clock.now_ms() if now_ms is None else now_ms,
        )
        # Noted unchecked: the leader has accepted these, and its log is what this one has to be like.
        self._note_producers(segment, given.headers, given.markers, end_offset)
        self._flush_if_due()
        return AppendInfo(given.first_offset, self.log_end_offset - 1, NO_TIMESTAMP, self.log_start_offset)

    # Of both.

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that a leader of that epoch takes over at the offset.

        Raises:
            KafkaStorageError: the file could not be written.
        """
        self.assign_epochs([EpochEntry(epoch, start_offset)])

    def assign_epochs(self, entries: list[EpochEntry]) -> None:
        """Assign several epochs; see `assign_epoch`. A log of messages, which tell no epochs, keeps none."""
        if self.rules.magic != MAGIC_V2:
            return
        try:
            self.epochs.assign_all(entries)
        except OSError as error:
            raise self.storage_error("writing the leader epochs", error) from error

    def _begin_epoch(self, leader_epoch: int, base_offset: int) -> None:
        """Note where a leader's first batch stands; nothing for its later batches, or without an epoch (-1).

        Raises:
            KafkaStorageError: the file could not be written.
        """
        # Usually noted by `Leadership.make_leader` already; this is for an epoch that the disk refused then.
        if leader_epoch != self.epochs.latest and leader_epoch >= 0:
            self.assign_epoch(leader_epoch, base_offset)

    def _grow_to(self, last_offset: int) -> None:
        """Move the log's end, and that of its producers' state, behind an offset that has been written."""
        # Both in one step: a snapshot is named by the second, and replayed from there.
        self.log_end_offset = last_offset + 1
        self.producers.end_offset = last_offset + 1

    def _write(
        self,
        parts: Sequence[Buffer],
        size: int,
        entries: Sequence[tuple[int, int]],
        newest: TimestampOffset,
        first_offset: int,
        now_ms: int,
    ) -> Segment:
        """Write batches or messages at the log's end; returns the segment that has them.

        Args:
            parts, size: the bytes, and how many they are.
            entries: size and last offset of each batch or message.
            newest: the largest timestamp, and the last offset of what has it.
            first_offset: of the first record.
        """
        last_offset = entries[-1][1]
        try:
            segment = self._segment_for(size, first_offset, last_offset, newest.timestamp, now_ms)
            segment.append(parts, size, entries, newest)
        except OSError as error:
            raise self.storage_error("appending", error) from error
        self._grow_to(last_offset)
        return segment

    def _note_producers(
        self, segment: Segment, headers: Sequence[BatchHeader], markers: Markers, end_offset: int
    ) -> None:
        """Take note of the producers of what was appended; the log ended at `end_offset` before."""
        try:
            note_producers(self.producers, segment, headers, markers)
        except Exception:
            self._undo_append(end_offset)
            raise

    def _undo_append(self, end_offset: int) -> None:
        """Cut an append off whose producers could not be noted: the log ends at `end_offset` again."""
        try:
            self.cut_end(end_offset)
        except Exception:
            # The files are not as the memory of them: with this, the stop is no clean one, and the next start
            # reads them through.
            self.syncing.failed = True
            logger.exception("%r takes no more records: a write to it could not be undone", self)

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, timestamp: int, now_ms: int
    ) -> Segment:
        """The segment that so many bytes belong into, a new segment if need be.

        Raises:
            RecordBatchTooLargeError: they are more than a segment takes.
            KafkaStorageError: the log takes no writes.
            OSError: a new segment could not be made.
        """
        rules = self.rules
        # A new segment would be as small, so that rolling helps nothing (`UnifiedLog.append`).
        if size > rules.segment_bytes:
            raise RecordBatchTooLargeError(
                f"{size} bytes are more than a segment of {rules.segment_bytes} bytes takes"
            )
        if self.syncing.failed:
            raise KafkaStorageError(NOT_WRITTEN_TO)
        segment = self.segments.active
        segment_ms = rules.segment_ms
        if rules.segment_jitter_ms:
            # So that the logs of a broker do not all roll at once. A hash and not a random number, by which
            # each append would ask for another time.
            segment_ms -= hash((self.partition, segment.base_offset)) % rules.segment_jitter_ms
        if segment_ms > rules.segment_ms_most:
            segment_ms = rules.segment_ms_most
        if segment.should_roll(size, last_offset, timestamp, now_ms, rules.segment_bytes, segment_ms):
            # By the first record's own offset: behind a gap the log's end may be too far below the last
            # offset for an index's four bytes.
            segment = self.roll(now_ms, first_offset)
        return segment

    def _flush_if_due(self) -> None:
        """Sync the log when `flush.messages` have come."""
        if self.log_end_offset - self.recovery_point >= self.rules.flush_messages:
            self.flush()


def _read_given(given: Sequence[tuple[Entry, memoryview]], log_end_offset: int) -> _Given | None:
    """Check what a leader sent, and where it belongs; None if there is no whole batch."""
    headers: list[BatchHeader] = []
    markers: list[EndTransactionMarker | None] = []
    entries: list[tuple[int, int]] = []
    epochs: list[EpochEntry] = []
    newest_timestamp, newest_offset, size = -1, -1, 0
    first_offset, next_offset = -1, log_end_offset
    for header, entry in given:
        # Its CRC as well, although the leader has checked it: the bytes have come over a network since.
        check_entry(header, entry)
        last_offset = header.last_offset
        base_offset = header.base_offset if isinstance(header, BatchHeader) else header.offset
        # A gap is no error, since the leader's log may be compacted.
        if base_offset < next_offset or last_offset < base_offset:
            raise OffsetOutOfRangeError(
                f"offsets {base_offset} to {last_offset} cannot come at {next_offset}"
            )
        if isinstance(header, BatchHeader):
            headers.append(header)
            # The cleaner leaves a control batch without its marker when the transaction's records are gone.
            is_marker = header.attributes & CONTROL_BIT and header.record_count
            markers.append(read_marker(header, entry) if is_marker else None)
            epoch = header.partition_leader_epoch
            if epoch >= 0 and (not epochs or epochs[-1].epoch != epoch):
                epochs.append(EpochEntry(epoch, base_offset))
        if header.max_timestamp > newest_timestamp:
            newest_timestamp, newest_offset = header.max_timestamp, last_offset
        if not entries:
            # Where the messages in a wrapper begin is not known without unpacking it.
            is_start_known = isinstance(header, BatchHeader) or not header.is_wrapper
            first_offset = base_offset if is_start_known else next_offset
        entries.append((len(entry), last_offset))
        size += len(entry)
        next_offset = last_offset + 1
    if not entries:
        return None
    # Nothing has a timestamp, as messages of magic 0.
    if newest_offset < 0:
        newest_timestamp, newest_offset = -1, entries[-1][1]
    newest = TimestampOffset(newest_timestamp, newest_offset)
    return _Given(headers, markers, entries, epochs, newest, first_offset, size)
