"""Channels between the brokers of a test, which lose or refuse what is asked while the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.util.futures import end_like, error_of

if TYPE_CHECKING:
    from odradek.broker.interbroker.channel import EndpointOf, InterBrokerChannel
    from odradek.broker.interbroker.transport import AsyncioTransport


class Faults(Protocol):
    """The faults between two brokers, by their ids: `odradek.testing.cluster.Cluster`."""

    def is_cut(self, broker_id: int, other: int) -> bool:
        """Return whether what `broker_id` asks of `other` is lost now."""
        ...

    def is_refused(self, broker_id: int, other: int) -> bool:
        """Return whether `other` refuses what `broker_id` asks now."""
        ...


class FaultyTransport:
    """Channels that lose what is asked while two brokers are cut off from each other."""

    def __init__(self, inner: AsyncioTransport, faults: Faults, number: int) -> None:
        self._inner = inner
        self._faults = faults
        self._number = number
        self._channels: WeakSet[_FaultyChannel] = WeakSet()

    def break_off(self, broker_id: int) -> None:
        """Break the connections to a broker."""
        for channel in list(self._channels):
            if channel.broker_id == broker_id:
                channel.break_off()

    def channel(
        self, broker_id: int, endpoint: EndpointOf, client_id: str, timeout_ms: int
    ) -> InterBrokerChannel:
        inner = self._inner.channel(broker_id, endpoint, client_id, timeout_ms)
        channel = _FaultyChannel(inner, self._faults, self._number, broker_id, timeout_ms)
        self._channels.add(channel)
        return channel


class _FaultyChannel:
    def __init__(
        self, inner: InterBrokerChannel, faults: Faults, number: int, broker_id: int, timeout_ms: int
    ) -> None:
        self.broker_id = broker_id
        self._inner = inner
        self._is_cut: Callable[[], bool] = partial(faults.is_cut, number, broker_id)
        self._is_refused: Callable[[], bool] = partial(faults.is_refused, number, broker_id)
        self._timeout_s = timeout_ms / 1000

    @property
    def on_broken(self) -> Callable[[], object] | None:
        return self._inner.on_broken

    @on_broken.setter
    def on_broken(self, callback: Callable[[], object] | None) -> None:
        self._inner.on_broken = callback

    def break_off(self) -> None:
        self._inner.reset("the other side has ended it")
        if self.on_broken is not None:
            asyncio.get_running_loop().call_soon(self.on_broken)

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        return self._unless_faulty(partial(self._inner.send, request, version))

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        return self._unless_faulty(partial(self._inner.send_negotiated, request, newest))

    def reset(self, reason: str) -> None:
        self._inner.reset(reason)

    def close(self) -> None:
        self._inner.close()

    def _unless_faulty(self, send: Callable[[], asyncio.Future[Any]]) -> asyncio.Future[Any]:
        if self._is_cut():
            return self._silence()
        if self._is_refused():
            return self._refusal()
        return self._watched(send())

    def _watched(self, answer: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """The same answer, unless the two have been cut off from each other before it came."""
        outer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def arrived(done: asyncio.Future[Any]) -> None:
            if self._is_cut() and not outer.done():
                error_of(done)  # so that asyncio does not log that nobody has asked for it
                self._break_later(outer)
            else:
                end_like(done, outer)

        answer.add_done_callback(arrived)
        return outer

    def _refusal(self) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        outer: asyncio.Future[Any] = loop.create_future()

        def refuse() -> None:
            if not outer.done():
                outer.set_exception(
                    ChannelBroken(f"broker {self.broker_id} cannot be reached: refused", refused=True)
                )

        loop.call_soon(refuse)
        return outer

    def _silence(self) -> asyncio.Future[Any]:
        outer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._break_later(outer)
        return outer

    def _break_later(self, outer: asyncio.Future[Any]) -> None:
        def break_off() -> None:
            if not outer.done():
                outer.set_exception(ChannelBroken("no answer in time"))

        asyncio.get_running_loop().call_later(self._timeout_s, break_off)
