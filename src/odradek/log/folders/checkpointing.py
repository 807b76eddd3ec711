"""Writing the checkpoints of the data folders in three steps, so that the slow one can be done elsewhere.

As with flushes (`odradek.log.partition.flushing`): `begin` notes what the files are to say,
`CheckpointJob.run` writes and syncs them, `finish` takes note. What a later job has written is not replaced
by an earlier one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.startup.clean_stop import LastStop, sizes_of
from odradek.log.storage.checkpoint_file import write_offsets
from odradek.log.storage.file_names import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.folders.data_directories import DataDirectories
    from odradek.log.folders.moving import Move
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.startup.damaged_logs import DamagedLog, DamagedLogs
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class CheckpointJob:
    """Files to be written. `run` may be called in another thread.

    Attributes: `errors`: the folders of which a file could not be written; `forgets`: partitions that the
    files will not speak of any more; `syncs_all`: also high watermarks are synced.
    """

    def __init__(self, checkpoints: Checkpoints, number: int, entries: list[tuple[Path, Offsets]]) -> None:
        self.number = number
        self.entries = entries
        self.errors: dict[Path, OSError] = {}
        self.forgets: frozenset[TopicPartition] = frozenset()
        self.syncs_all = False
        self._checkpoints = checkpoints

    def run(self) -> None:
        """Wait for the disk. Never raises `OSError`."""
        self._checkpoints.write(self)


class Checkpoints:
    """The three checkpoints of each data folder: recovery points, log starts, high watermarks.

    Attributes: `exclusive`: held while files are written; a lock, where jobs run in several threads;
    `coming`: gives the logs that are about to be in other folders; `gone`: partitions that the files may
    speak of, but that are not there any more.

    Args: `logs`: all there are; `damaged`: those of which the files go on to say what they said.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        directories: DataDirectories,
        damaged: DamagedLogs,
        files: FileSystem,
    ) -> None:
        self._logs = logs
        self._directories = directories
        self._damaged = damaged
        self._files = files
        self.exclusive: AbstractContextManager[object] = nullcontext()
        self.coming: Callable[[], Iterable[Move]] = tuple
        self.gone: set[TopicPartition] = set()
        # Of jobs; each has the number that it was begun with, so that an older job is known by it.
        self._count = 0
        self._said: dict[Path, Offsets] = {}
        """The offsets in each file that was written here; a file that is being written again is not in it, so
        that a write which fails is made up for by the next round."""
        self._newest: dict[Path, int] = {}
        """The job that each file was last written by."""
        self._closed = False

    def close(self) -> None:
        """Write nothing any more; waits for the job that is being written."""
        with self.exclusive:
            self._closed = True

    def write_all(self) -> CheckpointJob:
        """Write down here and now what `begin` speaks of; returns what came of it."""
        job = self.begin()
        job.run()
        self.finish(job)
        return job

    def begin(self) -> CheckpointJob:
        """Return what to write of the logs as they are now, and of those `coming` to other folders.

        Its `run` may be called in another thread, `finish` after it. With no entries there is nothing new to
        be written.
        """
        entries: list[tuple[Path, Offsets]] = []
        has_log_starts = False
        for directory, here in self._by_directory().items():
            for name, offset_of in _FILES.items():
                offsets = offset_of(here) | self._kept(directory, name)
                self._add(entries, directory / name, offsets)
                has_log_starts |= name == LOG_START_OFFSETS and bool(offsets)
        self._count += 1
        job = CheckpointJob(self, self._count, entries)
        # See `begin_log_starts`: what was synced there may not be replaced by what is not.
        job.syncs_all = has_log_starts
        job.forgets = frozenset(self.gone)
        return job

    def begin_log_starts(self) -> CheckpointJob:
        """As `begin`, of what lets the log starts outlive everything: these, and the high watermarks.

        A log start is believed after a power failure that took records above it along only if the high
        watermark was as high, so that is written before it, and synced.
        """
        entries: list[tuple[Path, Offsets]] = []
        marks: list[tuple[Path, Offsets]] = []
        for directory, here in self._by_directory().items():
            before = len(entries)
            starts = _log_starts(here) | self._kept(directory, LOG_START_OFFSETS)
            self._add(entries, directory / LOG_START_OFFSETS, starts)
            if len(entries) > before:
                kept = self._kept(directory, HIGH_WATERMARKS)
                marks.append((directory / HIGH_WATERMARKS, _high_watermarks(here) | kept))
                self._said.pop(marks[-1][0], None)
        self._count += 1
        job = CheckpointJob(self, self._count, [*marks, *entries])
        job.syncs_all = True
        return job

    def last_stop(self, directory: Path) -> LastStop:
        """Return what is to be known of the logs in a data folder, now that they are closed."""
        here = self._by_directory()[directory]
        damaged = self._damaged.known_in(directory)
        segments = {key: sizes_of(log) for key, log in here.items()} | dict(damaged.segments)
        starts = _log_starts(here) | self._kept(directory, LOG_START_OFFSETS)
        return LastStop(segments, damaged.unclean, starts)

    def _by_directory(self) -> dict[Path, Here]:
        by_directory: dict[Path, Here] = {path: {} for path in self._directories.online}
        for key, log in list(self._logs.items()):
            here = by_directory.get(log.directory.parent)
            if here is not None:
                here[key] = log
        for move in self.coming():
            by_directory[move.parent][move.key] = move.log
        return by_directory

    def _kept(self, directory: Path, name: str) -> Offsets:
        offset_of = _OF_DAMAGED[name]
        return {
            key: offset_of(part)
            for key, damaged_log in self._damaged.items()
            for part in damaged_log.parts()
            if part.directory.parent == directory and offset_of(part)
        }

    def _add(self, entries: list[tuple[Path, Offsets]], path: Path, offsets: Offsets) -> None:
        # An idle broker writes nothing; Kafka's writes its checkpoints in any case.
        if self._said.get(path) != offsets:
            self._said.pop(path, None)
            entries.append((path, offsets))

    def write(self, job: CheckpointJob) -> None:
        """See `CheckpointJob.run`."""
        with self.exclusive:
            for path, offsets in job.entries:
                # A job that waited for its thread must not put older offsets over newer.
                is_late = self._closed or self._newest.get(path, 0) > job.number
                if is_late or path.parent in job.errors:
                    continue
                try:
                    # High watermarks change with every append and are found again: no need to wait for them.
                    sync = job.syncs_all or path.name != HIGH_WATERMARKS
                    write_offsets(self._files, path, offsets, sync=sync)
                    self._newest[path] = job.number
                except OSError as error:
                    logger.error("writing %s failed: %s", path, error)
                    job.errors[path.parent] = error

    def finish(self, job: CheckpointJob) -> bool:
        """Take note of what the files say now; whether all could be written."""
        for path, offsets in job.entries:
            if path.parent not in job.errors and self._newest.get(path) == job.number == self._count:
                self._said[path] = offsets
        for path, error in job.errors.items():
            self._directories.note_error(path, error)
        # All files that were written anew leave them out. A partition of that name may be there again.
        if not job.errors:
            self.gone -= job.forgets - self._logs.keys()
        return not job.errors


Here = dict[TopicPartition, "PartitionLog"]
"""The logs of one data folder."""


def _recovery_points(logs: Here) -> Offsets:
    return {key: log.recovery_point for key, log in logs.items()}


def _log_starts(logs: Here) -> Offsets:
    return {
        key: log.log_start_offset
        for key, log in logs.items()
        # A log that could not be begun anew after all was dropped has no segment.
        if log.segments and log.log_start_offset > log.segments[0].base_offset
    }


def _high_watermarks(logs: Here) -> Offsets:
    return {key: log.high_watermark for key, log in logs.items()}


_FILES: dict[str, Callable[[Here], Offsets]] = {
    RECOVERY_POINTS: _recovery_points,
    LOG_START_OFFSETS: _log_starts,
    HIGH_WATERMARKS: _high_watermarks,
}

_OF_DAMAGED: dict[str, Callable[[DamagedLog], int]] = {
    RECOVERY_POINTS: attrgetter("recovery_point"),
    LOG_START_OFFSETS: attrgetter("log_start_offset"),
    HIGH_WATERMARKS: attrgetter("high_watermark"),
}
