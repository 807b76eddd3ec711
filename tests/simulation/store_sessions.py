"""Sessions with the metadata store: late, out of reach, answered too late, and ended by it.

A session ends on the server when nothing was heard of the broker for its timeout; the broker hears of that
when it reaches the store again. Watch events come after a delay, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import NodeContent, Op, OpResult, Stat, StoreUnavailable, Watcher, WatchEvent

from .world import Killed

if TYPE_CHECKING:
    from .machine import Machine

T = TypeVar("T")

STORE = "store"
"""The host name of the metadata store, for cuts."""

DELAY_S = (0.0003, 0.003)
LATE_DELAY_S = (0.1, 0.8)
LOOK_S = 0.25
REQUEST_TIMEOUT_S = 4.0


class Ensemble(MemoryServer):
    """The metadata store.

    Attributes:
        is_late: it takes its time to answer.
        on_change: told each change of a node.
    """

    def __init__(self, clock: Any) -> None:
        super().__init__(clock, auto_deliver=False)
        self.is_late = False
        self.on_change: Callable[[str], object] = lambda path: None

    def _tell(self, events: Sequence[WatchEvent]) -> None:
        for path in dict.fromkeys(event.path for event in events):
            self.on_change(path)
        super()._tell(events)


class Session(MemoryStore):
    """One session of one life of a broker."""

    def __init__(self, server: Ensemble, machine: Machine, timeout_s: float) -> None:
        self._machine, self._loop, self._timeout_s = machine, machine.loop, timeout_s
        self._world, self._ensemble = machine.world, server
        self._last_heard_s = machine.world.now_s
        self._is_told = self._is_delivering = False
        super().__init__(server)
        machine.network.loop.call_later(LOOK_S, self._look)

    @property
    def is_reached(self) -> bool:
        """Return whether the broker and the store hear of each other."""
        network, host = self._machine.network, self._machine.host
        return (
            not self._loop.is_dead and network.gets_through(host, STORE) and network.gets_through(STORE, host)
        )

    def _look(self) -> None:
        """The server's and the client's heartbeats."""
        if self.is_reached and not self._loop.is_paused:
            self._last_heard_s = self._world.now_s
            if not self._open and not self._is_told:
                self._is_told = True
                self._loop.call_soon(self._tell_expired)
        elif self._open and self._world.now_s - self._last_heard_s > self._timeout_s:
            self._world.note(f"session of {self._loop.name} ends")
            self.close()
        if not self._is_told and not (self._loop.is_dead and not self._open):
            self._machine.network.loop.call_later(LOOK_S, self._look)

    def _tell_expired(self) -> None:
        for callback in self._expired_callbacks:
            callback()

    def end(self) -> None:
        """Have the server end it, the broker unheard."""
        if self._open:
            super().close()

    def close(self) -> None:
        """See `MetadataStore.close`."""
        super().close()

    # ------------------------------------------------------------------ operations

    def _ask(self, path: str, do: Callable[[], T]) -> T:
        self._travel(path)
        result = do()
        self._travel(path)
        return result

    def _travel(self, path: str) -> None:
        """Wait as long as a request or its answer takes.

        Raises:
            StoreUnavailable: it is lost.
        """
        if self._loop.is_dead:
            raise Killed
        executor = next((one for one in self._loop.executors if one.is_here), None)
        if executor is None:
            if self._machine.serves and not self._loop.is_elsewhere:
                asks = f"{self._loop.name} asks the store for {path} in its event loop"
                self._world.problems.append(f"at {self._world.now_s:.3f} s: {asks}")
            if not self.is_reached:
                raise StoreUnavailable(path, "the metadata store is out of reach")
            return
        executor.pause(self._world.rng.uniform(*(LATE_DELAY_S if self._ensemble.is_late else DELAY_S)))
        until_s = self._world.now_s + REQUEST_TIMEOUT_S
        while not self.is_reached:
            if self._world.now_s > until_s:
                raise StoreUnavailable(path, "the metadata store does not answer")
            executor.pause(LOOK_S)

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`."""
        return self._ask(ops[0].path if ops else "/", lambda: MemoryStore.multi(self, ops))

    def get(self, path: str, watch: Watcher | None = None) -> NodeContent:
        """See `MetadataStore.get`."""
        return self._ask(path, lambda: MemoryStore.get(self, path, watch))

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """See `MetadataStore.exists`."""
        return self._ask(path, lambda: MemoryStore.exists(self, path, watch))

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """See `MetadataStore.children`."""
        return self._ask(path, lambda: MemoryStore.children(self, path, watch))

    def get_many(self, paths: Sequence[str]) -> list[NodeContent | None]:
        """See `MetadataStore.get_many`."""
        return self._ask(paths[0] if paths else "/", lambda: MemoryStore.get_many(self, paths))

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """See `MetadataStore.exists_many`."""
        return [self.exists(path) for path in paths]

    # ------------------------------------------------------------------ watches

    def collect(self, events: Sequence[WatchEvent]) -> None:
        """Queue what this session's watches see, and have it delivered."""
        super().collect(events)
        if not self._is_delivering and not self._loop.is_dead:
            self._is_delivering = True
            self._machine.network.loop.call_later(self._world.rng.uniform(*DELAY_S), self._carry)

    def _carry(self) -> None:
        if not self.is_reached:
            if not self._loop.is_dead:
                self._machine.network.loop.call_later(LOOK_S, self._carry)
            return
        self._is_delivering = False
        self._loop.call_soon(self.deliver)
