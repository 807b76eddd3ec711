"""The timers of an event loop: when they fire, in which order, and what cancelled ones leave behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from odradek.broker.event_loop.loop_timers import TIMES_OVER, LoopTimers
from seeds import each_seed


class Loop:
    """As much of an event loop as timers need, with a clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.2504
        self.set: dict[object, tuple[float, Callable[[], None]]] = {}
        self.failures: list[Any] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        handle = Handle(self)
        self.set[handle] = (when, callback)
        return handle

    def call_soon(self, callback: Callable[..., None], *args: object) -> Any:
        return self.call_at(self.now_s, lambda: callback(*args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context["exception"])

    def advance(self, ms: float) -> None:
        end = self.now_s + ms / 1000
        while self.set:
            handle = min(self.set, key=lambda one: self.set[one][0])
            when, callback = self.set[handle]
            if when > end:
                break
            del self.set[handle]
            self.now_s = max(self.now_s, when)
            callback()
        self.now_s = end


class Handle:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def cancel(self) -> None:
        self._loop.set.pop(self, None)


def test_they_fire_in_order_and_never_early() -> None:
    loop, seen = Loop(), []
    timers = LoopTimers(loop)  # type: ignore[arg-type]
    for delay in (30, 10, 20, 10.5, 0, -5):
        timers.call_later(delay, lambda delay=delay: seen.append((delay, loop.now_s)))  # type: ignore[misc]
    assert not seen
    assert len(loop.set) == 3
    loop.advance(0)
    assert [delay for delay, _ in seen] == [0, -5]
    assert len(loop.set) == 1
    loop.advance(100)
    assert [delay for delay, _ in seen] == [0, -5, 10, 10.5, 20, 30]
    assert all(0.2504 + delay / 1000 <= at < 0.2504 + max(0, delay) / 1000 + 0.001 for delay, at in seen)
    assert not loop.set
    assert not timers.by_ms


def test_one_that_is_cancelled_does_not_fire_and_is_forgotten() -> None:
    loop, seen = Loop(), []
    timers = LoopTimers(loop)  # type: ignore[arg-type]
    for _ in range(1000):
        timers.call_later(500, lambda: seen.append("never")).cancel()
    first = timers.call_later(10, lambda: second.cancel())
    second = timers.call_later(10, lambda: seen.append("never"))
    last = timers.call_later(20, lambda: seen.append("last"))
    loop.advance(30)
    for one in (first, second, last):
        one.cancel()
    assert seen == ["last"]
    assert not timers.by_ms
    loop.advance(1000)
    assert not timers.heap
    assert not loop.set
    timers.call_later(5, lambda: seen.append("again"))
    loop.advance(6)
    assert seen == ["last", "again"]


def test_one_that_fails_stops_no_other() -> None:
    loop, seen = Loop(), []
    timers = LoopTimers(loop)  # type: ignore[arg-type]
    timers.call_later(10, lambda: seen.append(1 // 0))
    timers.call_later(10, lambda: seen.append(1))
    timers.call_later(11, lambda: seen.append(2))
    loop.advance(20)
    assert seen == [1, 2]
    assert [type(one) for one in loop.failures] == [ZeroDivisionError]


def test_times_that_are_far_away_do_not_gather() -> None:
    loop, seen = Loop(), []
    timers = LoopTimers(loop)  # type: ignore[arg-type]
    timers.call_later(1_000_000, lambda: seen.append("last"))
    for _ in range(10_000):
        timers.call_later(2**31 - 1, lambda: seen.append("never")).cancel()
        loop.advance(0.7)
    assert len(timers.heap) <= TIMES_OVER + 2
    timers.call_later(5, lambda: seen.append("first"))
    loop.advance(2_000_000)
    assert seen == ["first", "last"]


def test_a_waiter_that_was_cancelled_stops_no_other() -> None:
    loop, seen = Loop(), []
    timers = LoopTimers(loop)  # type: ignore[arg-type]

    def fail() -> None:
        raise asyncio.CancelledError

    timers.call_later(10, fail)
    timers.call_later(10, lambda: seen.append(1))
    timers.call_later(11, lambda: seen.append(2))
    loop.advance(20)
    assert seen == [1, 2]
    assert [type(one) for one in loop.failures] == [asyncio.CancelledError]


@each_seed(20)
def test_who_looks_at_the_clock_finds_none_early(seed: int) -> None:
    """Not by what seconds and milliseconds round: it would be set anew, for now, again and again."""
    chance = random.Random(seed)
    loop = Loop()
    loop.now_s = chance.randrange(10**6) / 1000
    timers = LoopTimers(loop)  # type: ignore[arg-type]
    fired = 0

    def set_one() -> None:
        nonlocal fired
        delay = chance.choice((chance.randrange(10_000), chance.uniform(0, 500)))
        at_ms = loop.now_s * 1000 + delay

        def fire() -> None:
            nonlocal fired
            assert loop.now_s * 1000 >= at_ms
            fired += 1

        timers.call_later(delay, fire)

    for _ in range(500):
        set_one()
        loop.advance(chance.randrange(50))
    loop.advance(10_002)
    assert fired == 500


@each_seed(5)
def test_any_order_of_setting_and_cancelling(seed: int) -> None:
    chance = random.Random(seed)
    loop = Loop()
    timers = LoopTimers(loop)  # type: ignore[arg-type]
    waiting: dict[int, tuple[float, Any]] = {}
    number = 0

    def fire(which: int) -> None:
        due_s, _ = waiting.pop(which)
        assert due_s <= loop.now_s + 1e-9
        if chance.random() < 0.3:
            begin()

    def begin() -> None:
        nonlocal number
        number += 1
        delay, which = chance.choice((0, 1, 3.7, 50, 400)), number
        waiting[which] = (loop.now_s + delay / 1000, timers.call_later(delay, lambda: fire(which)))

    for _ in range(500):
        if waiting and chance.random() < 0.4:
            waiting.pop(chance.choice(list(waiting)))[1].cancel()
        else:
            begin()
        if chance.random() < 0.3:
            loop.advance(chance.choice((0, 0.4, 2, 60)))
        assert all(due_s + 0.00103 > loop.now_s for due_s, _ in waiting.values())
    loop.advance(500)
    loop.advance(500)
    loop.advance(500)
    assert not waiting or number > 0
    assert sum(map(len, timers.by_ms.values())) == len(waiting)
