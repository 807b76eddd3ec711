"""Partitions that are in this broker's data folders, or may be, while their logs cannot be used.

A log is made anew only where no record can be missed by it, and no second one comes back with a folder.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable
from pathlib import Path

from odradek.errors import KafkaStorageError
from odradek.log.folders.data_directories import DataDirectories
from odradek.log.folders.roster import Roster
from odradek.log.startup.damaged_logs import DamagedLogs
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class OfflineLogs:
    """The logs that are: their folder has failed, nobody knows where it is, or they are damaged.

    Args: `present`: the logs that can be used.

    Attributes: `lost`: partitions of which others believe that they are here, while their logs are gone.
    """

    def __init__(
        self,
        present: Container[TopicPartition],
        directories: DataDirectories,
        damaged: DamagedLogs,
        roster: Roster,
    ) -> None:
        self._present = present
        self._directories = directories
        self._damaged = damaged
        self._roster = roster
        self.lost: set[TopicPartition] = set()
        self._with_folder: dict[TopicPartition, Path] = {}
        """Partitions that were in folders which have failed. Also those that are not this broker's any more:
        their files are there still, and are back with the folder."""

    def add(self, folder: Path, keys: Iterable[TopicPartition]) -> None:
        """Take note of what goes offline with a folder, or may be back with it."""
        for key in keys:
            self._with_folder.setdefault(key, folder)

    def note_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Take note of which partitions others believe to be here, of those that `lacks` says are not.

        They are made again only where no record can be missed by it, or somebody wants it so; see
        `LogManager.create`. Those that are damaged have a reason of their own, and so has what may be in a
        folder that has failed.
        """
        if self._directories.offline:
            return
        self.lost = {key for key in lost if not self._is_damaged(key)}
        if not self.lost:
            self._roster.settle()
            return
        some = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(self.lost)[:5])
        logger.error(
            "%d partitions are lost (%s …)%s: this broker was the last in sync, and they stay offline."
            " Restore their folders, delete the topics, or have them begin empty: odradek leader-election"
            " --election-type unclean, or unclean.leader.election.enable=true",
            len(self.lost),
            some,
            self._roster.reason,
        )

    def _is_damaged(self, key: TopicPartition) -> bool:
        return key in self._damaged or self._damaged.is_missed(key)

    def lacks(self, topic: str, partition: int) -> bool:
        """Return whether a partition's log cannot be used, though it may well have been here.

        A partition without a folder was never made here where all folders are as they were. To be asked
        after `LogManager.load`.
        """
        key = (topic, partition)
        is_one_missing = bool(self._roster.missing or self._directories.offline)
        return key not in self._present and (is_one_missing or self._is_damaged(key))

    def is_gone(self, key: TopicPartition) -> bool:
        """Return whether there is nothing of a partition, nor may be in a data folder that has failed."""
        is_known = key in self._present or key in self._with_folder or key in self._damaged
        return not is_known and not self._directories.offline

    def may_prepare(self, key: TopicPartition) -> bool:
        """Return whether a folder may be made for a log that is to come.

        While a data folder is offline a log may be in it, and two of one partition refuse the next start. In
        the folder of one that is lost the next start would find an empty log, and lead it.
        """
        return self.is_gone(key) and key not in self.lost and not self._damaged.is_missed(key)

    def require_none(self, key: TopicPartition, *, is_new: bool, is_copied: bool, may_be_lost: bool) -> None:
        """Check that a log may be made; see `LogManager.create`.

        Raises:
            KafkaStorageError: it may not.
        """
        if key in self._with_folder:
            raise KafkaStorageError(f"it is in {self._with_folder[key]}, which has failed")
        failed = self._directories.offline
        if failed and not is_new:
            raise KafkaStorageError(f"it may be in a folder that has failed: {', '.join(map(str, failed))}")
        unread = self._directories.unread
        if unread and is_copied:
            # In two folders it would be offline at the next start, and with only the older one there that
            # would count.
            raise KafkaStorageError(
                f"one may be in a folder that could not be read at the start: "
                f"{', '.join(sorted(map(str, unread)))}. "
                "Repair that or take it out of log.dirs, and start the broker again"
            )
        is_given_up = is_new or is_copied or may_be_lost
        if key in self.lost and not is_given_up:
            raise KafkaStorageError(
                f"its log is lost{self._roster.reason}. Restore its folder, delete the topic, or"
                " have it begin empty by an unclean election"
            )
        self._damaged.require_none(key, is_new=is_given_up)
