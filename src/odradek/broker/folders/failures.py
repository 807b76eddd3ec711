"""Logs that cannot be used: their partitions are offline, and the metadata says so.

A data folder fails while the broker runs, or a start has found single logs damaged.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.errors import OdradekError
from odradek.util.futures import error_of
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices

logger = logging.getLogger(__name__)

NOTE_AGAIN_MS = 1_000
"""How long the metadata store is left alone when it could not be told of a loss."""


class FolderFailures:
    """The broker's reaction to folders that fail. Made in the event loop's thread."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker

    def follow(self) -> None:
        """Be told of failures from now on.

        What cannot be used at the start the controller hears when it first tells this broker what it holds.

        In a cluster of several a folder whose disk is full is given up, as in Kafka: others lead what is in
        it. The workers of one machine have no others: their disk is one. With a sync that fails they give it
        up as well: what was acknowledged may be lost there, and must not count as a copy of it.
        """
        logs = self._broker.logs
        logs.on_failure = self._on_failed
        if self._broker.channels is not None:
            logs.directories.gives_up_failed_syncs = True
            logs.directories.gives_up_full_disks = not self._broker.config.odradek_store_socket

    def _on_failed(self, path: Path, keys: list[TopicPartition], reason: str) -> None:
        # Whatever came upon the failure ends first.
        self._broker.loop.call_soon_threadsafe(self._give_up, path, keys, reason)

    def _give_up(self, path: Path, keys: list[TopicPartition], reason: str) -> None:
        broker = self._broker
        broker.replicas.take_offline(keys, f"the data folder {path} has failed: {reason}")
        self._note(keys)
        if not broker.logs.online_dirs:
            failed = ", ".join(map(str, broker.logs.data_dirs))
            message = f"all data folders have failed ({failed}), the last by: {reason}"
            logger.critical("the broker cannot go on: %s", message)
            if broker.on_fatal is not None:
                broker.on_fatal(message)

    def _note(self, keys: list[TopicPartition]) -> None:
        noting = self._broker.controller.event_queue.run(partial(self._note_offline, keys))
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
            self._broker.timers.call_later(NOTE_AGAIN_MS, partial(self._note_again, keys))

    def _note_again(self, keys: list[TopicPartition]) -> None:
        if self._broker.moving is not None:  # it has not stopped
            self._note(keys)

    def _note_offline(self, keys: list[TopicPartition]) -> bool:
        """Tell the controller, or the store. Returns whether there is nothing left to be told."""
        broker, is_alone = self._broker, self._broker.channels is None
        try:
            if is_alone:
                # The store may be in that folder.
                broker.controller.note_offline(broker.broker_id, keys)
            else:
                broker.controller.notify_log_dir_failure()
        except OdradekError as error:
            logger.error("the loss of %d partitions could not be noted: %s", len(keys), error)
            return is_alone
        return True
