"""The channels of one broker of a cluster: to whom, and what for.

Each purpose has a connection of its own, so that what takes long for one does not hold up another, as in
Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.presence import Presence
from odradek.broker.interbroker.witnesses import Witnesses
from odradek.broker.requests.between_brokers import client_id_of

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.interbroker.channel import InterBrokerChannel, InterBrokerTransport
    from odradek.cluster.image import ClusterImage
    from odradek.cluster.nodes import Endpoint
    from odradek.errors.codes import ErrorCode

_NO_CONTROLLER = -1


class InterBrokerChannels:
    """Finds the channel to a broker, or to the controller. Used in the event loop's thread.

    Attributes:
        creations: topics that the controller is being asked to create; see `broker.remote_creation`.
        presence: which other brokers are connected to this one.
        witnesses: asks others about a broker that refuses this one.
    """

    def __init__(
        self,
        transport: InterBrokerTransport,
        config: BrokerConfig,
        listener: str,
        image: Callable[[], ClusterImage],
        on_controller_refused: Callable[[int], object],
    ) -> None:
        """
        Args:
            transport: makes the channels.
            config: of this broker.
            listener: the name of the listener that brokers talk to each other by.
            image: the cluster as this broker knows it.
            on_controller_refused: told the id of a controller at whose address nobody listens any more.
        """
        self._transport = transport
        self._config = config
        self._listener = listener
        self._image = image
        self._channels: dict[tuple[int, str], InterBrokerChannel] = {}
        """By broker and purpose: what may take long for one purpose does not hold up the others' answers."""
        self._on_controller_refused = on_controller_refused
        self.presence = Presence()
        self.witnesses = Witnesses(transport, config.broker_id, lambda: image().brokers.keys(), self.endpoint)
        self.creations: dict[str, asyncio.Future[ErrorCode]] = {}

    def endpoint(self, broker_id: int) -> Endpoint | None:
        """Return where other brokers reach a broker; None while it is not live."""
        broker = self._image().brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self._listener)

    def to_broker(self, broker_id: int, purpose: str) -> InterBrokerChannel:
        """The channel to a broker for one purpose, such as `markers`; it is kept for the next time."""
        key = (broker_id, purpose)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = self._transport.channel(
                broker_id,
                lambda: self.endpoint(broker_id),
                client_id_of(self._config.broker_id, purpose),
                self._config.request_timeout_ms,
            )
        return channel

    async def to_controller(self, request: Any, newest: int, purpose: str = "controller") -> Any:
        """Send a request to the present controller, in the newest version up to `newest` that it serves.

        Args:
            request, newest: see `InterBrokerChannel.send_negotiated`.
            purpose: see `to_broker`.

        Returns:
            The response message, which may say NOT_CONTROLLER.

        Raises:
            ChannelBroken: there is no controller, or it did not answer; it may have done what was asked.
            UnsupportedVersionError: it does not serve this.
        """
        controller_id = self._image().controller_id
        if controller_id == _NO_CONTROLLER:
            raise ChannelBroken("there is no controller now")
        try:
            return await self.to_broker(controller_id, purpose).send_negotiated(request, newest)
        except ChannelBroken as error:
            if error.refused:
                self._on_controller_refused(controller_id)
            raise

    def forget(self, broker_id: int) -> None:
        """A broker is gone: close what leads to it."""
        for key in [key for key in self._channels if key[0] == broker_id]:
            self._channels.pop(key).close()

    def close(self) -> None:
        """Close all channels."""
        self.witnesses.close()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
