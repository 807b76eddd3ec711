# compiled: mypyc
"""The bytes of requests in work, over all connections of a listener: `queued.max.request.bytes`."""

from __future__ import annotations

from typing import Protocol, final


class WaitsForRoom(Protocol):
    """A connection, as far as it is told that it may go on."""

    def resume_soon(self) -> None:
        """There is room."""
        ...


@final
class MemoryPool:
    """Counts what requests in work hold; who finds no room goes on when there is some (Kafka's MemoryPool).

    Attributes:
        limit: bytes, beyond which no further request is taken up; 0 and less for none.
        used: bytes of whole requests that are in work.
    """

    __slots__ = ("_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: dict[WaitsForRoom, None] = {}

    def has_room(self, connection: WaitsForRoom) -> bool:
        """Return whether one more request may be taken up; if not, `connection` goes on later."""
        if self.limit <= 0 or self.used < self.limit:
            return True
        self._waiting[connection] = None
        return False

    def resize(self, limit: int) -> None:
        """Change the bound; who waits for room looks again."""
        self.limit = limit
        self.release(0)

    def release(self, size: int) -> None:
        """A request of `size` bytes has been answered."""
        self.used -= size
        if self._waiting and (self.used < self.limit or self.limit <= 0):
            waiting, self._waiting = self._waiting, {}
            for connection in waiting:
                connection.resume_soon()

    def forget(self, connection: WaitsForRoom) -> None:
        """A connection has ended."""
        self._waiting.pop(connection, None)
