"""The bounds on the number of connections: in the broker, at each listener, from each address.

At its own number, or at the broker's, a listener accepts nothing more until a connection closes. The listener
between brokers, beside others, is protected: the broker's number does not keep it from accepting, but has the
connection of another listener closed that has been silent longest, so that clients, however many, never part
brokers from each other. Connections of one address are counted over all listeners; those beyond its number
are closed at once.

Kafka: `ConnectionQuotas` of `SocketServer` (KIP-402); how fast they may come is `ConnectionQuotas` here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

NO_BOUND = 2**31 - 1


class HasConnections(Protocol):
    """A listener."""

    name: str

    def close_least_recently_used(self) -> bool:
        """Close a connection to make room; whether there was one."""
        ...


class ConnectionSlots:
    """The connections of a broker, counted.

    Attributes:
        most: of the broker (`max.connections`).
        most_at: of a listener by its name (`listener.name.<name>.max.connections`).
        most_per_host: of an address (`max.connections.per.ip`).
        most_of_host: of addresses with numbers of their own (`max.connections.per.ip.overrides`).
        protected: the name of the listener between brokers, None where there is only one listener.
        total: how many there are.
        at, per_host: the same by listener and by address.
    """

    def __init__(self) -> None:
        self.most = NO_BOUND
        self.most_at: dict[str, int] = {}
        self.most_per_host = NO_BOUND
        self.most_of_host: dict[str, int] = {}
        self.protected: str | None = None
        self.total = 0
        self.at: Counter[str] = Counter()
        self.per_host: Counter[str] = Counter()
        self._listeners: list[HasConnections] = []
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, listener: HasConnections) -> None:
        """A listener of the broker."""
        self._listeners.append(listener)

    def has_room(self, listener: str) -> bool:
        """Return whether a listener may accept one more."""
        if self.at[listener] >= self.most_at.get(listener, NO_BOUND):
            return False
        return self.total < self.most or listener == self.protected

    async def wait(self) -> None:
        """Wait until there may be room again."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def limit_of(self, host: str) -> int:
        """Return how many connections an address may have."""
        return self.most_of_host.get(host, self.most_per_host)

    def is_full(self, host: str) -> bool:
        """Return whether an address has all the connections that it may have."""
        return self.per_host[host] >= self.limit_of(host)

    def opened(self, listener: str, host: str) -> None:
        """Count a connection."""
        self.total += 1
        self.at[listener] += 1
        self.per_host[host] += 1
        if self.total > self.most and listener == self.protected:
            for other in self._listeners:
                if other.name != listener and other.close_least_recently_used():
                    break

    def closed(self, listener: str, host: str) -> None:
        """Count it no more."""
        self.total -= 1
        self.at[listener] -= 1
        self.per_host[host] -= 1
        if self.per_host[host] <= 0:
            del self.per_host[host]
        self.look_again()

    def look_again(self) -> None:
        """There may be room: limits have changed, or a connection has ended."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
