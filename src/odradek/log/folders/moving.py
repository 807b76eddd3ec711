"""A replica on its way to another data folder of the same broker (KIP-113; docs/log_format.md, "Moving").

    copying ──► settling ──swap──► swapped ──► done
       └────────────┴── cancel ──► over

The files are copied into a `-future` folder, segment by segment in small slices, while the log is read and
written to. When nearly all is there and on the disk, the rest is copied and the folder gets the plain name,
in one go: the log is the same object before and after, its files are elsewhere. Only then does the old folder
get a `-delete` name. In between both have the plain name: `moved-from` in the new one says which counts.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from odradek.errors import OdradekError
from odradek.log.steps import DiskSteps, Wait
from odradek.log.storage.data_directory import ReplicaState
from odradek.log.storage.file_names import (
    LEADER_EPOCHS,
    MOVED_FROM,
    OFFSET_GAPS,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    delete_dir,
    numbered,
    partition_dir,
)
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.segments.segment import Segment
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)

SLICE_BYTES = 4 << 20
"""How much is copied, and synced, at once."""

TAIL_BYTES = 256 << 10
"""How much may be left to be copied in the swap itself, at first; twice as much with each attempt."""

LONGEST_TAIL_BYTES = 8 << 20


MOST_MISSED = 100
"""How many segments may be dropped just before they are read: then something else is wrong."""


class MoveError(OdradekError):
    """A move has come to nothing; the log is where and as it was."""


@dataclass
class _Copied:
    """The new folder's part of a segment: bytes of its log; whether it is complete, indexes included."""

    segment: Segment
    size: int = 0
    complete: bool = False


@dataclass
class _Settled:
    """The state of everything but the log's tail when it was copied and synced."""

    up_to: int
    active: Segment
    log_start_offset: int
    epoch_writes: int
    topic_id: bytes | None
    snapshots: list[int]
    aborted: int
    index_bytes: dict[Path, int] = field(default_factory=dict)

    def still_true(self, log: PartitionLog) -> bool:
        """Return whether only appends have come since."""
        return (
            log.segments.active is self.active
            and log.log_start_offset == self.log_start_offset
            and log.epochs.writes == self.epoch_writes
            and log.topic_id == self.topic_id
            and log.snapshots.offsets == self.snapshots
            and len(self.active.txn_index.entries) == self.aborted
        )


