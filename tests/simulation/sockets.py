"""TCP between machines of a simulation, as processes see it.

Bytes arrive in order within a connection, each write after a delay of its own; connections overtake each
other. What a cut holds up arrives when it ends, as TCP sends again, unless the connection has been given up
by then: then it was lost, and so are answers under way the other way.

| the peer is | who connects | who is connected |
|---|---|---|
| a process that died | is refused | hears of the end after what was sent before it |
| paused | is taken by the system, then silence | silence |
| cut off, either way | silence | silence |
| a machine without power | silence until it is back | silence, then a reset |
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from .world import MachineLoop, World

DELAY_S = (0.001, 0.02)
SLOW_DELAY_S = (0.02, 0.3)
AGAIN_S = (0.05, 0.25)
"""When TCP tries again what did not get through."""

SLOW_SHARE = 0.02
"""How many of all writes are slow."""


class Port(NamedTuple):
    """Where a process listens."""

    loop: MachineLoop
    accept: Callable[[End], None]


class Network:
    """All connections.

    Attributes:
        cuts: `(one, other)`: nothing gets from the host `one` to the host `other`.
        dark: hosts without power.
        slow: hosts whose every packet is slow.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.loop = world.loop("network")
        self.cuts: set[tuple[str, str]] = set()
        self.dark: set[str] = set()
        self.slow: set[str] = set()
        self._ports: dict[tuple[str, int], Port] = {}
        self._ends: dict[End, None] = {}
        self._last_port = 40_000

    def listen(self, host: str, port: int, listening: Port) -> None:
        """Take connections from now on."""
        self._ports[host, port] = listening

    def unlisten(self, host: str, port: int, loop: MachineLoop) -> None:
        """Refuse connections from now on."""
        found = self._ports.get((host, port))
        if found is not None and found.loop is loop:
            del self._ports[host, port]

    def gets_through(self, source: str, target: str) -> bool:
        """Return whether a packet would arrive now."""
        return (source, target) not in self.cuts and source not in self.dark and target not in self.dark

    def delay_s(self, source: str, target: str) -> float:
        """How long a packet takes."""
        rng = self.world.rng
        if source in self.slow or target in self.slow or rng.random() < SLOW_SHARE:
            return rng.uniform(*SLOW_DELAY_S)
        return rng.uniform(*DELAY_S)

    async def connect(
        self, loop: MachineLoop, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[End, Any]:
        """See `asyncio.AbstractEventLoop.create_connection`."""
        await asyncio.sleep(self.delay_s(loop.host, host))
        while not (self.gets_through(loop.host, host) and self.gets_through(host, loop.host)):
            await asyncio.sleep(self.world.rng.uniform(*AGAIN_S))
        listening = self._ports.get((host, port))
        if listening is None or listening.loop.is_dead:
            self.world.note(f"{loop.name} refused by {host}")
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        self._last_port += 1
        here, there = End(self, loop, host, port), End(self, listening.loop, loop.host, self._last_port)
        here.peer, there.peer = there, here
        self._ends[here] = self._ends[there] = None
        self.world.note(f"{loop.name} connects to {listening.loop.name}")
        listening.loop.call_soon(listening.accept, there)
        protocol = protocol_factory()
        here.begin(protocol)
        return here, protocol

    def forget(self, end: End) -> None:
        """An end is closed."""
        self._ends.pop(end, None)

    def process_died(self, loop: MachineLoop, *, silently: bool) -> None:
        """A process has no sockets any more; its peers hear of it unless its machine is without power."""
        for key in [key for key, one in self._ports.items() if one.loop is loop]:
            del self._ports[key]
        for end in [end for end in self._ends if end.loop is loop]:
            end.is_over = True
            self.forget(end)
            if silently:
                end.lose_what_is_on_the_way()
            else:
                end.tell_peer(None)

    def reset(self, one: str, other: str) -> None:
        """Break all connections between two hosts: what is under way is lost."""
        for end in [end for end in self._ends if {end.loop.host, end.host} == {one, other}]:
            end.lose()


class End(asyncio.Transport):
    """One end of a connection, in its process.

    Attributes:
        loop: of the process.
        peer: the other end.
        host, port: of the peer.
        is_over: nothing is sent or received any more.
    """

    peer: End

    def __init__(self, network: Network, loop: MachineLoop, host: str, port: int) -> None:
        super().__init__({"peername": (host, port)})
        self._network, self.loop, self.host, self.port = network, loop, host, port
        self.is_over = False
        self._protocol: Any = None
        self._is_held = False
        self._unread: deque[bytes | None] = deque()
        self._on_the_way: deque[tuple[float, bytes | None]] = deque()
        self._is_travelling = False

    def begin(self, protocol: Any) -> None:
        """Have a protocol, which may write."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._take()

    # ------------------------------------------------------------------ see `asyncio.Transport`

    def write(self, data: Any) -> None:
        if not self.is_over:
            self.tell_peer(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        if not self.is_over:
            self.tell_peer(None)
            self._end(None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._is_held = True

    def resume_reading(self) -> None:
        self._is_held = False
        self.loop.call_soon(self._take)

    def is_reading(self) -> bool:
        return not self._is_held

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return 0, 1 << 16

    def get_protocol(self) -> Any:
        return self._protocol

    # ------------------------------------------------------------------ on the way

    def tell_peer(self, data: bytes | None) -> None:
        """Send bytes, or None for the end of the connection."""
        network, source, target = self._network, self.loop.host, self.host
        last_s = self._on_the_way[-1][0] if self._on_the_way else 0.0
        self._on_the_way.append((max(last_s, network.world.now_s + network.delay_s(source, target)), data))
        self._travel()

    def _travel(self) -> None:
        if not self._is_travelling and self._on_the_way:
            self._is_travelling = True
            self._network.loop.call_at(self._on_the_way[0][0], self._arrive)

    def _arrive(self) -> None:
        network, peer = self._network, self.peer
        if not network.gets_through(self.loop.host, self.host):
            network.loop.call_later(network.world.rng.uniform(*AGAIN_S), self._arrive)
            return
        self._is_travelling = False
        if not self._on_the_way:
            return
        _, data = self._on_the_way.popleft()
        what = "end" if data is None else f"{len(data)} {crc32(data):08x}"
        network.world.note(f"{self.loop.name}>{peer.loop.name} {what}")
        if not peer.is_over:
            peer.loop.call_soon(peer._receive, data)
        elif data is not None and not self.is_over:
            self.loop.call_soon(self._receive, None)
        self._travel()

    def lose_what_is_on_the_way(self) -> None:
        """Nobody sends it again: the machine has lost it."""
        self._on_the_way.clear()

    def lose(self) -> None:
        """Both ends hear that the connection broke; what is under way is lost."""
        for end in (self, self.peer):
            end._on_the_way.clear()
            if not end.is_over:
                end._unread.clear()
                end.loop.call_soon(end._end, ConnectionResetError(errno.ECONNRESET, "reset by peer"))
        self._network.world.note(f"{self.loop.name}|{self.peer.loop.name} reset")

    # ------------------------------------------------------------------ what arrives

    def _receive(self, data: bytes | None) -> None:
        if not self.is_over:
            self._unread.append(data)
            self._take()

    def _take(self) -> None:
        while self._unread and not self._is_held and not self.is_over and self._protocol is not None:
            data = self._unread.popleft()
            if data is None:
                self._end(None)
                return
            while data and not self.is_over:
                space = self._protocol.get_buffer(len(data))
                size = min(len(space), len(data))
                space[:size] = data[:size]
                data = data[size:]
                self._protocol.buffer_updated(size)
            # What is held after a part of it is held with the rest.

    def _end(self, error: Exception | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._unread.clear()
        self._network.forget(self)
        if self._protocol is not None:
            self.loop.call_soon(self._protocol.connection_lost, error)
