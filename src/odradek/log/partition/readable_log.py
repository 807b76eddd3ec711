# compiled: mypyc
"""The reading side of a partition's log, which changes nothing: its bounds, its batches, offsets by time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from odradek.errors import (
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    UnsupportedForMessageFormatError,
)
from odradek.log.config import LogConfig
from odradek.log.partition.leader_epochs import LeaderEpochs
from odradek.log.producers.producer_state import ProducerState
from odradek.log.segments.segment_list import SegmentList
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP
from odradek.log.segments.timestamp_search import (
    Candidate,
    OffsetForTimestamp,
    bases_before,
    candidate_not_older,
    newest_candidate,
)
from odradek.log.segments.txn_index import AbortedTxn
from odradek.log.storage._pywriting import PREFIX
from odradek.log.storage.checkpoint_file import EpochEntry
from odradek.log.storage.file_names import LEADER_EPOCHS
from odradek.log.storage.files import FileRange, FileSystem
from odradek.util.repeats import Repeats

repeats = Repeats(logging.getLogger(__name__))

NO_OFFSET: Final = -1

NEVER: Final = 0x7FFF_FFFF_FFFF_FFFF


class ReadResult(NamedTuple):
    """Whole batches, the first of them reaching the offset asked for; -1 for `first_offset` without any."""

    records: bytes
    first_offset: int


class ReadableLog:
    """The half of a `PartitionLog` that reads. Storage failures are `KafkaError` KAFKA_STORAGE_ERROR.

    Attributes: see `PartitionLog`.
    """

    _config: LogConfig

    def __init__(self, directory: Path, topic: str, partition: int, files: FileSystem) -> None:
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.files = files
        self.segments = SegmentList()
        self.epochs = LeaderEpochs(files, directory / LEADER_EPOCHS)
        self.producers = ProducerState()
        # log_start_offset <= high_watermark <= log_end_offset. The start only moves up, but for a log that is
        # cut to nothing; the end also moves back, by a truncation.
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.on_write_error: Callable[[ReadableLog, OSError], None] | None = None
        """Told of every failure to write, which may be that of the whole disk."""

    def __repr__(self) -> str:
        return f"<PartitionLog {self.topic}-{self.partition} {self.log_start_offset}..{self.log_end_offset}>"

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments, indexes not counted."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """Up to where a read_committed consumer may read."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        # DeleteRecords may have moved the start past the first record of a transaction that is still open.
        return max(unstable, self.log_start_offset)

    def storage_error(self, doing: str, error: OSError, *, reading: bool = False) -> KafkaError:
        """The `KafkaError` for a failure of the disk; also logged, since clients see only the code."""
        # Whoever produces and fetches on while a disk is full causes one of these per request.
        repeats.log(
            logging.ERROR,
            (self.directory, doing, error.errno),
            "%s-%d: %s in %s failed: %s",
            self.topic,
            self.partition,
            doing,
            self.directory,
            error,
        )
        if self.on_write_error is not None and not reading:
            self.on_write_error(self, error)
        return KafkaStorageError(f"{doing} failed: {error}")

    # Reading.

    def read(self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool) -> ReadResult:
        """Whole batches from the one that holds `offset` on, none of them reaching `upper_bound`.

        At most `max_bytes`, but with `min_one_batch` one batch however large it is.

        Raises:
            OffsetOutOfRangeError: the offset is outside of the log.
            KafkaStorageError: the file cannot be read.
        """
        records = self.slice(offset, max_bytes, upper_bound, min_one_batch)
        assert isinstance(records, bytes)
        return ReadResult(records, PREFIX.unpack_from(records)[0] if records else NO_OFFSET)

    def slice(
        self,
        offset: int,
        max_bytes: int,
        upper_bound: int,
        min_one_batch: bool,
        range_from: int = NEVER,
    ) -> bytes | FileRange:
        """As `read`, the records alone; from `range_from` bytes on not read, where the file system allows it.

        Raises:
            OffsetOutOfRangeError, KafkaStorageError: as `read`.
        """
        end = self.log_end_offset
        # The end itself is in range: there the next record will be, and a consumer waits for it.
        if not self.log_start_offset <= offset <= end:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic}-{self.partition} is not within "
                f"[{self.log_start_offset}, {end}]"
            )
        if offset >= upper_bound or offset == end:
            return b""
        segments = self.segments
        segment = segments.active
        # Nearly all reads are near the end, and spare the search for the segment.
        if offset >= segment.base_offset:
            slot = count = 0
            # None spares the segment a search for a bound that it does not reach.
            bound = upper_bound if upper_bound < end else None
        else:
            slot, count = max(0, segments.floor(offset)), len(segments)
            segment = segments[slot]
            next_base = segments[slot + 1].base_offset if slot + 1 < count else end
            bound = upper_bound if upper_bound < next_base else None
        try:
            while True:
                records = segment.read(offset, max_bytes, bound, min_one_batch, range_from)
                if records is not None:
                    return records
                # The rest of the segment was compacted away.
                slot += 1
                if slot >= count:
                    return b""
                segment = segments[slot]
                next_base = segments[slot + 1].base_offset if slot + 1 < count else end
                bound = upper_bound if upper_bound < next_base else None
        except OSError as error:
            raise self.storage_error(f"reading at offset {offset}", error, reading=True) from error

    def bytes_between(self, offset: int, end: int) -> int | None:
        """The bytes of the batches from the one that holds `offset` on, none of them reaching `end`.

        Nothing is read. None where they go on in a later segment.

        Raises:
            KafkaStorageError: the file cannot be read.
        """
        segments = self.segments
        segment = segments.active
        if offset < segment.base_offset:
            slot = max(0, segments.floor(offset))
            segment = segments[slot]
            if end > segments[slot + 1].base_offset:
                return None
        try:
            place = segment.find(offset, NEVER, end, False)
        except OSError as error:
            raise self.storage_error(f"reading at offset {offset}", error, reading=True) from error
        return place[1] - place[0] if place is not None else 0

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTxn]:
        """The aborted transactions that a reader of [offset, upper_bound) must leave out."""
        aborted: list[AbortedTxn] = []
        for segment in self.segments.from_offset(offset):
            entries, complete = segment.txn_index.collect(offset, upper_bound)
            aborted += entries
            if complete:
                break
        return aborted

    # Finding.

    def earliest(self) -> OffsetForTimestamp:
        """The first offset, and the epoch it was written in."""
        first = self.epochs.earliest
        # A log that was written without epochs at first has its earliest epoch behind its start.
        covers_start = first is not None and first.start_offset <= self.log_start_offset
        return OffsetForTimestamp(
            self.log_start_offset, NO_TIMESTAMP, first.epoch if covers_start and first is not None else -1
        )

    def latest(self) -> OffsetForTimestamp:
        """The offset that the next record will get, and the latest epoch."""
        return OffsetForTimestamp(self.log_end_offset, NO_TIMESTAMP, self.epochs.latest)

    def max_timestamp(self) -> OffsetForTimestamp | None:
        """The first record with the largest timestamp; None where no record has one.

        Raises:
            KafkaError: as `offset_for_timestamp`.
        """
        return self._search(self.newest_candidate())

    def offset_for_timestamp(self, timestamp: int) -> OffsetForTimestamp | None:
        """The first record that is not older than `timestamp`; None if all are.

        Raises:
            KafkaStorageError: a file cannot be read.
            CorruptRecordError: a batch does not unpack.
            UnsupportedForMessageFormatError: records are stored without timestamps.
        """
        return self._search(self.candidate_not_older(timestamp))

    def _search(self, candidate: Candidate | None) -> OffsetForTimestamp | None:
        while candidate is not None:
            match = candidate.search()
            if match is not None:
                return match
            candidate = self.candidate_behind(candidate)
        return None

    def newest_candidate(self) -> Candidate | None:
        """The first batch that may hold what `max_timestamp` gives.

        Raises:
            KafkaError: as `offset_for_timestamp`.
        """
        self._require_timestamps()
        try:
            return newest_candidate(self.segments, self.log_start_offset)
        except OSError as error:
            raise self.storage_error("searching by time", error, reading=True) from error

    def candidate_not_older(self, timestamp: int, from_offset: int = -1) -> Candidate | None:
        """The first batch that may hold what `offset_for_timestamp` gives, at or above an offset.

        Raises:
            KafkaError: as `offset_for_timestamp`.
        """
        self._require_timestamps()
        try:
            return candidate_not_older(self.segments, max(from_offset, self.log_start_offset), timestamp)
        except OSError as error:
            raise self.storage_error("searching by time", error, reading=True) from error

    def candidate_behind(self, candidate: Candidate) -> Candidate | None:
        """The next candidate, where this one did not hold the record.

        Raises:
            KafkaError: as `offset_for_timestamp`.
        """
        return self.candidate_not_older(candidate.timestamp, candidate.last_offset + 1)

    def offsets_before(self, timestamp: int, most: int, now_ms: int) -> list[int]:
        """Return where segments begin, the newest first; see `searching.bases_before`.

        Raises:
            KafkaStorageError: a file cannot be read.
        """
        try:
            return bases_before(
                list(self.segments),
                timestamp,
                most,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
                now_ms=now_ms,
            )
        except OSError as error:
            raise self.storage_error("searching by time", error, reading=True) from error

    def _require_timestamps(self) -> None:
        if self._config.record_magic == 0:
            raise UnsupportedForMessageFormatError(
                f"{self.topic}-{self.partition} stores records in the format of "
                f"{self._config.message_format_version}, without timestamps"
            )

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry | None:
        """(epoch, end offset) of the largest epoch known that is not above this one; None if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)
