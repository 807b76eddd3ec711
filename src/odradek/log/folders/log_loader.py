"""A start: everything is looked at before anything is changed, then what can be used is opened.

A log that is damaged beyond its tail is left as it is: either the start is refused, or it alone is offline,
by name, and all others are served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.startup.clean_stop import write_damaged
from odradek.log.startup.folder_view import FolderView, FoundLog, find_compacted, look, settle_duplicates
from odradek.log.startup.loading import load_partition_log
from odradek.log.storage.checkpoint_file import write_offsets
from odradek.log.storage.data_directory import DataDirectory, is_of_one_file
from odradek.log.storage.file_names import CLEAN_SHUTDOWN, RECOVERY_POINTS, parse_partition_dir

if TYPE_CHECKING:
    from odradek.log.config import LogConfig
    from odradek.log.folders.checkpointing import Checkpoints
    from odradek.log.folders.data_directories import DataDirectories
    from odradek.log.folders.moves import Moves
    from odradek.log.folders.removing import Removals
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.startup.damaged_logs import DamagedLogs
    from odradek.log.storage.files import FileSystem
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_LOADING = "loading the logs of {} failed"


@dataclass
class LogLoader:
    """The start of a `LogManager`, which hands over its parts; for the sets see there.

    Attributes: `logs`: loses those that turn out damaged when they are opened; `take`: takes one in.
    """

    files: FileSystem
    clock: Clock
    logs: dict[TopicPartition, PartitionLog]
    take: Callable[[PartitionLog], None]
    directories: DataDirectories
    damaged: DamagedLogs
    checkpoints: Checkpoints
    removals: Removals
    moves: Moves
    refuses_damage: bool
    stopped_cleanly: set[TopicPartition] = field(default_factory=set)
    unlost: set[TopicPartition] = field(default_factory=set)

    def look(self, configs: Mapping[str, Mapping[str, str]], defaults: LogConfig) -> dict[Path, FolderView]:
        """Return what is in each folder; nothing is changed.

        Raises:
            DataDirectoryError: as `LogManager.load`.
        """
        views: dict[Path, FolderView] = {}
        superseded = self.moves.superseded()
        compacted = find_compacted(self.files, self.directories.online)

        def look_into(directory: DataDirectory) -> None:
            views[directory.path] = look(
                self.files,
                directory,
                configs,
                defaults,
                superseded,
                compacted=compacted,
                refuses_damage=self.refuses_damage,
            )

        self.directories.in_each(_LOADING, look_into)
        settle_duplicates(views.values(), refuses=self.refuses_damage)
        return views

    def open(self, views: Mapping[Path, FolderView]) -> None:
        """Open the logs that were found.

        Raises:
            DataDirectoryError: as `LogManager.load`.
        """

        def open_logs(directory: DataDirectory) -> None:
            for item in views[directory.path].logs:
                self._open_or_give_up(item)

        self.directories.in_each(
            _LOADING, lambda directory: self._begin_in(directory.path, views[directory.path])
        )
        self.directories.in_each(_LOADING, open_logs)
        same_boot = self.directories.of_this_boot()
        self.unlost.update(key for key, log in self.logs.items() if log.directory.parent in same_boot)
        if self.logs:
            scanned = sum(bool(item.plan.scans) for view in views.values() for item in view.logs)
            logger.info("loaded %d logs, %d of them read through after a stop", len(self.logs), scanned)
        self.checkpoints.gone.difference_update(self.logs, self.damaged)
        self.damaged.settle(self.logs)
        online = self.directories.online
        self.moves.take_up({path: view for path, view in views.items() if path in online})

    def _begin_in(self, path: Path, view: FolderView) -> None:
        """Take note of what a data folder holds, before the first log of any is opened.

        Raises:
            OSError: the data folder cannot be read or written to.
        """
        # Nobody reads from these any more: they are due.
        for folder in view.deleted:
            self.removals.add(0, folder)
        self.checkpoints.gone |= view.spoken_of.keys()
        self.damaged.note(view.damaged, view.spoken_of)
        # From here on only a clean stop makes it clean again.
        write_damaged(self.files, path, self.damaged.known_in(path))
        self.files.remove(path / CLEAN_SHUTDOWN)
        self.files.fsync_dir(path)
        lowered = view.lowered_recovery_points()
        if lowered is not None:
            write_offsets(self.files, path / RECOVERY_POINTS, lowered)
        for old in view.superseded:
            # The old folder of a damaged log may be all that is left.
            if parse_partition_dir(old.name) not in self.damaged:
                self.removals.add(0, self.moves.retire(old))

    def _open_or_give_up(self, item: FoundLog) -> None:
        try:
            self._open(item)
            self.moves.settle(item)
        except OSError as error:
            if self.refuses_damage or not is_of_one_file(self.files, item.plan.directory.parent, error):
                raise
            key = item.topic, item.partition
            log = self.logs.pop(key, None)
            if log is not None:
                log.release()
            self.damaged[key] = item.damaged(str(error))
            self.damaged.write(item.plan.directory.parent)

    def _open(self, item: FoundLog) -> None:
        offsets = item.recovery_point, item.believable_log_start
        log = load_partition_log(
            item.plan, item.topic, item.partition, item.config, self.files, self.clock, *offsets
        )
        log.update_high_watermark(item.high_watermark)
        self.take(log)
        if item.plan.clean:
            self.stopped_cleanly.add((item.topic, item.partition))
