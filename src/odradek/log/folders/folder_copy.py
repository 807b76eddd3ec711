"""The copy of a log in another folder, made while the log is read and written to."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.steps import Wait
from odradek.log.storage.file_names import (
    LEADER_EPOCHS,
    MOVED_FROM,
    OFFSET_GAPS,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    numbered,
)

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.segments.segment import Segment
    from odradek.log.storage.files import FileSystem

SLICE_BYTES = 4 << 20
"""How much is copied, and synced, at once."""


@dataclass
class _Copied:
    """The new folder's part of a segment: bytes of its log; whether it is complete, indexes included."""

    segment: Segment
    size: int = 0
    complete: bool = False


@dataclass
class Settled:
    """The state of everything but the log's tail when it was copied and synced."""

    up_to: int
    """The log's end offset: what comes later is not synced in the copy."""
    active: Segment
    """The segment that was written to. While it still is, only its log and its two indexes have grown."""
    log_start_offset: int
    epoch_writes: int
    """The count of writes of the leader epochs' file: another one means that the copy is old."""
    topic_id: bytes | None
    snapshots: list[int]
    aborted: int
    """The number of aborted transactions in the active segment, which are copied with it."""
    index_bytes: dict[Path, int] = field(default_factory=dict)
    """The bytes of each index of the active segment that were copied; the entries behind them follow."""

    def still_true(self, log: PartitionLog) -> bool:
        """Return whether only appends have come since."""
        return (
            # A truncation is not asked for: `is_void` tells of it.
            log.segments.active is self.active
            and log.log_start_offset == self.log_start_offset
            and log.epochs.writes == self.epoch_writes
            and log.topic_id == self.topic_id
            and log.snapshots.offsets == self.snapshots
            and len(self.active.txn_index.entries) == self.aborted
        )


class FolderCopy:
    """One copy, segment by segment in slices. What takes the disk's time is handed out to be run elsewhere.

    Attributes:
        directory: where it is.
        bytes_copied: so far, what was copied in vain included.
    """

    def __init__(self, log: PartitionLog, directory: Path) -> None:
        """
        Args:
            log: what is copied.
            directory: what is in it goes.
        """
        self.directory = directory
        self.bytes_copied = 0
        self._log = log
        self._files: FileSystem = log.files
        self.start_anew()

    def start_anew(self) -> None:
        """Forget what has been copied: `make_folder` comes next."""
        self._cuts = self._log.syncing.cuts
        self._copied: dict[int, _Copied] = {}
        """By base offset, in the order of the log."""
        self._cursor = -1
        """The base offset of the last segment that is complete: those below need not be looked at again."""

    @property
    def is_void(self) -> bool:
        """Return whether the log was cut since the start: what was copied may not be in it any more."""
        return self._log.syncing.cuts != self._cuts

    @property
    def size(self) -> int:
        """The bytes that are there, of the segments' records alone."""
        return sum(held.size for held in self._copied.values())

    @property
    def end_offset(self) -> int:
        """The offset up to which records are there."""
        log, end = self._log, self._log.log_start_offset
        started = [held for held in self._copied.values() if held.size]
        if not started:
            return end
        last = started[-1]
        if last.size < last.segment.size:
            return max(end, last.segment.offset_index.lookup_position(last.size).offset)
        slot = log.segments.floor(last.segment.base_offset) + 1
        return log.segments[slot].base_offset if slot < len(log.segments) else log.log_end_offset

    def make_folder(self) -> None:
        """Make the folder, or empty it."""
        files = self._files
        files.make_dirs(self.directory)
        # Files of an earlier try may be of a log that was cut since.
        for name, size in files.entries(self.directory).items():
            if size < 0:
                files.remove_tree(self.directory / name)
            else:
                files.remove(self.directory / name)
        files.fsync_dir(self.directory.parent)

    def next_piece(self, tail: int) -> Wait | None:
        """The next slice to be copied; None when at most `tail` bytes of the newest segment are left."""
        segments = self._log.segments
        for segment in segments.from_offset(self._cursor):
            held = self._copied.get(segment.base_offset)
            # Another segment of the same base offset: the cleaner has put it in the place of what was copied.
            if held is None or held.segment is not segment:
                self._copied[segment.base_offset] = held = _Copied(segment)
            is_active = segment is segments.active
            left = segment.size - held.size
            if left > (tail if is_active else 0):
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
            # Slice by slice, so that little is left to be synced when the log waits for the swap.
            self._files.fsync(target)
            held.size = position + size
            self.bytes_copied += size

        return run

    def _rest_of(self, held: _Copied) -> Wait:
        """The other files of a segment that is not written to any more."""
        segment, files = held.segment, self._files
        snapshot = self._log.snapshots.path(segment.base_offset)
        others, path = [*segment.paths()[1:], snapshot], segment.path

        def run() -> None:
            for source in others:
                if files.exists(source):
                    self._copy_whole(source)
            target = self.directory / path.name
            # An empty segment has no slices, with the first of which the file comes to be.
            if not files.exists(target):
                files.copy(path, target, 0, 0)
            # By this retention goes where no record has a timestamp.
            files.set_modified_ms(target, files.modified_ms(path))
            held.complete = True

        return run

    def _copy_whole(self, source: Path) -> None:
        target = self.directory / source.name
        self._files.copy(source, target)
        self._files.fsync(target)

    def settle(self) -> tuple[Settled, Wait]:
        """Return the state of the log, and a function that copies and syncs all of it that is not there yet.

        Appends that come meanwhile are not in it.
        """
        log, files = self._log, self._files
        active = log.segments.active
        # The file is copied, so it must have what a write that failed has left in memory.
        active.txn_index.write_pending()
        source = str(log.directory).encode()
        held = self._copied[active.base_offset]
        settled = Settled(
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
        kept_names = {path.name for path in small}
        for base in self._copied:
            kept_names.update(path.name for path in self._copied[base].segment.paths())

        def run() -> None:
            for name in files.entries(self.directory):
                if name not in kept_names:
                    files.remove(self.directory / name)
            copy_tail()
            for path, size in settled.index_bytes.items():
                files.copy(path, self.directory / path.name, 0, size)
            for path in small:
                there = not path.name.endswith(SNAPSHOT_SUFFIX) or path.name not in present
                if there and files.exists(path):
                    self._copy_whole(path)
            files.write_atomically(self.directory / MOVED_FROM, source)
            files.fsync_dir(self.directory)
            files.fsync_dir(self.directory.parent)

        # Known here, and not when `run` is run in another thread.
        present = {numbered(base, SNAPSHOT_SUFFIX) for base, held in self._copied.items() if held.complete}
        return settled, run

    def copy_rest(self, settled: Settled, most: int) -> bool:
        """Copy what was appended since `settled`, here and now; false when it is more than `most` bytes, or
        when more than appends has come.
        """
        files, active = self._files, settled.active
        held = self._copied[active.base_offset]
        left = active.size - held.size
        if self.is_void or not settled.still_true(self._log) or left > most:
            return False
        target = self.directory / active.path.name
        if left:
            files.copy(active.path, target, held.size, left)
        for index in (active.offset_index, active.time_index):
            settled_bytes = settled.index_bytes[index.path]
            if index.size_bytes > settled_bytes:
                files.copy(
                    index.path,
                    self.directory / index.path.name,
                    settled_bytes,
                    index.size_bytes - settled_bytes,
                )
        # What a flush has promised must be as safe in the copy.
        if self._log.recovery_point > settled.up_to:
            files.fsync(target)
        files.set_modified_ms(target, active.modified_ms())
        return True
