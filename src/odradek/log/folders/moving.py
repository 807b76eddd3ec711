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
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from odradek.errors import OdradekError
from odradek.log.folders.folder_copy import FolderCopy, Settled
from odradek.log.steps import DiskSteps, Wait
from odradek.log.storage.data_directory import ReplicaState
from odradek.log.storage.file_names import (
    MOVED_FROM,
    delete_dir,
    partition_dir,
)
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)

TAIL_BYTES = 256 << 10
"""How much may be left to be copied in the swap itself, at first; twice as much with each attempt."""

LONGEST_TAIL_BYTES = 8 << 20

MOST_MISSED = 100
"""How many segments may be dropped just before they are read: then something else is wrong."""


class MoveError(OdradekError):
    """A move has come to nothing; the log is where and as it was."""


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
        self.is_over = False
        self.has_swapped = False
        self.is_settling = False
        self.keeps_copy = False
        self._files: FileSystem = log.files
        self._checkpoint = checkpoint
        self._on_swapped = on_swapped
        self._on_old_failed = on_old_failed
        self._retired = self.source.parent / delete_dir(log.topic, log.partition, uuid4())
        self._copy = FolderCopy(log, directory)
        # Grows where a log is written to faster than it is copied, so that the swap comes at last.
        self._tail = TAIL_BYTES
        self._missed = 0

    @property
    def bytes_copied(self) -> int:
        """The bytes that have been copied so far."""
        return self._copy.bytes_copied

    @property
    def key(self) -> TopicPartition:
        """The partition."""
        return self.log.topic, self.log.partition

    def describe(self) -> ReplicaState:
        """The copy, for DescribeLogDirs."""
        behind = max(0, self.log.log_end_offset - self._copy.end_offset)
        return ReplicaState(*self.key, self._copy.size, behind, True)

    # Copying.

    def steps(self) -> DiskSteps:
        """Do it; false where it was cancelled.

        Raises:
            MoveError: the new folder's disk failed, or the swap could not be made; nothing has changed.
            KafkaError: KAFKA_STORAGE_ERROR: it cannot be told whether it was made, and the log takes no more
                writes; or what comes behind the swap has failed.
        """
        log = self.log
        # A segment that the cleaner is swapping in is swapped in first; none may be from now on.
        try:
            log.syncing.finish_swap()
        except OSError as error:
            raise log.storage_error("finishing a swap", error) from error
        log.syncing.moving = True
        try:
            try:
                yield self._copy.make_folder
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
        if self._copy.is_void:
            self._copy.start_anew()
            self._tail = TAIL_BYTES
            self._missed = 0
            yield self._copy.make_folder
        piece = self._copy.next_piece(self._tail)
        if piece is None:
            settled, work = self._copy.settle()
            piece = work
        else:
            settled = None
        try:
            yield piece
            if settled is None or self.is_over:
                return False
            # The new data folder's checkpoints speak of the log before it is there under its name: a start
            # that finds it has to know its recovery point and its start.
            self.is_settling = True
            try:
                yield self._checkpoint()
                return not self.is_over and self._swap(settled)
            finally:
                self.is_settling = False
        except OSError as error:
            if self._copy.is_void:
                return False
            # A segment was dropped before it could be read: its file has another name now.
            self._missed += 1
            dropped = isinstance(error, FileNotFoundError) and self._files.is_dir(self.directory)
            if not dropped or self._missed > MOST_MISSED:
                raise
            return False

    # The swap.

    def _swap(self, settled: Settled) -> bool:
        """The log is in the new folder from here on; false when too much has happened since `settled`."""
        log, files = self.log, self._files
        if not self._copy.copy_rest(settled, self._tail):
            self._tail = min(2 * self._tail, LONGEST_TAIL_BYTES)
            return False
        place = self.parent / partition_dir(*self.key)
        # A rename would replace an empty folder, and fail with a full one, in a way that says neither.
        if files.exists(place):
            raise OSError(errno.EEXIST, "there is a folder of that name", str(place))
        try:
            files.rename(self.directory, place)
        except OSError as error:
            if not self._has_happened(place, error):
                raise
        log.move_to(place)
        settled.active.become_active()
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
        # The new name first: with both names lost the log would be gone.
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
        """Do the rest here and now: the log is about to be closed, deleted or cut.

        Raises:
            OSError: the folders cannot be renamed or synced.
        """
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
        """Leave an empty folder, which the next start fills, ours or Kafka's.

        Raises:
            OSError: it cannot be emptied.
        """
        if self._files.is_dir(self.directory):
            self._copy.make_folder()
