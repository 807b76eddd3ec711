"""Frames given to a dispatcher as a connection gives them, without a socket."""

from __future__ import annotations

from typing import Any

from odradek.broker.app import Broker
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.answer import Answer
from odradek.broker.requests.peer import Peer
from odradek.errors import ProtocolError
from odradek.log.storage.files import FileRange

PEER = Peer("127.0.0.1", 1, "c", "PLAINTEXT")
PEER.is_open = True


class Later:
    """Takes an answer that comes later."""

    def __init__(self) -> None:
        self.context: Any = None
        self.answer: Answer | None = None
        self.is_gone = False

    def __call__(self, answer: Answer) -> None:
        assert self.answer is None
        self.answer = answer

    def refuse(self, reason: str) -> None:
        raise AssertionError(reason)

    def hold(self, held: bool) -> None:
        pass

    def mute(self, timers: Any, mute_ms: float, answer: Answer | None) -> None:
        pass

    def own(self, frame: Any) -> Any:
        return bytes(frame)


def plain(answer: Answer | None) -> Any:
    """An answer as bytes, to be compared."""
    if answer is None:
        return None
    if answer.buffers is None:
        return answer
    has_ranges = any(isinstance(one, FileRange) for one in answer.buffers)
    assert answer.ranges == has_ranges
    return b"".join(one.read() if isinstance(one, FileRange) else one for one in answer.buffers)


def dispatch(dispatcher: Dispatcher, frame: bytes, later: Later) -> Any:
    """The answer, None where it comes later, or as text why the connection is to be closed."""
    try:
        return dispatcher.dispatch(PEER, memoryview(frame), later)
    except ProtocolError as error:
        return str(error)


def dispatcher_of(broker: Broker) -> Dispatcher:
    """A dispatcher for which time stands still: whatever can be answered at once is, on any machine."""
    broker.slicer = Slicer(lambda: 0.0)
    return Dispatcher(broker, broker.handlers, broker.slicer)
