"""A data folder as a start finds it: its checkpoints, and a plan for every log. Changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from odradek.log.config import LogConfig
from odradek.log.errors import DataDirectoryError, LogDamagedError
from odradek.log.startup.clean_stop import Known, read_segments
from odradek.log.startup.damaged_logs import DamagedLog
from odradek.log.startup.recovery import RecoveryPlan, plan_recovery
from odradek.log.storage.checkpoint_file import CorruptCheckpointError, read_offsets
from odradek.log.storage.data_directory import DataDirectory, is_of_one_file
from odradek.log.storage.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    marker_of_dir,
    parse_future_dir,
    parse_partition_dir,
    partition_dir,
)
from odradek.log.storage.files import FileSystem
from odradek.util.topic_partition import TopicPartition
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

logger = logging.getLogger(__name__)

_COMPACTED = frozenset((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC))
"""Topics that are compacted, whatever is known of their configs: their logs have gaps, which elsewhere
mean that segments are gone."""


@dataclass
class FoundLog:
    """A partition's folder, and what the checkpoints say of it."""

    topic: str
    partition: int
    config: LogConfig
    plan: RecoveryPlan
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    known_sizes: Known | None = None

    def damaged(self, reason: str) -> DamagedLog:
        """Return what is known of the log as that of a damaged log, where it cannot be opened."""
        return DamagedLog(
            self.topic,
            self.partition,
            self.plan.directory,
            reason,
            self.recovery_point,
            self.log_start_offset,
            self.high_watermark,
            self.plan.clean,
            self.known_sizes,
        )

    @property
    def believable_log_start(self) -> int:
        """The log's start, if it can be: no log starts above its end and its high watermark.

        To believe another start would cost all records that are there.
        """
        end, start = self.plan.end_offset, self.log_start_offset
        if end is None or start <= end or start <= self.high_watermark:
            return start
        logger.error(
            "%s-%d: %s has %d, but the log ends at %d and its high watermark is %d; going on without it",
            self.topic,
            self.partition,
            LOG_START_OFFSETS,
            start,
            end,
            self.high_watermark,
        )
        return 0


@dataclass
class FolderView:
    """A data folder: its logs, the folders of deleted partitions, copies of logs on their way to it, logs
    that had moved away from it, logs that are damaged, and the recovery points of all partitions that its
    checkpoints speak of."""

    logs: list[FoundLog] = field(default_factory=list)
    deleted: list[Path] = field(default_factory=list)
    futures: list[tuple[TopicPartition, Path]] = field(default_factory=list)
    superseded: list[Path] = field(default_factory=list)
    damaged: list[DamagedLog] = field(default_factory=list)
    spoken_of: dict[TopicPartition, DamagedLog] = field(default_factory=dict)

    def lowered_recovery_points(self) -> dict[TopicPartition, int] | None:
        """Return what the checkpoint has to say before logs are cut below their recovery point; None if none
        is.

        Else a start after a kill would find a log that ends before it, and nothing torn.
        """
        cut = {
            (item.topic, item.partition): item.plan.end_offset or 0
            for item in self.logs
            if item.plan.cuts_tail and (item.plan.end_offset or 0) < item.recovery_point
        }
        return {key: log.recovery_point for key, log in self.spoken_of.items()} | cut if cut else None


def find_compacted(files: FileSystem, directories: Iterable[Path]) -> set[TopicPartition]:
    """The partitions of which a cleaner's checkpoint speaks, in any data folder: logs move. Never raises."""
    compacted: set[TopicPartition] = set()
    for directory in directories:
        try:
            compacted.update(_offsets(files, directory / CLEANER_OFFSETS))
        except OSError as error:
            logger.warning("going on without %s in %s: %s", CLEANER_OFFSETS, directory, error)
    return compacted


def look(
    files: FileSystem,
    directory: DataDirectory,
    configs: Mapping[str, Mapping[str, str]],
    defaults: LogConfig,
    superseded: Collection[Path] = (),
    *,
    compacted: Collection[TopicPartition] = (),
    refuses_damage: bool = True,
) -> FolderView:
    """Look at a data folder.

    Args:
        files, directory: where it is.
        configs: the topics' own.
        defaults: what they do not say.
        superseded: the folders of logs that moved.
        compacted: partitions that a cleaner has been at work on.
        refuses_damage: raise what is wrong with a log, in place of listing the log as damaged.

    Raises:
        LogDamagedError: a log is damaged.
        OSError: the data folder cannot be read.
    """
    path, view = directory.path, FolderView()
    # A stop writes the file when all logs are closed; this start removes it when it begins to write.
    directory.was_clean = files.exists(path / CLEAN_SHUTDOWN)
    said_of = _read_checkpoints(files, path, view, was_clean=directory.was_clean)
    for key, folder in _partition_folders(files, path, view, superseded):
        checkpointed = view.spoken_of.get(key) or said_of(key)
        config = LogConfig.from_topic(configs.get(key[0], {}), defaults)
        try:
            plan = plan_recovery(
                files,
                folder,
                config,
                clean=checkpointed.was_clean,
                recovery_point=checkpointed.recovery_point,
                known_sizes=checkpointed.known_sizes,
                was_compacted=key in compacted or key[0] in _COMPACTED,
            )
        except (LogDamagedError, OSError) as error:
            # An error of the disk is the data folder's, not the log's: every log would be called damaged.
            if refuses_damage or (isinstance(error, OSError) and not is_of_one_file(files, path, error)):
                raise
            view.damaged.append(replace(checkpointed, reason=str(error)))
            continue
        offsets = checkpointed.recovery_point, checkpointed.log_start_offset, checkpointed.high_watermark
        view.logs.append(FoundLog(*key, config, plan, *offsets, checkpointed.known_sizes))
    return view


