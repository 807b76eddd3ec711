# compiled: mypyc
"""Answers that leave together, because one event has made them possible.

While what one read of a socket has brought is being worked on, a turn is open: answers wait in their
connections, and leave when it ends, in one write for each connection. With acks=all a follower's fetch
answers the produce requests of many connections: a write costs more than most answers.
"""

from __future__ import annotations

from typing import Protocol, final


class Gathers(Protocol):
    """A connection, as far as it waits for the end of a turn."""

    def send_gathered(self) -> None:
        """The turn has ended: send what was kept."""
        ...


@final
class WriteTurn:
    """Knows who has answers to send at the end of the turn.

    Attributes:
        is_open: whether answers wait for an end.
    """

    __slots__ = ("_waiting", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[Gathers] = []
        """Connections that keep answers, or have sent them early; empty while no turn is open."""

    def begin(self) -> bool:
        """Open a turn; false where one is open, which somebody else ends."""
        begun = not self.is_open
        self.is_open = True
        return begun

    def await_end(self, connection: Gathers) -> None:
        """Note a connection that is to send what it keeps when the turn ends."""
        self._waiting.append(connection)

    def end(self) -> None:
        """End the turn: each connection that was noted sends what it keeps."""
        # Before anybody sends, because a write may have further requests taken up, whose answers would be
        # kept for an end that is past.
        self.is_open = False
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.send_gathered()
