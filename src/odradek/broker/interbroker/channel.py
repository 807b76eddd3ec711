"""A channel to another broker: requests go out in order, each has a future of its response.

A channel connects when something is first sent, and again after it broke; what was under way then fails with
`ChannelBroken`, and nothing is sent again by itself: whoever sends knows whether it may. Kafka:
`InterBrokerSendThread`, `BlockingSend`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek.cluster.nodes import Endpoint

EndpointOf = Callable[[], "Endpoint | None"]
"""Where the broker is now; None while nobody knows."""


class ChannelBroken(OdradekError):
    """The connection could not be made, broke, or gave no answer in time; the request may have been served.

    Attributes:
        refused: nobody listens at the address: the process that did is gone.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class InterBrokerChannel(Protocol):
    """One connection to one broker. Used in the event loop's thread.

    Attributes:
        on_broken: called when a connection that was there has broken, with nothing under way perhaps.
    """

    on_broken: Callable[[], object] | None

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Send a request.

        Args:
            request: a message of `odradek.wire.messages`, whose class says its API.
            version: of the request.

        Returns:
            A future of the response message. It fails with `ChannelBroken`, or with `ProtocolError` for bytes
            that are no response.
        """
        ...

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        """Send a request in the newest version up to `newest` that the broker serves; ApiVersions is asked
        first on each connection. Fails with `UnsupportedVersionError` where there is none."""
        ...

    def reset(self, reason: str) -> None:
        """Give the present connection up; what is under way fails with `ChannelBroken`."""
        ...

    def close(self) -> None:
        """Give it up for good: whatever is sent from now on fails at once."""
        ...


class InterBrokerTransport(Protocol):
    """Makes channels; handed to the broker, so that a simulation has its own."""

    def channel(
        self, broker_id: int, endpoint: EndpointOf, client_id: str, timeout_ms: int
    ) -> InterBrokerChannel:
        """A channel to a broker; nothing is connected yet.

        Args:
            broker_id: whose it is, for messages and log lines.
            endpoint: asked before each connection.
            client_id: in the headers of what is sent.
            timeout_ms: how long the oldest request under way may take, connecting included.
        """
        ...
