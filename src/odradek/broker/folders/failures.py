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

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterDelta, ClusterImage

log = logging.getLogger(__name__)


class FolderFailures:
    """The broker's reaction to folders that fail. Made in the event loop's thread."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker

    def follow(self) -> None:
        """Be told of failures from now on; those before now are noted in the metadata."""
        broker = self._broker
        broker.logs.on_failure = self._on_failed
        broker.controller.add_listener(self._on_image)
        if len(broker.logs.online_dirs) < len(broker.logs.data_dirs):
            # What is not there may be in a folder that could not be used.
            broker.controller.note_offline(broker.broker_id, list(broker.replicas.offline))
        elif broker.logs.damaged:
            damaged = [key for key in broker.replicas.offline if key in broker.logs.damaged]
            broker.controller.note_offline(broker.broker_id, damaged)

    def _on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """A damaged log that its topic's deletion has removed does not come back, as one on a disk may."""
        controller = self._broker.controller
        for broker_id, topic, index in controller.offline_replicas:
            if topic in delta.topics_marked and self._broker.logs.is_gone((topic, index)):
                controller.offline_replicas -= {(broker_id, topic, index)}

    def _on_failed(self, path: Path, keys: list[tuple[str, int]], reason: str) -> None:
        # Whatever came upon the failure ends first.
        self._broker.loop.call_soon_threadsafe(self._give_up, path, keys, reason)

    def _give_up(self, path: Path, keys: list[tuple[str, int]], reason: str) -> None:
        broker = self._broker
        broker.replicas.take_offline(keys, f"the data folder {path} has failed: {reason}")
        noting = broker.controller.event_queue.run(partial(self._note_offline, keys))
        if asyncio.isfuture(noting):
            noting.add_done_callback(_log_failure)
        if not broker.logs.online_dirs:
            failed = ", ".join(map(str, broker.logs.data_dirs))
            message = f"all data folders have failed ({failed}), the last by: {reason}"
            log.critical("the broker cannot go on: %s", message)
            if broker.on_fatal is not None:
                broker.on_fatal(message)

    def _note_offline(self, keys: list[tuple[str, int]]) -> None:
        try:
            self._broker.controller.note_offline(self._broker.broker_id, keys)
        except OdradekError as error:
            log.error("the loss of %d partitions could not be noted: %s", len(keys), error)


def _log_failure(done: asyncio.Future[Any]) -> None:
    if not done.cancelled() and done.exception() is not None:
        log.error("the loss of a data folder could not be noted", exc_info=done.exception())