class Move:
    """One move. `steps` does it; the other methods may be called between two steps of it.

    Attributes: `log`; `parent`: the data folder it goes to; `directory`: the copy's folder; `source`: where
    the log was; `bytes_copied` so far; `is_over`; `has_swapped`; `is_settling`: it is about to;
    `keeps_copy`: whether the copy stays if it comes to nothing.
    """

    def __init__(
        self,
        log: PartitionLog,
        directory: Path,
        checkpoint: Callable[[], Wait],
        on_swapped: Callable[[Path], None],
        on_old_failed: Callable[[Path, OSError], None],
    ) -> None:
        """
        Args:
            log: what is moved.
            directory: the `-future` folder; what is in it goes.
            checkpoint: says what is to be written so that the new data folder's checkpoints speak of the log.
            on_swapped: told under which name the old folder is to be removed.
            on_old_failed: told when the old folder could not be got out of the way.
        """
        self.log = log
        self.directory = directory
        self.parent = directory.parent
        self.source = log.directory
        self.bytes_copied = 0
        self.is_over = False
        self.has_swapped = False
        self.is_settling = False
        self.keeps_copy = False
        self._files: FileSystem = log.files
        self._checkpoint = checkpoint
        self._on_swapped = on_swapped
        self._on_old_failed = on_old_failed
        self._retired = self.source.parent / delete_dir(log.topic, log.partition, uuid4())
        self._start_anew()

    def _start_anew(self) -> None:
        self._cuts = self.log.syncing.cuts
        self._copied: dict[int, _Copied] = {}
        self._cursor = -1
        self._tail = TAIL_BYTES
        self._missed = 0

    @property
    def key(self) -> TopicPartition:
        """The partition."""
        return self.log.topic, self.log.partition

    def describe(self) -> ReplicaState:
        """The copy, for DescribeLogDirs."""
        log, end = self.log, self.log.log_start_offset
        started = [held for held in self._copied.values() if held.size]
        if started:
            last = started[-1]
            if last.size < last.segment.size:
                end = max(end, last.segment.offset_index.lookup_position(last.size).offset)
            else:
                slot = log.segments.floor(last.segment.base_offset) + 1
                end = log.segments[slot].base_offset if slot < len(log.segments) else log.log_end_offset
        size = sum(held.size for held in started)
        return ReplicaState(*self.key, size, max(0, log.log_end_offset - end), True)

    # Copying.

    def steps(self) -> DiskSteps:
        """Do it; false where it was cancelled.

        Raises:
            MoveError: the new folder's disk failed, or the swap could not be made; nothing has changed.
            KafkaError: KAFKA_STORAGE_ERROR: it cannot be told whether it was made, and the log takes no more
                writes; or what comes behind the swap has failed.
        """
        log = self.log
        # What the cleaner is putting in is put in first, it puts in no more from now on.
        try:
            log.syncing.finish_swap()
        except OSError as error:
            raise log.storage_error("finishing a swap", error) from error
        log.syncing.moving = True
        try:
            try:
                yield self._make_folder
                while not self.is_over and not (yield from self._attempt()):
                    pass
            except OSError as error:
                if self.is_over:
                    return False
                raise MoveError(f"copying {self.source} to {self.directory} failed: {error}") from error
        finally:
            if not self.is_over:
                log.syncing.moving = False
        if not self.has_swapped:
            return False
        return (yield from self._tidy())

    def _attempt(self) -> DiskSteps:
        """Copy, and swap if that is possible; false when there is more to be copied."""
        log = self.log
        if log.syncing.cuts != self._cuts:
            self._start_anew()
            yield self._make_folder
        piece = self._next_piece()
        if piece is None:
            settled, work = self._settle()
            piece = work
        else:
            settled = None
        try:
            yield piece
            if settled is None or self.is_over:
                return False
            self.is_settling = True
            try:
                yield self._checkpoint()
                return not self.is_over and self._swap(settled)
            finally:
                self.is_settling = False
        except OSError as error:
            if log.syncing.cuts != self._cuts:
                return False
            # A segment was dropped before it could be read: its file has another name now.
            self._missed += 1
            dropped = isinstance(error, FileNotFoundError) and self._files.is_dir(self.directory)
            if not dropped or self._missed > MOST_MISSED:
                raise
            return False

    def _make_folder(self) -> None:
        files = self._files
        files.make_dirs(self.directory)
        for name, size in files.entries(self.directory).items():
            if size < 0:
                files.remove_tree(self.directory / name)
            else:
                files.remove(self.directory / name)
        files.fsync_dir(self.parent)

    def _next_piece(self) -> Wait | None:
        """The next slice to be copied; None when only the tail of the newest segment is left."""
        segments = self.log.segments
        for segment in segments.from_offset(self._cursor):
            held = self._copied.get(segment.base_offset)
            if held is None or held.segment is not segment:
                self._copied[segment.base_offset] = held = _Copied(segment)
            is_active = segment is segments.active
            left = segment.size - held.size
            if left > (self._tail if is_active else 0):
                return self._slice(held, min(left, SLICE_BYTES))
            if is_active:
                break
            if not held.complete:
                return self._rest_of(held)
            self._cursor = segment.base_offset
        return None

    def _slice(self, held: _Copied, size: int) -> Wait:
        position, segment = held.size, held.segment
        source, target = segment.path, self.directory / segment.path.name

        def run() -> None:
            if self._files.copy(source, target, position, size) != size:
                raise OSError(errno.EIO, "the file is shorter than it was written", str(source))
            self._files.fsync(target)
            held.size = position + size
            self.bytes_copied += size

        return run

    def _rest_of(self, held: _Copied) -> Wait:
        """The other files of a segment that is not written to any more."""
        segment, files = held.segment, self._files
        snapshot = self.log.snapshots.path(segment.base_offset)
        others, path = [*segment.paths()[1:], snapshot], segment.path

        def run() -> None:
            for source in others:
                if files.exists(source):
                    self._copy_whole(source)
            target = self.directory / path.name
            if not files.exists(target):
                files.copy(path, target, 0, 0)
            files.set_modified_ms(target, files.modified_ms(path))
            held.complete = True

        return run

    def _copy_whole(self, source: Path) -> None:
        target = self.directory / source.name
        self._files.copy(source, target)
        self._files.fsync(target)

    # Settling: everything but the last appends is there, and on the disk.

    def _settle(self) -> tuple[_Settled, Wait]:
        log, files = self.log, self._files
        active = log.segments.active
        active.txn_index.write_pending()
        held = self._copied[active.base_offset]
        settled = _Settled(
            up_to=log.log_end_offset,
            active=active,
            log_start_offset=log.log_start_offset,
            epoch_writes=log.epochs.writes,
            topic_id=log.topic_id,
            snapshots=list(log.snapshots.offsets),
            aborted=len(active.txn_index.entries),
        )
        for index in (active.offset_index, active.time_index):
            settled.index_bytes[index.path] = index.size_bytes
        copy_tail = self._slice(held, active.size - held.size)
        names = (LEADER_EPOCHS, PARTITION_METADATA, OFFSET_GAPS)
        small = [*(log.directory / name for name in names), active.txn_index.path]
        small += [log.snapshots.path(offset) for offset in settled.snapshots]
        bases = set(log.segments.bases)
        gone = [base for base in self._copied if base not in bases]
        for base in gone:
            del self._copied[base]
        wanted = {path.name for path in small}
        for base in self._copied:
            wanted.update(path.name for path in self._copied[base].segment.paths())

        def run() -> None:
            for name in files.entries(self.directory):
                if name not in wanted:
                    files.remove(self.directory / name)
            copy_tail()
            for path, size in settled.index_bytes.items():
                files.copy(path, self.directory / path.name, 0, size)
            for path in small:
                there = not path.name.endswith(SNAPSHOT_SUFFIX) or path.name not in present
                if there and files.exists(path):
                    self._copy_whole(path)
            files.write_atomically(self.directory / MOVED_FROM, str(self.source).encode())
            files.fsync_dir(self.directory)
            files.fsync_dir(self.parent)

        present = {numbered(base, SNAPSHOT_SUFFIX) for base, one in self._copied.items() if one.complete}
        return settled, run

    # The swap.

    def _swap(self, settled: _Settled) -> bool:
        """The log is in the new folder from here on; false when too much has happened since `settled`."""
        log, files = self.log, self._files
        active = settled.active
        held = self._copied[active.base_offset]
        left = active.size - held.size
        if log.syncing.cuts != self._cuts or not settled.still_true(log) or left > self._tail:
            self._tail = min(2 * self._tail, LONGEST_TAIL_BYTES)
            return False
        target = self.directory / active.path.name
        if left:
            files.copy(active.path, target, held.size, left)
        for index in (active.offset_index, active.time_index):
            known = settled.index_bytes[index.path]
            if index.size_bytes > known:
                files.copy(index.path, self.directory / index.path.name, known, index.size_bytes - known)
        if log.recovery_point > settled.up_to:
            files.fsync(target)
        files.set_modified_ms(target, active.modified_ms())
        place = self.parent / partition_dir(*self.key)
        if files.exists(place):
            raise OSError(errno.EEXIST, "there is a folder of that name", str(place))
        try:
            files.rename(self.directory, place)
        except OSError as error:
            if not self._has_happened(place, error):
                raise
        log.move_to(place)
        active.become_active()
        self.has_swapped = True
        log.syncing.moving = False
        log.syncing.swap = self.finish
        logger.info("%r has moved from %s to %s", log, self.source, place)
        return True

    def _has_happened(self, place: Path, error: OSError) -> bool:
        """Return whether a rename that failed was made all the same. Where that cannot be told, nothing is
        written to either folder any more.
        """
        try:
            return self._files.exists(place)
        except OSError:
            self.log.syncing.failed = True
            raise self.log.storage_error("moving", error) from error

    # Behind the swap.

    def _tidy(self) -> DiskSteps:
        """Get the old folder out of the way."""
        log, files = self.log, self._files
        here = log.directory
        try:
            yield lambda: files.fsync_dir(self.parent)
        except OSError as error:
            if self.is_over:
                return True
            raise log.storage_error("moving", error) from error
        if self.is_over:
            return True
        try:
            files.rename(self.source, self._retired)
            self._on_swapped(self._retired)
            log.syncing.swap = self._finish_retired
            yield lambda: files.fsync_dir(self._retired.parent)
        except OSError as error:
            if not self.is_over:
                self._leave_old(error)
            return True
        if self.is_over:
            return True
        try:
            files.remove(here / MOVED_FROM)
            log.syncing.swap = None
            self.is_over = True
            yield lambda: files.fsync_dir(here)
        except OSError as error:
            raise log.storage_error("moving", error) from error
        return True

    def finish(self) -> None:
        """Do the rest here and now: the log is about to be closed, deleted or cut. Raises `OSError`."""
        files = self._files
        files.fsync_dir(self.parent)
        try:
            files.rename(self.source, self._retired)
            self._on_swapped(self._retired)
        except OSError as error:
            self._leave_old(error)
            return
        self._finish_retired()

    def _finish_retired(self) -> None:
        files = self._files
        try:
            files.fsync_dir(self._retired.parent)
        except OSError as error:
            self._leave_old(error)
            return
        files.remove(self.log.directory / MOVED_FROM)
        files.fsync_dir(self.log.directory)
        self.log.syncing.swap = None
        self.is_over = True

    def _leave_old(self, error: OSError) -> None:
        """Its disk has failed. `moved-from` stays: a start that finds both takes the new one."""
        self.log.syncing.swap = None
        self.is_over = True
        self._on_old_failed(self.source.parent, error)

    # Giving up.

    def abandon(self) -> None:
        """Go no further. Harmless behind the swap, and twice."""
        if not self.has_swapped and not self.is_over:
            self.is_over = True
            self.log.syncing.moving = False

    def empty(self) -> None:
        """Leave an empty folder, which the next start fills, ours or Kafka's. Raises `OSError`."""
        if self._files.is_dir(self.directory):
            self._make_folder()
