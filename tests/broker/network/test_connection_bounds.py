"""A connection's bounds, gone through: whatever order things come in, nobody stands still.

Two connections and what they share, without sockets and without time: frames that are answered at once, later
or in any order, worked on in slices, throttled; a peer that does not read; a bound over all of them; an end.
Every order of these is gone through, up to a number of steps, with bounds that few requests reach. After each
step two rules are looked at:

- who may take up a request, and does not, has been told to: a call of the loop is on its way;
- when everything that is waited for has come, all frames are taken up, and the socket is read again.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from compiled_walk import only_interpreted
from odradek.broker.network import connection as module
from odradek.broker.network.connection import Connection
from odradek.broker.network.limits import NetworkLimits
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.write_turn import WriteTurn
from odradek.broker.requests.answer import Answer
from odradek.broker.requests.peer import Peer
from odradek.util.repeats import Repeats
from odradek.wire.framing import ReceiveBuffers

from ..net import receive

pytestmark = only_interpreted

MOST = 2
"""Requests of a connection in work here."""

SMALL, LARGE = 10, 30
MOST_BYTES = 35
"""Bytes of requests of a connection in work here: a large one and a small one."""

POOL_BYTES = 50
BUFFERS = ReceiveBuffers()

FRAMES = {
    "quick": b"q" * SMALL,
    "later": b"l" * SMALL,
    "large": b"L" * LARGE,
    "sliced": b"s" * SMALL,
    "muted": b"m" * SMALL,
}


class Loop:
    """Calls what is soon to be called when it is told to."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], object]] = deque()

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()


class Timer:
    def cancel(self) -> None: ...


class Timers:
    """Throttled connections go on when they are told to."""

    def __init__(self, begun: deque[Callable[[], object]]) -> None:
        self.begun = begun

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        self.begun.append(callback)
        return Timer()


class Transport:
    """A socket that delivers what has come while it is read."""

    def __init__(self) -> None:
        self.reads = True
        self.closing = False
        self.sent = 0

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads
        self.reads = True

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.sent += 1

    def writelines(self, buffers: list[bytes]) -> None:
        self.sent += len(buffers)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def close(self) -> None:
        self.closing = True

    abort = close


class InWork:
    """A request that was taken up."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_answered = False
        self.later: Any = None


class Pool(MemoryPool):  # type: ignore[misc]
    """Knows who has found no room, and was not told of any since."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.without_room: set[Any] = set()

    def has_room(self, connection: Any) -> bool:
        if super().has_room(connection):
            return True
        self.without_room.add(connection)
        return False

    def release(self, size: int) -> None:
        if self.used - size < self.limit:
            self.without_room.clear()
        super().release(size)

    def forget(self, connection: Any) -> None:
        self.without_room.discard(connection)
        super().forget(connection)


