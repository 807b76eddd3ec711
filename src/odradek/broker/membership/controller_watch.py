"""A broker's watch over the controller: its death is seen before its session with the metadata store ends.

It keeps a connection to the controller. When that breaks it looks again, and a refused connection is reason
enough to have the controller removed, unless the controller is connected to this broker, or others reach it:
docs/cluster.md.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.presence import WATCH, pause_ms
from odradek.errors import OdradekError
from odradek.util.futures import error_of
from odradek.util.repeats import Repeats
from odradek.wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.metadata.metadata_cache import MetadataCache
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.util.timers import TimerHandle, Timers

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

_REACHED_BY_OTHERS = (
    "controller %d and this broker refuse each other's connections, and others reach it: it lives"
)
_REFUSES = "controller %d refuses connections of this broker, and is connected to it: it lives"
_LOOK_PAUSE_S = 0.1
_LOOK_ANEW_MS = 1_000


class ControllerWatch:
    """Watches the controller of now. Made and used in the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        channels: InterBrokerChannels,
        controller: KafkaController,
        timers: Timers,
    ) -> None:
        """
        Args:
            broker_id: this broker's.
            metadata: says who the controller is.
            channels: to the other brokers.
            controller: this broker's, which removes one that has died.
            timers: time.
        """
        self._broker_id = broker_id
        self._metadata = metadata
        self._channels = channels
        self._controller = controller
        self._timers = timers
        self._loop = asyncio.get_running_loop()
        self._watched = -1
        self._doubts = 0
        """How often in a row the controller has refused this broker, and was connected to it."""
        self._looking: TimerHandle | None = None
        self._looked_at = -1.0
        self._removed: set[int] = set()
        """Controllers that this broker has had removed, and has neither reached nor seen gone since."""
        self._stopped = False

    def follow(self, controller_id: int) -> None:
        """Keep a connection to the controller of now, by whose breaking its death is seen at once."""
        if controller_id == self._broker_id or self._channels.endpoint(controller_id) is None:
            self._watched = -1
            return
        if controller_id == self._watched:
            return
        self._watched = controller_id
        channel = self._channels.to_broker(controller_id, WATCH)
        channel.on_broken = partial(self._watch_broke, controller_id)
        self._look(controller_id)

    def forget(self, broker_id: int) -> None:
        """A broker is gone: if it comes back that is another life, and may be another death."""
        self._removed.discard(broker_id)
        if broker_id == self._watched:
            self._watched = -1

    def refused(self, controller_id: int) -> None:
        """A controller has refused a connection of this broker: has it died?"""
        if controller_id != self._metadata.image.controller_id or self._stopped:
            return
        if self._channels.presence.is_connected(controller_id):
            # It lives, and has refused this broker alone; or all that it had open is about to end.
            repeats.log(logging.WARNING, controller_id, _REFUSES, controller_id)
            self._doubt(controller_id)
            return
        self._channels.witnesses.ask(controller_id, partial(self._on_testimony, controller_id))

    def stop(self) -> None:
        """Look at nobody any more."""
        self._stopped = True

    def _watch_broke(self, controller_id: int) -> None:
        """Look at once, but not without pause at one that takes connections and ends them."""
        pause = 1000 * _LOOK_PAUSE_S if self._loop.time() < self._looked_at + _LOOK_PAUSE_S else 0.0
        self._look_after(pause, controller_id)

    def _look_after(self, pause: float, controller_id: int) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = self._timers.call_later(pause, partial(self._look, controller_id))

    def _look(self, controller_id: int) -> None:
        if controller_id == self._watched and not self._stopped:
            if self._looking is not None:
                self._looking.cancel()
                self._looking = None
            self._looked_at = self._loop.time()
            answer = self._channels.to_broker(controller_id, WATCH).send(ApiVersionsRequest(), 0)
            answer.add_done_callback(partial(self._saw, controller_id))

    def _saw(self, controller_id: int, answer: asyncio.Future[object]) -> None:
        error = error_of(answer)
        if error is None:
            self._doubts = 0
            self._removed.discard(controller_id)
        elif isinstance(error, ChannelBroken) and error.refused:
            self.refused(controller_id)
        elif self._looking is None:
            # It tells nothing, and nobody else would look again: of a connection that was never there none
            # hears that it broke.
            self._look_after(_LOOK_ANEW_MS, controller_id)

    def _on_testimony(self, controller_id: int, lives: bool) -> None:
        """The controller and this broker refuse each other. Others have said whether they reach it."""
        if controller_id != self._metadata.image.controller_id or self._stopped:
            return
        if lives:
            # It hears the same, and gives way to somebody who reaches both.
            repeats.log(logging.WARNING, controller_id, _REACHED_BY_OTHERS, controller_id)
            self._controller.stand_back()
            self._doubt(controller_id)
            return
        self._doubts = 0
        self._watched = -1
        self._controller.note_refused_controller(controller_id)
        if controller_id not in self._removed:
            # Once: if it is there and others reach it, they elect it again, and it would go on like that.
            self._removed.add(controller_id)
            self._controller.event_queue.post(partial(self._remove, controller_id))

    def _doubt(self, controller_id: int) -> None:
        """Look at a controller again that refuses this broker and lives, each time later."""
        self._look_after(pause_ms(self._doubts), controller_id)
        self._doubts += 1

    def _remove(self, controller_id: int) -> None:
        try:
            self._controller.remove_dead_controller(controller_id)
        except OdradekError as error:
            logger.info("the controller that is gone is not removed: %s", error)
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._removed.discard, controller_id)
