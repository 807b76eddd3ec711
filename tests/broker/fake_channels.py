"""Channels to other brokers of which a test writes down what is sent, and gives the answers itself."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.errors.codes import ErrorCode

BROKEN = ChannelBroken("the connection broke")


class Sent(NamedTuple):
    """A request that was sent.

    Attributes:
        broker_id, purpose: over which channel; "controller" for that to the controller.
        request, version: what; of a negotiated one the newest that may be.
        answer: to be set by the test.
    """

    broker_id: int
    purpose: str
    request: Any
    version: int
    answer: asyncio.Future[Any]


class FakeChannel:
    """One channel; see `FakeChannels`."""

    def __init__(self, channels: FakeChannels, broker_id: int, purpose: str) -> None:
        self._channels = channels
        self._broker_id = broker_id
        self._purpose = purpose

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._channels.sent.append(Sent(self._broker_id, self._purpose, request, version, answer))
        return answer

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        return self.send(request, newest)


class FakeChannels:
    """Stands in for `InterBrokerChannels`.

    Attributes:
        sent: what was sent and not yet taken by `take`.
        creations: as there.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.creations: dict[str, asyncio.Future[ErrorCode]] = {}

    def to_broker(self, broker_id: int, purpose: str) -> FakeChannel:
        return FakeChannel(self, broker_id, purpose)

    async def to_controller(self, request: Any, newest: int, purpose: str = "controller") -> Any:
        return await FakeChannel(self, -1, purpose).send(request, newest)

    async def take(self) -> list[Sent]:
        """What has been sent, once everything that is ready has run."""
        await turns()
        sent, self.sent = self.sent, []
        return sent

    async def take_one(self) -> Sent:
        """The only request that has been sent."""
        (one,) = await self.take()
        return one


async def turns(count: int = 20) -> None:
    """Let the loop run until what is ready has run."""
    for _ in range(count):
        await asyncio.sleep(0)