class Side:
    """One connection and its peer."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.connection = Connection(world, Peer("h", number, "PLAINTEXT", "SECURITY"))  # type: ignore[arg-type]
        self.transport = Transport()
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.in_socket: deque[str] = deque()
        self.unanswered: list[Any] = []
        """Requests that are answered when the world says so."""
        self.held: list[Any] = []
        """Requests in slices, which hold back what is behind them, and are answered some time after."""
        self.muted: deque[Callable[[], object]] = deque()
        self.waiting: deque[str] = deque()
        """What was delivered and not taken up yet."""
        self.in_work: deque[InWork] = deque()
        """What was taken up, oldest first, until it and all before it are answered."""
        self.is_full = False
        """Whether the peer has stopped reading."""
        self.is_over = False

    def deliver(self) -> None:
        """The socket gives what it has, in one read."""
        data = b""
        while self.in_socket and self.transport.reads and not self.transport.closing:
            data += b"".join(struct.pack(">i", len(FRAMES[kind])) + FRAMES[kind] for kind in self.in_socket)
            self.waiting += self.in_socket
            self.in_socket.clear()
            receive(self.connection, data)

    def is_idle(self) -> bool:
        """Whether nobody has to do anything for it."""
        return not (self.unanswered or self.held or self.muted or self.is_full)

    def take(self) -> InWork:
        """The connection hands a request on."""
        request = InWork(len(FRAMES[self.waiting.popleft()]))
        self.in_work.append(request)
        return request

    def answer(self, later: Any) -> None:
        """Answer a request that was taken up before."""
        self.answered(next(request for request in self.in_work if request.later is later))
        later(Answer([b"answer"]))

    def answered(self, request: InWork) -> None:
        request.is_answered = True
        while self.in_work and self.in_work[0].is_answered:
            self.in_work.popleft()

    def may_process(self) -> bool:
        """Whether the rules let it take up a request."""
        open_bytes = sum(request.size for request in self.in_work if not request.is_answered)
        return (
            not (self.is_full or self.held or self.muted)
            and len(self.in_work) < MOST
            and open_bytes < MOST_BYTES
            and self.world.memory_pool.used < POOL_BYTES
        )

    def state(self) -> tuple[Any, ...]:
        return (
            tuple(self.in_socket),
            tuple(self.waiting),
            tuple(
                (request.size, request.is_answered, request.later in self.held) for request in self.in_work
            ),
            len(self.held),
            len(self.muted),
            self.is_full,
            self.transport.reads,
            self.transport.closing,
            self.is_over,
        )


class World:
    """Two connections of a listener; stands in for it, its dispatcher, and its loop."""

    def __init__(self, is_slow: bool) -> None:
        self.loop: Any = Loop()
        self.monotonic_s = self.loop.time
        self.dispatcher: Any = self
        self.slicer = self
        self.is_slow = is_slow
        self.limits = NetworkLimits()
        self.receive_buffers = BUFFERS
        self.sending_threads: Any = None
        self.memory_pool = Pool(POOL_BYTES)
        self.write_turn = WriteTurn()
        self.repeats_of_connections = Repeats(logging.getLogger(__name__))
        self.sasl = None
        self.sides = [Side(self, number) for number in range(2)]

    # ------------------------------------------------------------------ the listener, dispatcher and slicer

    def begin_slice(self) -> float:
        return 0.0

    def is_over(self, until: float) -> bool:
        return self.is_slow

    def wait_turn(self, go_on: Callable[[], None], *, again: bool) -> None:
        self.loop.call_soon(go_on)

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None:
        self.memory_pool.forget(connection)

    def account_partial(self, connection: Connection, pending: int) -> None:
        connection.partial_bytes = pending

    def dispatch(self, peer: Peer, frame: Any, later: Any) -> Answer | None:
        side = self.sides[peer.port]
        request = side.take()
        request.later = later
        match bytes(frame[:1]):
            case b"q":
                side.answered(request)
                return Answer([b"answer"])
            case b"m":
                side.answered(request)
                later.mute(Timers(side.muted), 1.0, None)
                return Answer([b"answer"])
            case b"s":
                later.hold(True)
                side.held.append(later)
                return None
            case _:
                side.unanswered.append(later)
                return None

    # ------------------------------------------------------------------ what may happen

    def events(self) -> list[tuple[str, int, Any]]:
        found: list[tuple[str, int, Any]] = []
        if self.loop.soon:
            found.append(("turn", 0, None))
        for number, side in enumerate(self.sides):
            if side.is_over:
                continue
            # The second is there for what the two share.
            kinds = list(FRAMES) if number == 0 else ["large"]
            if len(side.in_socket) + len(side.waiting) < 3:
                found += [("frame", number, kind) for kind in kinds]
                if number == 0:
                    found += [("frames", number, kinds) for kinds in (("later",) * 3, ("large", "later"))]
            found += [("answer", number, index) for index in range(len(side.unanswered))]
            if side.held:
                found.append(("slices end", number, None))
            if side.muted:
                found.append(("unmute", number, None))
            if number == 0:
                found.append(("drained" if side.is_full else "full", number, None))
            found.append(("lost", number, None))
        return found

    def do(self, event: tuple[str, int, Any]) -> None:
        what, number, detail = event
        side = self.sides[number]
        match what:
            case "turn":
                self.loop.turn()
            case "frame":
                side.in_socket.append(detail)
            case "frames":
                side.in_socket += detail
            case "answer":
                side.answer(side.unanswered.pop(detail))
            case "slices end":
                later = side.held.pop()
                later.hold(False)
                side.unanswered.append(later)
            case "unmute":
                side.muted.popleft()()
            case "full":
                side.is_full = True
                side.connection.pause_writing()
            case "drained":
                side.is_full = False
                side.connection.resume_writing()
            case "lost":
                side.is_over = True
                side.transport.closing = True
                side.connection.connection_lost(None)
                side.waiting.clear()
        for one in self.sides:
            one.deliver()

    # ------------------------------------------------------------------ the rules

    def broken(self) -> str | None:
        """What stands still though it might go on."""
        for number, side in enumerate(self.sides):
            if side.is_over or self.loop.soon:
                continue
            stands = bool(side.waiting) or not side.transport.reads
            if stands and side.may_process():
                return f"connection {number} may take up what comes, and nothing wakes it"
        return None

    def finish(self) -> str | None:
        """Let everything come that is waited for; what has not been taken up then."""
        for _ in range(100):
            for side in self.sides:
                while side.held:
                    self.do(("slices end", self.sides.index(side), None))
                while side.unanswered:
                    side.answer(side.unanswered.pop(0))
                while side.muted:
                    side.muted.popleft()()
                if side.is_full and not side.is_over:
                    self.do(("drained", self.sides.index(side), None))
                if not side.is_over:
                    side.deliver()
            if self.loop.soon:
                self.loop.turn()
            elif all(side.is_idle() for side in self.sides):
                break
        for number, side in enumerate(self.sides):
            if not side.is_over and (side.in_socket or side.waiting or not side.transport.reads):
                return f"connection {number} is paused for good"
        return None if self.memory_pool.used == 0 else f"{self.memory_pool.used} bytes are held by nobody"

    def state(self) -> tuple[Any, ...]:
        waiting = tuple(side.connection in self.memory_pool.without_room for side in self.sides)
        return (*(side.state() for side in self.sides), waiting, len(self.loop.soon), self.memory_pool.used)


@contextmanager
def small_bounds() -> Iterator[None]:
    with (
        mock.patch.object(module, "MAX_UNANSWERED", MOST),
        mock.patch.object(module, "MAX_UNANSWERED_BYTES", MOST_BYTES),
    ):
        yield


def replayed(events: tuple[Any, ...], is_slow: bool) -> World:
    world = World(is_slow)
    for event in events:
        world.do(event)
    return world


def explore(steps: int, *, is_slow: bool = False) -> tuple[str | None, int]:
    """Go through every order of so many events; returns what is broken, with the way there, and how many
    states were seen. `is_slow`: each request takes a whole slice."""
    seen = set()
    level: list[tuple[Any, ...]] = [()]
    for _ in range(steps + 1):
        following: list[tuple[Any, ...]] = []
        for way in level:
            world = replayed(way, is_slow)
            state = world.state()
            if state in seen:
                continue
            seen.add(state)
            following += [(*way, event) for event in world.events()]
            wrong = world.broken() or world.finish()
            if wrong is not None:
                return f"{wrong} after {way}", len(seen)
        level = following
    return None, len(seen)


STEPS = 5


@pytest.mark.parametrize("is_slow", [False, True])
def test_no_order_of_events_leaves_a_connection_paused_for_good(is_slow: bool) -> None:
    with small_bounds():
        broken, states = explore(STEPS, is_slow=is_slow)
    assert broken is None, broken
    assert states > 1_000, states


def _waits_for_frames_alone(self: Connection) -> None:
    """As it was: an answer has frames go on that wait, and forgets the socket that is paused."""
    if self._unprocessed and not self._resuming:
        self.resume_soon()


MUTANTS = {
    "an answer does not think of the socket": mock.patch.object(
        Connection, "_go_on_soon", _waits_for_frames_alone
    ),
    "a slice that ends wakes nobody": mock.patch.object(
        Connection, "hold", lambda self, held: setattr(self, "_held", self._held + (1 if held else -1))
    ),
    "a bound over all that tells nobody": mock.patch.object(
        MemoryPool, "release", lambda self, size: setattr(self, "used", self.used - size)
    ),
    "a peer that has read enough is not served": mock.patch.object(
        Connection, "resume_writing", lambda self: setattr(self, "_writable", True)
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wake_up_left_out_is_found(mutant: str) -> None:
    with small_bounds(), MUTANTS[mutant]:
        broken, _ = explore(STEPS)
    assert broken is not None
