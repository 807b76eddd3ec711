"""The rates at which connections may come: to the broker, to each listener, from each address (KIP-402,
KIP-612).

What is too fast for the broker or a listener is taken up later: the listener accepts nothing meanwhile. Who
comes too fast from an address is not served: its connection is closed, but only after the time that it is to
wait, for otherwise it would come again at once. Connections that are turned away count for nobody.

Kafka: `ConnectionQuotas` of `SocketServer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.quotas.client_quota_manager import FORGOTTEN_AFTER_MS, Windows
from odradek.broker.quotas.rates import Average, Rate
from odradek.util.hosts import same_host

if TYPE_CHECKING:
    from odradek.util.clock import Clock

NO_BOUND = 2**31 - 1
"""Connections a second where no bound is set."""

MOST_ADDRESSES = 50_000
"""How many addresses are remembered; the longest unused are forgotten first."""

_THROTTLE_TIMES = 2, 30_000


class Arrival(NamedTuple):
    """The fate of a connection that has come.

    Attributes:
        wait_ms: how long the listener is to wait before it takes up this one, and any other.
        refused_ms: how long it is kept before it is closed unserved; 0 if it is served.
    """

    wait_ms: int
    refused_ms: int


class _Address:
    __slots__ = ("rate", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows.num, windows.ms)
        self.used_ms = 0


class _OfListener:
    """The rate of a listener, and how long it and those who came had to wait."""

    __slots__ = ("ip_throttle_times", "rate", "throttle_times")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows.num, windows.ms)
        self.throttle_times = Average(*_THROTTLE_TIMES)
        self.ip_throttle_times = Average(*_THROTTLE_TIMES)


def as_text(address: str) -> str:
    """An address in the form that it is compared in, whichever interface it came by."""
    return same_host(address.partition("%")[0])


class ConnectionQuotas:
    """All of a broker's.

    Attributes:
        per_second: what the whole broker takes (`max.connection.creation.rate`).
        default_per_address: `connection_creation_rate` of addresses that have none of their own.
    """

    def __init__(self, clock: Clock, windows: Windows) -> None:
        """
        Args:
            clock: time.
            windows: over which rates are taken; nobody waits for longer than one.
        """
        self.per_second = NO_BOUND
        self.default_per_address = NO_BOUND
        self._clock = clock
        self._windows = windows
        self._broker = Rate(windows.num, windows.ms)
        self._listeners: dict[str, _OfListener] = {}
        self._per_listener: dict[str, int] = {}
        self._per_address: dict[str, int] = {}
        self.addresses: dict[str, _Address] = {}
        """Those that are remembered, the longest unused first."""

    def limit_listener(self, name: str, per_second: int) -> None:
        """Bound a listener (`listener.name.X.max.connection.creation.rate`)."""
        self._per_listener[name] = per_second

    def limit_address(self, address: str | None, per_second: int | None) -> None:
        """Bound an address, or with None for it all that have no bound of their own; None for no bound."""
        address = None if address is None else as_text(address)
        if address is None:
            self.default_per_address = NO_BOUND if per_second is None else per_second
        elif per_second is None:
            self._per_address.pop(address, None)
        else:
            self._per_address[address] = per_second

    def of_address(self, address: str) -> int:
        """The bound of an address."""
        return self._per_address.get(as_text(address), self.default_per_address)

    def accepted(self, listener: str, address: str, *, is_protected: bool = False) -> Arrival:
        """Count a connection that has come.

        Args:
            listener: its name.
            address: where it came from.
            is_protected: whether the listener is that between brokers, beside others: then the broker's bound
                is not for it.
        """
        now_ms = int(self._clock.monotonic_ms())
        address = as_text(address)
        of_listener = self._of_listener(listener)
        wait_ms = 0
        if not is_protected:
            wait_ms = self._record(self._broker, self.per_second, now_ms)
        wait_ms = max(
            wait_ms, self._record(of_listener.rate, self._per_listener.get(listener, NO_BOUND), now_ms)
        )
        if wait_ms:
            of_listener.throttle_times.record(wait_ms, now_ms)
        bound = self.of_address(address)
        if bound == NO_BOUND:
            return Arrival(wait_ms, 0)
        rate = self._address(address, now_ms).rate
        refused_ms = self._record(rate, bound, now_ms)
        if refused_ms:
            rate.record(-1, now_ms)
            of_listener.rate.record(-1, now_ms)
            of_listener.ip_throttle_times.record(refused_ms, now_ms)
            if not is_protected:
                self._broker.record(-1, now_ms)
        return Arrival(wait_ms, refused_ms)

    def metrics(self) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
        """Names, tags and values, as Kafka has them under `kafka.server:type=socket-server-metrics`."""
        now_ms = int(self._clock.monotonic_ms())
        yield "broker-connection-accept-rate", (), self._broker.per_second(now_ms)
        for name, listener in self._listeners.items():
            tags = (("listener", name),)
            yield "connection-accept-rate", tags, listener.rate.per_second(now_ms)
            yield "connection-accept-throttle-time", tags, listener.throttle_times.mean(now_ms)
            yield "ip-connection-accept-throttle-time", tags, listener.ip_throttle_times.mean(now_ms)
        for address, accepted in list(self.addresses.items()):
            if now_ms - accepted.used_ms <= FORGOTTEN_AFTER_MS:
                yield "connection-accept-rate", (("ip", address),), accepted.rate.per_second(now_ms)

    def _record(self, rate: Rate, bound: int, now_ms: int) -> int:
        rate.record(1, now_ms)
        return min(self._windows.ms, rate.throttle_ms(bound, now_ms))

    def _of_listener(self, name: str) -> _OfListener:
        listener = self._listeners.get(name)
        if listener is None:
            listener = self._listeners[name] = _OfListener(self._windows)
        return listener

    def _address(self, address: str, now_ms: int) -> _Address:
        addresses = self.addresses
        accepted = addresses.pop(address, None)
        if accepted is None:
            accepted = _Address(self._windows)
            while addresses:
                oldest = next(iter(addresses))
                if len(addresses) < MOST_ADDRESSES and (
                    now_ms - addresses[oldest].used_ms <= FORGOTTEN_AFTER_MS
                ):
                    break
                del addresses[oldest]
        accepted.used_ms = now_ms
        addresses[address] = accepted
        return accepted
