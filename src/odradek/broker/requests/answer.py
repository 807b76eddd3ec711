# compiled: mypyc
"""The answer to one request, and how it comes to the connection when it does not come at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from odradek.util.timers import Timers

Buffers = list[Any]


# A free list of one: mostly an instance dies before the next is made, which then takes its memory.
@mypyc_attr(free_list_len=1)
@final
class Answer:
    """The bytes that go back for one request, or nothing, or the end of the connection.

    Attributes:
        buffers: the response with its size prefix; None when the request wants no response.
        close: close the connection, after the responses before this one.
        ranges: whether there are parts among the buffers that are not in memory (`outbox.UNREAD`).
    """

    __slots__ = ("buffers", "close", "ranges")

    def __init__(self, buffers: Buffers | None, close: bool = False, ranges: bool = False) -> None:
        self.buffers = buffers
        self.close = close
        self.ranges = ranges


NO_ANSWER = Answer(None)
CLOSE = Answer(None, close=True)


class Later(Protocol):
    """Takes an answer that does not come at once.

    Attributes:
        context: set to the request's surroundings while it is in work; `on_disconnect` is what counts there.
        is_gone: whether nobody waits for the answer any more.
    """

    context: Any

    @property
    def is_gone(self) -> bool:
        """See the attributes."""
        ...

    def __call__(self, answer: Answer) -> None:
        """The answer has come."""
        ...

    def refuse(self, reason: str) -> None:
        """The frame cannot be answered: the connection is to be closed."""
        ...

    def hold(self, held: bool) -> None:
        """Make the connection's next requests wait until this one has been handled."""
        ...

    def mute(self, timers: Timers, mute_ms: float, answer: Answer | None) -> None:
        """Take nothing more up from the connection for so long.

        Args:
            timers: set the time.
            mute_ms: how long.
            answer: what is answered when it is over; None where the answer has been given.
        """
        ...

    def own(self, frame: Any) -> Any:
        """The frame in work, or a copy, to be kept for as long as it is wanted."""
        ...
