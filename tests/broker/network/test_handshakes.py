"""How much of thousands of TLS handshakes one turn of the event loop takes up, and what they may hold."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.broker.network.handshakes import MOST_IN_A_TURN, Handshakes
from waiting import happened, joined

MANY = 1_000


class Loop:
    """The parts of an event loop that handshakes use; a turn runs what was called before it."""

    def __init__(self) -> None:
        self.called: deque[Callable[[], object]] = deque()
        self.wakened = threading.Event()

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.called.append(callback)

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        self.called.append(callback)
        self.wakened.set()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Any:
        return threading.Timer(delay, callback)  # not started

    def turn(self) -> None:
        for _ in range(len(self.called)):
            self.called.popleft()()


class Peer:
    """A handshake of one step."""

    def __init__(self, done: threading.Semaphore | None = None) -> None:
        self.in_thread: int | None = None
        self.is_told = False
        self.reason: str | None = None
        self._done = done

    def step(self) -> None:
        self.in_thread = threading.get_ident()
        if self._done is not None:
            self._done.release()

    def stepped(self) -> None:
        self.is_told = True

    def give_up(self, reason: str) -> None:
        self.reason = reason


class Session:
    """What is to be freed."""


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def handshakes(loop: Loop) -> Any:
    made = Handshakes(loop, threads=1)  # type: ignore[arg-type]
    yield made
    made.close()


def test_a_turn_takes_up_a_few_of_those_that_are_over(loop: Loop, handshakes: Handshakes) -> None:
    done = threading.Semaphore(0)
    peers = [Peer(done) for _ in range(MANY)]
    for peer in peers:
        handshakes.begin(peer)
        handshakes.submit(peer, 100)
    for _ in peers:
        assert done.acquire(timeout=60)
    told, turns = 0, 0
    while told < MANY:
        assert loop.wakened.wait(60)
        assert len(loop.called) <= 1
        loop.turn()
        turns += 1
        now = sum(peer.is_told for peer in peers)
        assert now - told <= MOST_IN_A_TURN
        told = now
    assert {peer.in_thread for peer in peers}.isdisjoint({None, threading.get_ident()})
    assert turns >= MANY // MOST_IN_A_TURN


def test_a_turn_frees_a_few_of_those_that_hung_up(loop: Loop, handshakes: Handshakes) -> None:
    sessions = [Session() for _ in range(MANY)]
    alive = [weakref.ref(session) for session in sessions]
    while sessions:
        handshakes.free(sessions.pop())
    left = MANY
    while left:
        assert len(loop.called) == 1
        loop.turn()
        now = sum(ref() is not None for ref in alive)
        assert 0 < left - now <= MOST_IN_A_TURN
        left = now
    assert not loop.called


def test_who_sends_much_and_stops_is_given_up_for_others(loop: Loop, handshakes: Handshakes) -> None:
    handshakes.most_bytes = 1_000
    first, second, third, huge = Peer(), Peer(), Peer(), Peer()
    for peer in (first, second):
        handshakes.begin(peer)
        handshakes.submit(peer, 400)
        handshakes.waits(peer)
    handshakes.begin(third)
    handshakes.submit(third, 300)
    assert first.reason == "peers have sent more than 1000 bytes for handshakes under way, this one longest"
    assert second.reason is None
    assert third.reason is None
    handshakes.begin(huge)
    handshakes.submit(huge, 900)
    assert second.reason is not None
    assert huge.reason == "peers have sent more than 1000 bytes for handshakes under way"
    handshakes.end(huge)
    handshakes.end(third)
    last = Peer()
    handshakes.begin(last)
    handshakes.submit(last, 1_000)
    assert last.reason is None


def test_one_whose_step_cannot_be_taken_up_stops_no_other(loop: Loop, handshakes: Handshakes) -> None:
    class Failing(Peer):
        def stepped(self) -> None:
            raise RuntimeError("a fault")

    class FailingAgain(Failing):
        def give_up(self, reason: str) -> None:
            raise RuntimeError("another fault")

    done = threading.Semaphore(0)
    failing, again, other, last = Failing(done), FailingAgain(done), Peer(done), Peer(done)
    for peer in (failing, again, other, last):
        handshakes.begin(peer)
        handshakes.submit(peer, 100)
    for _ in range(4):  # the one thread has put down what it did before the last step
        assert done.acquire(timeout=60)
    for _ in range(3):
        with suppress(RuntimeError):  # a loop logs it
            loop.turn()
    assert other.is_told
    assert failing.reason == "the broker has failed"
    assert len(handshakes) == 2


def test_what_is_left_when_it_ends_is_not_done(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    handshakes = Handshakes(loop, threads=1)  # type: ignore[arg-type]
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Peer):
        def step(self) -> None:
            begun.set()
            happened(go_on, "the closing to begin")

    slow, left = Slow(), Peer()
    handshakes.begin(slow)
    handshakes.submit(slow, 1)
    handshakes.submit(left, 1)
    assert begun.wait(60)
    (worker,) = (thread for thread in threading.enumerate() if thread.name.startswith("odradek-tls"))
    waited_for, join = threading.Event(), worker.join

    def joining() -> None:
        waited_for.set()
        join()

    monkeypatch.setattr(worker, "join", joining)
    closing = threading.Thread(target=handshakes.close)
    closing.start()
    # It is closed before the thread is waited for.
    happened(waited_for, "the wait for the thread")
    go_on.set()
    joined(closing)
    loop.turn()
    assert not slow.is_told
    assert left.in_thread is None
    # What comes now begins no thread again.
    handshakes.submit(left, 1)
    assert not any(thread.name.startswith("odradek-tls") for thread in threading.enumerate())
