"""New segments take the place of old ones.

The order of the renames is what a start relies on (`odradek.log.startup.partition_folder`): all files of the
new segment are called `.swap` before the first old file goes, so that from then on there is only one way,
forward. A failure before that leaves the log as it was. After a later failure the log takes no writes until
the broker is started again, which finishes the swap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.errors import KafkaStorageError
from odradek.log.cleaner.job import CleanJob, CleanResult, Replacement
from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.segment_list import open_segment
from odradek.log.steps import DiskSteps, at_once
from odradek.log.storage.file_names import CLEANED_SUFFIX, SWAP_SUFFIX, with_marker
from odradek.log.storage.gap_marker import note_gaps

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.segments.segment import Segment

logger = logging.getLogger(__name__)


def swap_in(log: PartitionLog, job: CleanJob, result: CleanResult, now_ms: int) -> bool:
    """Do all of `swapping` in this thread."""
    return at_once(swapping(log, job, result, now_ms))


def swapping(
    log: PartitionLog,
    job: CleanJob,
    result: CleanResult,
    now_ms: int,
    is_current: Callable[[], bool] = lambda: True,
) -> DiskSteps:
    """Put the new segments of a pass into the log.

    Args:
        is_current: false once the log was deleted: its folder may be another's by then.

    Returns:
        False when the log is not any more what the job was made for (truncated, or segments were dropped
        meanwhile): the new segments are removed then, as far as they were not yet swapped in.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    # One after the other, from the log's start: a stop in between leaves a log that is clean up to a point.
    for number, replacement in enumerate(result.replacements):
        old = _still_there(log, job, replacement)
        if old is None:
            discard(log, result, number)
            return False
        swap = _Swap(log, replacement)
        try:
            yield swap.announce
        except OSError as error:
            if not is_current():
                return False
            swap.give_up()
            raise log.storage_error("swapping in a cleaned segment", error) from error
        if not is_current():
            return False
        # Again, since the disk was waited for: the log may have been cut meanwhile.
        old = _still_there(log, job, replacement)
        if old is None:
            swap.give_up()
            discard(log, result, number + 1)
            return False
        # No wait between `_still_there` and here, so the log is still what it was asked about.
        try:
            swap.take_over(old, now_ms)
            yield swap.sync
            swap.settle()
            yield swap.sync
        except (OSError, CorruptIndexError) as error:
            if not is_current():
                return False
            # Old files may be gone already, so there is no way back; a start goes forward.
            log.syncing.failed = True
            if isinstance(error, CorruptIndexError):
                raise KafkaStorageError(f"the index of a cleaned segment is damaged: {error}") from error
            raise log.storage_error("swapping in a cleaned segment", error) from error
        if not is_current():
            return False
    return True


def discard(log: PartitionLog, result: CleanResult, first: int = 0) -> None:
    """Remove the files of new segments that are not wanted, from the `first` of them on. Never raises
    `OSError`.
    """
    for replacement in result.replacements[first:]:
        for path in _new_paths(log, replacement, CLEANED_SUFFIX):
            _remove_quietly(log, path)


def _still_there(log: PartitionLog, job: CleanJob, replacement: Replacement) -> list[Segment] | None:
    if log.syncing.moving:
        # What has been copied and what has not must be of one state of the log.
        return None
    sizes = {source.base_offset: source.size for source in job.sources}
    by_base = {segment.base_offset: segment for segment in log.segments}
    old = []
    for base in replacement.replaces:
        segment = by_base.get(base)
        # A cut may have made a complete segment the active one, or a shorter one of the same base offset.
        if segment is None or segment is log.segments.active or segment.size != sizes[base]:
            return None
        old.append(segment)
    return old


def _new_paths(log: PartitionLog, replacement: Replacement, marker: str) -> list[Path]:
    segment = open_segment(log.files, log.directory, replacement.base_offset, log.config)
    return [with_marker(path, marker) for path in segment.paths()]


class _Swap:
    """One new segment on its way in. While its files are called `.swap`, it is in the log under that name."""

    def __init__(self, log: PartitionLog, replacement: Replacement) -> None:
        self._log = log
        self._directory = log.directory
        self._replacement = replacement
        self._new = open_segment(log.files, log.directory, replacement.base_offset, log.config)
        self._paths = self._new.paths()
        self._present: list[Path] = []
        """The final names of its files: without aborted transactions a segment has no index of them."""

    def announce(self) -> None:
        """Give the new files the names by which a start goes on with them. Touches nothing that the log
        uses.
        """
        files = self._log.files
        # First: from the first of the new names on a start finds the new segment, and its gaps.
        note_gaps(files, self._directory)
        for path in self._paths:
            if files.exists(with_marker(path, CLEANED_SUFFIX)):
                files.rename(with_marker(path, CLEANED_SUFFIX), with_marker(path, SWAP_SUFFIX))
                self._present.append(path)
        files.fsync_dir(self._directory)

    def give_up(self) -> None:
        """Remove its files: it is not in the log."""
        for path in self._paths:
            _remove_quietly(self._log, with_marker(path, SWAP_SUFFIX))
            _remove_quietly(self._log, with_marker(path, CLEANED_SUFFIX))

    def take_over(self, old: list[Segment], now_ms: int) -> None:
        """Let the log read the new segment in place of the old ones.

        Raises:
            OSError: a file cannot be renamed or read.
        """
        log, new = self._log, self._new
        self._rename_to([with_marker(path, SWAP_SUFFIX) for path in self._paths])
        new.load(self._replacement.size, now_ms)
        # Not by the log, which would take the snapshot at the base offset out as well: the new segment has
        # the base offset of the first.
        marked = old[0].mark_deleted()
        for segment in old[1:]:
            marked += log.mark_deleted(segment)
        log.segments.replace(old, new)
        log.syncing.swap = self.finish
        log.remove_later(marked)
        logger.info(
            "%r: segment %d of %d bytes replaces %d segments of %d bytes",
            log,
            new.base_offset,
            new.size,
            len(old),
            sum(segment.size for segment in old),
        )

    def sync(self) -> None:
        """Sync the folder: the old names are to be gone for good before the new names come, as segments of
        both would overlap.
        """
        self._log.files.fsync_dir(self._directory)

    def settle(self) -> None:
        """Give the new segment its name, unless `finish` has.

        Raises:
            OSError: a file cannot be renamed.
        """
        log = self._log
        # While the disk was waited for, the log may have been closed, moved or cut, which calls `finish`.
        if log.syncing.swap != self.finish:
            return
        self._new.release()
        for path in self._present:
            log.files.rename(with_marker(path, SWAP_SUFFIX), path)
        self._rename_to(self._paths)
        log.syncing.swap = None
        log.syncing.names_made += 1

    def finish(self) -> None:
        """Do the rest here and now: the log is about to be closed, moved or cut.

        Raises:
            OSError: the folder cannot be synced, or a file not be renamed.
        """
        self.sync()
        self.settle()
        self.sync()

    def _rename_to(self, paths: list[Path]) -> None:
        new = self._new
        new.path, new.offset_index.path, new.time_index.path, new.txn_index.path = paths


def _remove_quietly(log: PartitionLog, path: Path) -> None:
    try:
        log.files.remove(path)
    except OSError as error:
        logger.warning("%r: %s is left behind, the next start removes it: %s", log, path.name, error)
