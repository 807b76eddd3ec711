# compiled: mypyc
"""One segment of a log: a run of batches, written at its end, found by offset and by time.

Only the last segment of a log is written to. Positions are bytes from the segment's start; a batch boundary
is the position at which a batch begins, or the segment's size. Of the segment that is written to, the
boundaries of the newest batches are kept in memory, so that reading near the end of a log looks at no index
and walks over no batches.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from odradek.log.segments.batch_walk import WALK_BLOCK, walk, walk_to
from odradek.log.segments.found_places import keep
from odradek.log.segments.index_checks import begins_there, holds_time
from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.offset_index import MAX_RELATIVE_OFFSET
from odradek.log.segments.segment_entry import SegmentEntry
from odradek.log.segments.segment_files import SegmentFiles
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.files import Buffer, File, FileRange, FileSystem
from odradek.records.batch import HEADER_BYTES, MAGIC_AT, MAGIC_V2
from odradek.records.kernel import kernel

logger = logging.getLogger(__name__)

TAIL_BATCHES = 1024
"""How many of the newest batches' boundaries are kept at least, at most twice as many: 16 bytes each."""

FOUND_ENTRIES = 256
"""How many answers of searches are kept per segment and kind, for the next reader of the same place."""

CUT_BYTES = 256 * 1024
"""Up to so many bytes are read before it is known where the last whole batch among them ends."""

# As the offset of a walk: only the position ends it.
_NO_OFFSET_REACHES = 2**64
_MAGIC_V2 = bytes([MAGIC_V2])
_whole_entries = kernel.whole_entries


