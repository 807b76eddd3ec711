"""The replicas of a broker that are on their way to other data folders, and what a start finds of such."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from odradek.errors import KafkaStorageError
from odradek.log.folders.moving import Move
from odradek.log.startup.folder_view import FolderView, FoundLog
from odradek.log.steps import Wait
from odradek.log.storage.data_directory import ReplicaState
from odradek.log.storage.file_names import MOVED_FROM, delete_dir, future_dir, parse_partition_dir
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.log.folders.checkpointing import Checkpoints
    from odradek.log.folders.data_directories import DataDirectories
    from odradek.log.folders.removing import Removals
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)

MOST_PREFERRED = 10_000
"""Remember the chosen folder of at most this many partitions that do not exist yet."""


class Moves:
    """Begun by `begin`; somebody else goes through the steps, and says `end` when there are no more.

    Args: `logs`: all there are; `checkpoints`: speak of what is `coming` from now on.

    Attributes: `unfinished`: moves that a stop has broken off, by partition: the copy's folder. Whoever runs
    the broker begins them again.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        directories: DataDirectories,
        removals: Removals,
        files: FileSystem,
        checkpoints: Checkpoints,
    ) -> None:
        self._logs = logs
        self._directories = directories
        self._removals = removals
        self._files = files
        self._checkpoints = checkpoints
        checkpoints.coming = self.coming
        # At most one move of a partition; `end` takes it out, also where it has swapped.
        self._by_key: dict[TopicPartition, Move] = {}
        # In the order of their coming, so that the oldest goes where there are `MOST_PREFERRED`.
        self._preferred: dict[TopicPartition, Path] = {}
        self.unfinished: dict[TopicPartition, Path] = {}

    def get(self, key: TopicPartition) -> Move | None:
        """A partition's move."""
        return self._by_key.get(key)

    def all(self) -> list[Move]:
        """The moves under way, in the order in which they were begun."""
        return list(self._by_key.values())

    # Beginning and ending.

    def begin(self, key: TopicPartition, parent: Path) -> Move | None:
        """Let a partition's log move to another data folder; None if it is there, or on its way.

        A move of it to somewhere else is given up.

        Raises:
            KafkaStorageError: the log takes no writes, or a data folder is offline: the log may be in it, too
                (as in Kafka).
        """
        present = self._by_key.get(key)
        if present is not None and not present.has_swapped:
            if present.parent == parent:
                return None
            self.cancel(key)
        log = self._logs.get(key)
        if log is None or log.syncing.failed:
            raise KafkaStorageError(f"{key[0]}-{key[1]} cannot be used")
        if log.directory.parent == parent:
            return None
        if self._directories.offline:
            raise KafkaStorageError("replicas are not moved while a data folder is offline")
        if present is not None:
            # It has arrived, and its old folder is still being got rid of.
            try:
                log.syncing.finish_swap()
            except OSError as error:
                raise log.storage_error("moving", error) from error
            self._by_key.pop(key, None)
        if self._files.exists(log.directory / MOVED_FROM):
            raise KafkaStorageError(f"{log!r} has moved, but its old folder could not be removed yet")
        directory = self.unfinished.pop(key, None)
        if directory is not None and directory.parent != parent:
            self._discard(directory, key)
            directory = None
        if directory is None:
            directory = parent / future_dir(*key, uuid4())

        def checkpoint() -> Wait:
            job = self._checkpoints.begin()

            def run() -> None:
                job.run()
                if parent in job.errors:
                    raise job.errors[parent]

            return run

        move = Move(log, directory, checkpoint, self._removals.add_later, self._directories.note_error)
        self._by_key[key] = move
        return move

    def end(self, move: Move) -> None:
        """There are no more steps of it. What it has left behind, not having swapped, goes."""
        if self._by_key.get(move.key) is move:
            del self._by_key[move.key]
        move.abandon()
        if not move.has_swapped and not move.keeps_copy:
            self._discard(move.directory, move.key)

    def cancel(self, key: TopicPartition) -> bool:
        """Give a partition's move up, if there is one; whether there was. The copy goes."""
        directory = self.unfinished.pop(key, None)
        if directory is not None:
            self._discard(directory, key)
        move = self._by_key.get(key)
        if move is None or move.has_swapped:
            return directory is not None
        self.end(move)
        return True

    def _discard(self, directory: Path, key: TopicPartition) -> None:
        if not self._is_online(directory.parent):
            return
        target = directory.parent / delete_dir(*key, uuid4())
        try:
            if self._files.is_dir(directory):
                self._files.rename(directory, target)
                self._removals.add_later(target)
        except OSError as error:
            logger.warning("%s is left behind: %s", directory, error)
            self._directories.note_error(directory.parent, error)

    def _is_online(self, path: Path) -> bool:
        return path in self._directories.online

    def on_failed(self, path: Path) -> None:
        """Give up the moves from and to a data folder that has failed."""
        for key, move in list(self._by_key.items()):
            if path in (move.parent, move.source.parent) and not move.has_swapped:
                # The copy stays: it may be all that is left of the log.
                del self._by_key[key]
                move.keeps_copy = True
                move.abandon()

    def close(self) -> None:
        """The broker stops. Copies become empty folders, from which the next start knows what was wanted."""
        for move in self.all():
            if not move.has_swapped:
                move.abandon()
                try:
                    move.empty()
                except OSError as error:
                    logger.warning("%s could not be emptied: %s", move.directory, error)
        self._by_key.clear()

    # Partitions that are yet to come.

    def prefer(self, key: TopicPartition, parent: Path) -> None:
        """Remember the data folder for a partition that does not exist here yet."""
        self._preferred.pop(key, None)
        if len(self._preferred) >= MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = parent

    def preferred(self, key: TopicPartition) -> Path | None:
        """Return the data folder chosen for a new partition; None if none was, or it cannot be used."""
        parent = self._preferred.pop(key, None)
        return parent if parent is not None and self._is_online(parent) else None

    # What others want to know.

    def describe(self, parent: Path) -> list[ReplicaState]:
        """The copies in a data folder."""
        return [move.describe() for move in self.all() if move.parent == parent and not move.has_swapped]

    def coming(self) -> list[Move]:
        """The moves that are about to swap: the checkpoints of their new data folders speak of them."""
        return [move for move in self.all() if move.is_settling]

    # Starting.

    def superseded(self) -> set[Path]:
        """The old folders of logs that a stop has left in two, in the middle of a swap. Never raises."""
        places: dict[str, list[Path]] = {}
        folders = self._directories.online
        for parent in folders if len(folders) > 1 else ():
            try:
                for name in self._files.list(parent):
                    if parse_partition_dir(name) is not None:
                        places.setdefault(name, []).append(parent / name)
            except OSError as error:
                logger.warning("%s cannot be looked at: %s", parent, error)
        old = set()
        for twice in [paths for paths in places.values() if len(paths) > 1]:
            for path in twice:
                source = self._moved_from(path)
                if source in twice and source != path:
                    old.add(source)
        return old

    def _moved_from(self, directory: Path) -> Path | None:
        try:
            return Path(self._files.read(directory / MOVED_FROM).decode(errors="replace"))
        except OSError:
            return None

    def settle(self, item: FoundLog) -> None:
        """The old folder of a log that had moved is gone, if its data folder could be looked at.

        Raises:
            OSError: the note of that cannot be removed.
        """
        if MOVED_FROM not in item.plan.contents.sizes:
            return
        source = self._moved_from(item.plan.directory)
        # While its data folder is offline the old folder may be there: without the file it would count as
        # much.
        if source is None or source.parent not in self._directories.paths or self._is_online(source.parent):
            self._files.remove(item.plan.directory / MOVED_FROM)

    def retire(self, directory: Path) -> Path:
        """Give the old folder of a moved log the name under which it goes.

        Raises:
            OSError: it cannot be renamed.
        """
        key = parse_partition_dir(directory.name)
        assert key is not None
        target = directory.parent / delete_dir(*key, uuid4())
        self._files.rename(directory, target)
        self._files.fsync_dir(directory.parent)
        logger.info("%s is removed: the log in it has moved", directory)
        return target

    def take_up(self, views: dict[Path, FolderView]) -> None:
        """Take up what there is of copies: wanted where the log is elsewhere, else not."""
        for parent, view in views.items():
            for key, directory in view.futures:
                log = self._logs.get(key)
                if log is None:
                    logger.warning("%s is left alone: the replica that it copies is not here", directory)
                elif log.directory.parent == parent or key in self.unfinished:
                    self._discard(directory, key)
                else:
                    self.unfinished[key] = directory
