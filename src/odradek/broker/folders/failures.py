"""Logs that cannot be used: their partitions are offline, and the metadata says so.

A data folder fails while the broker runs, or a start has found single logs damaged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.errors import OdradekError
from odradek.util.futures import error_of
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.timers import Timers

logger = logging.getLogger(__name__)

NOTE_AGAIN_MS = 1_000
"""How long the metadata store is left alone when it could not be told of a loss."""


class FolderFailures:
    """The broker's reaction to folders that fail. Made in the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        logs: LogManager,
        replicas: ReplicaManager,
        controller: KafkaController,
        on_all_failed: Callable[[str], object],
        *,
        is_alone: bool,
        shares_disk: bool,
    ) -> None:
        """
        Args:
            loop, timers: the broker's.
            logs: in the folders.
            replicas: the partitions over them.
            controller: has the metadata say what is offline.
            on_all_failed: told why the broker cannot go on, once no folder is left.
            is_alone: whether there are no other brokers.
            shares_disk: whether the others are on the same machine, as workers of one server.
        """
        self._loop = loop
        self._timers = timers
        self._logs = logs
        self._replicas = replicas
        self._controller = controller
        self._on_all_failed = on_all_failed
        self._is_alone = is_alone
        self._shares_disk = shares_disk
        self._is_stopped = False

    def follow(self) -> None:
        """Be told of failures from now on.

        What cannot be used at the start the controller hears when it first tells this broker what it holds.

        In a cluster of several a folder whose disk is full is given up, as in Kafka: others lead what is in
        it. The workers of one machine have no others: their disk is one. With a sync that fails they give it
        up as well: what was acknowledged may be lost there, and must not count as a copy of it.
        """
        self._logs.on_failure = self._on_failed
        if not self._is_alone:
            directories = self._logs.directories
            directories.gives_up_failed_syncs = True
            directories.gives_up_full_disks = not self._shares_disk

    def stop(self) -> None:
        """Say no loss again that could not be noted."""
        self._is_stopped = True

    def _on_failed(self, path: Path, keys: list[TopicPartition], reason: str) -> None:
        # Whatever came upon the failure ends first.
        self._loop.call_soon_threadsafe(self._give_up, path, keys, reason)

    def _give_up(self, path: Path, keys: list[TopicPartition], reason: str) -> None:
        self._replicas.take_offline(keys, f"the data folder {path} has failed: {reason}")
        self._note(keys)
        if not self._logs.online_dirs:
            failed = ", ".join(map(str, self._logs.data_dirs))
            message = f"all data folders have failed ({failed}), the last by: {reason}"
            logger.critical("the broker cannot go on: %s", message)
            self._on_all_failed(message)

    def _note(self, keys: list[TopicPartition]) -> None:
        noting = self._controller.event_queue.run(partial(self._note_offline, keys))
        if asyncio.isfuture(noting):
            noting.add_done_callback(partial(self._noted, keys))

    def _noted(self, keys: list[TopicPartition], done: asyncio.Future[Any]) -> None:
        error = error_of(done)
        if isinstance(error, asyncio.CancelledError):
            return
        if error is not None:
            logger.error("the loss of a data folder could not be noted", exc_info=error)
        elif not done.result():
            # Until the controller knows of it, nobody else is elected.
            self._timers.call_later(NOTE_AGAIN_MS, partial(self._note_again, keys))

    def _note_again(self, keys: list[TopicPartition]) -> None:
        if not self._is_stopped:
            self._note(keys)

    def _note_offline(self, keys: list[TopicPartition]) -> bool:
        """Tell the controller, or the store. Returns whether there is nothing left to be told."""
        controller = self._controller
        try:
            if self._is_alone:
                # The store may be in that folder.
                controller.note_offline(controller.broker_id, keys)
            else:
                controller.notify_log_dir_failure()
        except OdradekError as error:
            logger.error("the loss of %d partitions could not be noted: %s", len(keys), error)
            return self._is_alone
        return True