class Segment(SegmentFiles):
    """One segment.

    Attributes: `max_timestamp`: the largest so far and the last offset of its batch, None until somebody asks
    for it. `roll_timestamp`: the largest timestamp of the first batch, None while that is not known.

    Raises:
        OSError: by every method that touches the disk.
    """

    def __init__(
        self, files: FileSystem, directory: Path, base_offset: int, index_interval: int, index_bytes: int
    ) -> None:
        super().__init__(files, directory, base_offset, index_interval, index_bytes)
        self.max_timestamp: TimestampOffset | None = None
        self.roll_timestamp: int | None = None
        self.looks_only = False
        """Whether an index that turns out wrong raises `CorruptIndexError`, and is not built again."""
        self._bytes_since_index_entry = 0
        """Bytes from the last index entry's position on. The write that finds more than
        `index.interval.bytes` there adds an entry."""
        self._indexes_have_room = False
        """Whether both indexes are known to take a further entry; whatever adds entries sets it back."""
        # Invariant: these describe all batches from _tail_positions[0] to the end of the segment, which are
        # all that hold an offset from _tail_base_offset on.
        self._tail_positions = array("q")
        self._tail_last_offsets = array("q")
        self._tail_base_offset = base_offset
        # What searches came to: the batch that reaches an offset, and where a read from a position that was
        # bounded by its size has to end. Both stay true while batches are only added.
        self._found_steps: dict[int, SegmentEntry] = {}
        self._older_steps: dict[int, SegmentEntry] = {}
        self._found_ends: dict[tuple[int, int], int] = {}

    def close(self) -> None:
        """Write what a normal stop writes, trim the files, and let go of them."""
        if self._unclean_end:
            self._cut_unclean_end()
        # None: nobody has written since the segment was opened, so the last entry is there already.
        if self.max_timestamp is not None:
            self.time_index.maybe_append(self.max_timestamp)
        self._trim()
        self.release()

    def become_inactive(self) -> None:
        """The segment will not be written to any more."""
        if self._unclean_end:
            self._cut_unclean_end()
        # The last entry has to be the largest timestamp of all, also of what came after the entry before it:
        # searches and retention look at nothing else. Kafka: `LogSegment.onBecomeInactiveSegment`.
        self.time_index.maybe_append(self.known_max_timestamp())
        self._trim()

    # Writing.

    def should_roll(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, max_size: int, max_ms: int
    ) -> bool:
        """Return whether an append of `size` bytes belongs into a new segment (LogSegment.shouldRoll)."""
        if self.size > max_size - size:
            return True
        first = self.roll_timestamp
        if first is None:
            first = self.first_timestamp()
        # By the records' own time, where they have any: a topic that is read in from elsewhere rolls as its
        # original did. Kafka: `LogSegment.timeWaitedForRoll`.
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return (
            (waited_ms > max_ms and self.size > 0)
            # An index entry has four bytes for an offset, counted from the segment's first.
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or (not self._indexes_have_room and self._find_full_index())
        )

    def _find_full_index(self) -> bool:
        """Return whether an index takes no further entry."""
        full = self.offset_index.is_full or self.time_index.is_full
        self._indexes_have_room = not full
        return full

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 in an empty segment."""
        if self.roll_timestamp is None:
            first = next(self.walk(0, self.size), None)
            self.roll_timestamp = first.max_timestamp if first else NO_TIMESTAMP
        return self.roll_timestamp

    def append(
        self,
        parts: Sequence[Buffer],
        size: int,
        batches: Sequence[tuple[int, int]],
        max_timestamp: TimestampOffset,
    ) -> None:
        """Write whole batches at the end.

        `parts` are the bytes, `size` their number; `batches` the (size, last offset) of each batch;
        `max_timestamp` the largest of all and the last offset of its batch. Whatever it raises, the segment
        is as before. An index entry that cannot be written is left out: indexes only speed up.
        """
        end = position = self.size
        handle = self._ready_file()
        newest = self.max_timestamp
        try:
            # First: an index entry or a size that stood for bytes which never came would be trusted.
            handle.pwrite(parts, position)
            last_offset = batches[-1][1]
            self._note_write(position, size, last_offset, max_timestamp.timestamp, max_timestamp.offset)
            for batch_size, last_offset in batches:
                self._remember(position, last_offset)
                position += batch_size
        except Exception:
            self._undo_write(end, batches[0][1], newest)
            raise

    def append_batch(
        self, batch: Buffer, size: int, base_offset: int, leader_epoch: int, last_offset: int, timestamp: int
    ) -> None:
        """Write a batch at the end, giving it its place in the log.

        `batch` as it was sent, `size` its bytes; `last_offset` and `timestamp` its last and its largest. What
        holds of `append` holds here.
        """
        position = self.size
        handle = self._ready_file()
        newest = self.max_timestamp
        try:
            handle.pwrite_batch(batch, position, base_offset, leader_epoch)
            self._note_write(position, size, last_offset, timestamp, last_offset)
            self._remember(position, last_offset)
        except Exception:
            self._undo_write(position, last_offset, newest)
            raise

    def _ready_file(self) -> File:
        """The file, where a write can be undone."""
        if self._unclean_end:
            self._cut_unclean_end()
        handle = self._handle or self._file()
        # This may read, and fail: so it comes before there is anything to undo.
        if self.max_timestamp is None:
            self.known_max_timestamp()
        return handle

    def _note_write(
        self, position: int, size: int, last_offset: int, timestamp: int, timestamp_offset: int
    ) -> None:
        """Take note of a write: the segment's size, its largest timestamp, an index entry if one is due."""
        if position == 0:
            self.roll_timestamp = timestamp
        known_max = self.max_timestamp
        # Of equal timestamps the first stays: a search by time wants the earliest offset.
        if known_max is None or timestamp > known_max.timestamp:
            self.max_timestamp = TimestampOffset(timestamp, timestamp_offset)
        self.size = position + size
        # Before this write is counted, as in Kafka's `append`: a segment's first write never has an entry.
        if self._bytes_since_index_entry > self.index_interval:
            self._add_index_entry(last_offset, position)
        self._bytes_since_index_entry += size

    def _undo_write(self, position: int, last_offset: int, newest: TimestampOffset | None) -> None:
        """Undo a write that was done in part, or could not be noted: the segment ends where it did before.

        Args:
            position: where it ended.
            last_offset: of the first batch that was written.
            newest: what `max_timestamp` was.
        """
        self.size, self.max_timestamp = position, newest
        if position == 0:
            self.roll_timestamp = None
        kept = bisect_left(self._tail_positions, position)
        del self._tail_positions[kept:]
        del self._tail_last_offsets[kept:]
        if not kept:
            self.forget_tail()
        self._unclean_end, self._unclean_offset = True, last_offset
        self._indexes_have_room = False
        try:
            self._cut_unclean_end()
        except Exception as error:
            # The next append tries again; what a start finds there was never acknowledged.
            logger.warning("the end of a write that failed is still in %s: %s", self.path, error)

    def _remember(self, position: int, last_offset: int) -> None:
        positions = self._tail_positions
        if not positions:
            # Of the offsets of the first batch only the last is known here, unless it begins the segment.
            self._tail_base_offset = self.base_offset if position == 0 else last_offset
        positions.append(position)
        self._tail_last_offsets.append(last_offset)
        # By halves: taken out one by one, each append would move all that are kept.
        if len(positions) > 2 * TAIL_BATCHES:
            self._tail_base_offset = self._tail_last_offsets[TAIL_BATCHES - 1] + 1
            del positions[:TAIL_BATCHES]
            del self._tail_last_offsets[:TAIL_BATCHES]

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        self._indexes_have_room = False
        try:
            # The last offset of a write beside its first byte, as Kafka's: an offset within that write is
            # below the entry, so a lookup takes the entry before and comes by on its walk.
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.known_max_timestamp())
        except OSError as error:
            logger.warning("no index entry for offset %d in %s: %s", last_offset, self.path, error)
            return
        self._bytes_since_index_entry = 0

    def truncate_to(self, offset: int) -> None:
        """Drop the batches that reach the offset or go beyond it."""
        step = self.translate(offset)
        # The indexes first: a stop in between leaves too few entries, which only slows searches down.
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if step is not None:
            self._file().truncate(step.position)
            self.size = step.position
        self._unclean_end = False
        if self.size == 0:
            self.roll_timestamp = None
        self.forget_tail()
        self._bytes_since_index_entry = 0
        # By a walk: the batch that had the largest may be among those that were cut.
        self.max_timestamp = self._find_max_timestamp()

    def forget_tail(self) -> None:
        """Forget where the newest batches are, and the results of searches."""
        del self._tail_positions[:]
        del self._tail_last_offsets[:]
        self._tail_base_offset = self.base_offset
        self._found_steps.clear()
        self._older_steps.clear()
        self._found_ends.clear()

    def learn_tail(self, steps: Sequence[SegmentEntry]) -> None:
        """Remember where the last batches of the segment are, unless some are known already."""
        if steps and not self._tail_positions:
            for step in steps:
                self._remember(step.position, step.last_offset)

    def holds_batches(self) -> bool:
        """Return whether there may be record batches, not messages of magic 0 and 1 alone.

        A log's format goes up, so the first and the last entry tell. (Where it was set back, leader epochs
        and sequences do not count any more.)
        """
        if self.size <= MAGIC_AT:
            return False
        last = deque(self.walk(self.seek(self.offset_index.last_offset), self.size), 1)
        positions = [0, *(step.position for step in last)]
        return any(self.pread(1, position + MAGIC_AT) == _MAGIC_V2 for position in positions)

    # Timestamps.

    def known_max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of its batch; (-1, base offset) if there is none."""
        if self.max_timestamp is None:
            self.max_timestamp = self._checked_time(None)
        return self.max_timestamp

    def reached_before(self, timestamp: int) -> TimestampOffset:
        """The time index's last entry at or below the timestamp; (-1, base offset) if there is none."""
        return self._checked_time(timestamp)

    def _checked_time(self, timestamp: int | None) -> TimestampOffset:
        """An entry of the time index, the last entry for None, that is as its batch says."""
        # The second time with indexes that were built anew; were these wrong too, no entry is better.
        for _ in range(2):
            entry = self.time_index.last if timestamp is None else self.time_index.lookup(timestamp)
            if entry.timestamp == NO_TIMESTAMP or self._has_time(entry):
                return entry
            self._distrust(self.time_index.path, entry)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _has_time(self, entry: TimestampOffset) -> bool:
        at_offset = self.translate(entry.offset)
        step = next(self.walk(at_offset.position, self.size), None) if at_offset is not None else None
        return holds_time(step, entry)

    def _distrust(self, path: Path, entry: object) -> None:
        mismatch = f"it is not as {path.name} has it: {entry}"
        if self.looks_only:
            raise CorruptIndexError(mismatch)
        logger.warning("building the indexes of %s again: %s", self.path, mismatch)
        self.rebuild_indexes()
        self._indexes_have_room = False

    def seek(self, offset: int) -> int:
        """A boundary from which a walk comes to the offset: where the offset index says, if that can be."""
        for _ in range(2):
            entry = self.offset_index.lookup(offset)
            if not entry.position or begins_there(self.pread, entry, self.base_offset, self.size):
                return entry.position
            self._distrust(self.offset_index.path, entry)
        return 0

    def largest_from(self, offset: int) -> TimestampOffset:
        """The largest timestamp among the batches that reach the offset or come after it."""
        known_max = self.known_max_timestamp()
        if known_max.offset >= offset or offset <= self.base_offset:
            return known_max
        largest = TimestampOffset(NO_TIMESTAMP, offset)
        for step in self.walk(self.seek(offset), self.size):
            if step.last_offset >= offset and step.max_timestamp > largest.timestamp:
                largest = TimestampOffset(step.max_timestamp, step.last_offset)
        return largest

    def _find_max_timestamp(self) -> TimestampOffset:
        largest = self.time_index.last
        for step in self.walk(self.seek(largest.offset), self.size):
            if step.max_timestamp > largest.timestamp:
                largest = TimestampOffset(step.max_timestamp, step.last_offset)
        return largest

    # Reading.

    def walk(self, position: int, end: int) -> Iterator[SegmentEntry]:
        """The batches and messages from a boundary on, up to the last that ends at `end` or before it.

        Raises:
            BrokenBatchError: as `batch_walk.walk`.
        """
        return walk(self.pread, self.path, position, end)

    def translate(self, offset: int) -> SegmentEntry | None:
        """The first batch that reaches the offset; None if the segment ends before it.

        Its max timestamp is -1, and so is its base offset where the answer came from memory.
        """
        positions = self._tail_positions
        if positions and offset >= self._tail_base_offset:
            slot = bisect_left(self._tail_last_offsets, offset)
            if slot == len(positions):
                return None
            position = positions[slot]
            end = positions[slot + 1] if slot + 1 < len(positions) else self.size
            return SegmentEntry(position, end - position, -1, self._tail_last_offsets[slot], -1)
        kept_step = self._found_steps.get(offset)
        if kept_step is None:
            kept_step = self._older_steps.get(offset)
        if kept_step is not None:
            return kept_step
        step = walk_to(self.pread, self.path, self.seek(offset), self.size, offset, self.size)
        if step is not None:
            self._keep_step(offset, step)
        return step

    def _keep_step(self, offset: int, step: SegmentEntry) -> None:
        if len(self._found_steps) >= FOUND_ENTRIES:
            # Not all at once: of many readers each comes back for what its last read has left here.
            self._older_steps.clear()
            self._older_steps, self._found_steps = self._found_steps, {}
        keep(self._found_steps, offset, step)

    def boundary_at_or_below(self, position: int, boundary_below: int) -> int:
        """The last batch boundary at or below the position; `boundary_below` is a boundary below it."""
        if position >= self.size:
            return self.size
        positions = self._tail_positions
        if positions and position >= positions[0]:
            # Not `bisect_left`: a position that is itself a boundary is its own answer.
            return positions[bisect_right(positions, position) - 1]
        known_end = self._found_ends.get((boundary_below, position))
        if known_end is not None:
            return known_end
        boundary = boundary_below
        # Nearer, the walk reads one block, and no look into the index could save that.
        if position - boundary_below > WALK_BLOCK:
            entry = self.offset_index.lookup_position(position)
            if entry.position > boundary_below and begins_there(
                self.pread, entry, self.base_offset, self.size
            ):
                boundary = entry.position
        step = walk_to(self.pread, self.path, boundary, self.size, _NO_OFFSET_REACHES, position)
        if step is None:
            boundary = self.size
        else:
            # A reader that takes up to here asks for this batch next.
            self._keep_step(step.base_offset, step)
            boundary = step.position
        if len(self._found_ends) >= FOUND_ENTRIES:
            self._found_ends.clear()
        keep(self._found_ends, (boundary_below, position), boundary)
        return boundary

    def find(
        self, offset: int, max_bytes: int, upper_bound: int | None, min_one_batch: bool
    ) -> tuple[int, int] | None:
        """Return where the batches begin and end that are read from `offset` on, the first being the batch
        that reaches it; None if the segment ends before that.

        They are at most `max_bytes`, or one batch if `min_one_batch`; none of them reaches `upper_bound`,
        which is None if it is behind the segment.
        """
        limits = self._find_limits(offset, max_bytes, upper_bound, min_one_batch)
        if limits is None:
            return None
        start, end, size_limit = limits
        if start + size_limit < end:
            end = self.boundary_at_or_below(start + size_limit, start)
        return start, end

    def read(
        self, offset: int, max_bytes: int, upper_bound: int | None, min_one_batch: bool, range_from: int
    ) -> bytes | FileRange | None:
        """Return the batches that `find` tells of: as bytes, or from `range_from` bytes on as a range that is
        not read, where the file system allows that.

        A read that has to end before the segment does is made first, and then cut to whole batches: nothing
        has to be searched or read twice.
        """
        limits = self._find_limits(offset, max_bytes, upper_bound, min_one_batch)
        if limits is None:
            return None
        start, end, size_limit = limits
        if start + size_limit < end:
            if size_limit <= CUT_BYTES and size_limit < range_from:
                cut = self._read_whole(start, size_limit)
                if cut is not None:
                    return cut
            end = self.boundary_at_or_below(start + size_limit, start)
        size = end - start
        if size >= range_from:
            unread = self.range(size, start)
            if unread is not None:
                return unread
        return self.pread(size, start) if size else b""

    def _read_whole(self, start: int, most: int) -> bytes | None:
        """Read whole batches from a boundary on, and note where the next batch is; None where that has to be
        searched.
        """
        # The header behind the last whole batch is read as well: it is that of the next reader's batch.
        data = self.pread(min(most + HEADER_BYTES, self.size - start), start)
        end, size, base_offset, last_offset = _whole_entries(data, most)
        if end <= 0:
            return None
        # A header that says more than the segment holds is damaged: a search has to tell where the batch
        # ends.
        if size and start + end + size <= self.size:
            step = SegmentEntry(start + end, size, base_offset, last_offset, NO_TIMESTAMP)
            self._keep_step(base_offset, step)
        return data if end == len(data) else data[:end]

    def _find_limits(
        self, offset: int, max_bytes: int, upper_bound: int | None, min_one_batch: bool
    ) -> tuple[int, int, int] | None:
        """Return where the batches of `find` begin, where they end at the latest, and how many bytes they may
        be.
        """
        if self._tail_positions and offset >= self._tail_base_offset:
            place = self._find_in_tail(offset, max_bytes, upper_bound, min_one_batch)
            return None if place is None else (place[0], place[1], place[1] - place[0])
        first = self.translate(offset)
        if first is None:
            return None
        start = first.position
        end = self.size
        if upper_bound is not None:
            beyond = self.translate(upper_bound)
            if beyond is not None:
                end = beyond.position
        if start >= end:
            return start, start, 0
        size_limit = max(max_bytes, first.size) if min_one_batch else max_bytes
        if size_limit < first.size:
            return start, start, 0
        return start, end, size_limit

    def _find_in_tail(
        self, offset: int, max_bytes: int, upper_bound: int | None, min_one_batch: bool
    ) -> tuple[int, int] | None:
        """Do what `find` does, among the newest batches, whose boundaries are in memory."""
        positions, last_offsets = self._tail_positions, self._tail_last_offsets
        count = len(positions)
        slot = bisect_left(last_offsets, offset)
        if slot == count:
            return None
        start, end = positions[slot], self.size
        after_first = positions[slot + 1] if slot + 1 < count else end
        if upper_bound is not None:
            beyond = bisect_left(last_offsets, upper_bound)
            if beyond < count:
                end = positions[beyond]
                if start >= end:
                    return start, start
        first_size = after_first - start
        size_limit = max_bytes
        if size_limit < first_size:
            if not min_one_batch:
                return start, start
            size_limit = first_size
        if start + size_limit < end:
            end = positions[bisect_right(positions, start + size_limit) - 1]
        return start, end