def _read_checkpoints(
    files: FileSystem, path: Path, view: FolderView, *, was_clean: bool
) -> Callable[[TopicPartition], DamagedLog]:
    """Fill in what the checkpoints speak of; returns what they say of any partition.

    Raises:
        OSError: a file cannot be read.
    """
    last_stop = read_segments(files, path)
    recovery_points = _offsets(files, path / RECOVERY_POINTS)
    log_starts = _offsets(files, path / LOG_START_OFFSETS)
    high_watermarks = _offsets(files, path / HIGH_WATERMARKS)

    def said_of(key: TopicPartition) -> DamagedLog:
        return DamagedLog(
            *key,
            path / partition_dir(*key),
            "",
            recovery_points.get(key, 0),
            # Both are true of some moment and starts only grow; the checkpoint may be lost, and without it
            # records that were deleted would be back.
            max(log_starts.get(key, 0), last_stop.starts.get(key, 0)),
            high_watermarks.get(key, 0),
            # A log that was damaged already was not closed by that stop.
            was_clean and key not in last_stop.unclean,
            last_stop.segments.get(key),
        )

    for spoken_of in {*recovery_points, *log_starts, *high_watermarks}:
        view.spoken_of[spoken_of] = said_of(spoken_of)
    return said_of


def _partition_folders(
    files: FileSystem, path: Path, view: FolderView, superseded: Collection[Path]
) -> Iterator[tuple[TopicPartition, Path]]:
    """The folders of partitions; what other folders there are goes into the view.

    Raises:
        OSError: the data folder cannot be read.
    """
    for name, size in files.entries(path).items():
        folder = path / name
        if size >= 0:
            continue
        marker = marker_of_dir(name)
        if marker == "delete":
            view.deleted.append(folder)
            continue
        future = parse_future_dir(name)
        if future is not None:
            view.futures.append((future, folder))
            continue
        key = parse_partition_dir(name)
        if key is None:
            logger.info("%s is left alone: %s", folder, marker or "no partition's folder")
            continue
        # A move was ended by a kill: the log lives in another data folder by now, this is what it left.
        if folder in superseded:
            view.superseded.append(folder)
            continue
        yield key, folder


def _offsets(files: FileSystem, path: Path) -> dict[TopicPartition, int]:
    try:
        return read_offsets(files, path)
    except CorruptCheckpointError as error:
        # Each of them may be lost: 0 as a recovery point has the whole log read through.
        logger.warning("going on without %s: %s", path.name, error)
        return {}


def settle_duplicates(views: Iterable[FolderView], *, refuses: bool) -> None:
    """Take partitions that are in two folders for damaged: only the operator knows which one counts.

    Raises:
        DataDirectoryError: there are such partitions, with `refuses`.
    """
    by_partition: dict[TopicPartition, list[tuple[FolderView, DamagedLog]]] = {}
    for view in views:
        for damaged_log in [*(item.damaged("") for item in view.logs), *view.damaged]:
            by_partition.setdefault(damaged_log.key, []).append((view, damaged_log))
    twice = {key: parts for key, parts in by_partition.items() if len(parts) > 1}
    for key, parts in twice.items():
        folders = " and ".join(str(damaged_log.directory) for _, damaged_log in parts)
        why = f"is in both {folders}. Move the folder away that is not the newer one"
        if refuses:
            raise DataDirectoryError(f"{key[0]}-{key[1]} {why}.")
        for view, _ in parts:
            view.logs = [item for item in view.logs if (item.topic, item.partition) != key]
            view.damaged = [damaged_log for damaged_log in view.damaged if damaged_log.key != key]
        (first, counted), *others = parts
        reason = f"it {why}, and start the broker again"
        first.damaged.append(
            replace(counted, reason=reason, elsewhere=tuple(damaged_log for _, damaged_log in others))
        )
