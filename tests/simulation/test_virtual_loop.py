"""Virtual time, and that a seed is one order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from odradek.broker.process.loop_timers import LoopTimers

from .virtual_loop import NothingLeft, VirtualClock, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop(1)
    yield made
    made.close()


def _trace(seed: int) -> list[tuple[float, int]]:
    """Who came when, of three that leave it to an executor how long they take."""
    loop = VirtualLoop(seed)
    seen: list[tuple[float, int]] = []

    async def work(number: int) -> None:
        for _ in range(5):
            await loop.run_in_executor(None, lambda: seen.append((loop.time(), number)))

    async def all_of_them() -> None:
        await asyncio.gather(*(work(number) for number in range(3)))

    try:
        loop.run_until_complete(all_of_them())
    finally:
        loop.close()
    return seen


def test_a_day_passes_at_once(loop: VirtualLoop) -> None:
    loop.run_until_complete(asyncio.sleep(86_400 * 3))
    assert loop.time() == pytest.approx(86_400 * 3)


def test_timers_come_in_the_order_of_their_times(loop: VirtualLoop) -> None:
    seen: list[tuple[str, float]] = []
    for name, delay_s in (("last", 3.0), ("first", 1.0), ("second", 2.0)):
        loop.call_later(delay_s, lambda name=name: seen.append((name, loop.time())))
    loop.run_until_complete(asyncio.sleep(5))
    assert seen == [("first", 1.0), ("second", 2.0), ("last", 3.0)]


def test_a_time_limit_is_virtual(loop: VirtualLoop) -> None:
    async def wait() -> None:
        async with asyncio.timeout(30):
            await asyncio.sleep(31)

    with pytest.raises(TimeoutError):
        loop.run_until_complete(wait())
    assert loop.time() == pytest.approx(30)


def test_the_timers_of_a_broker_run_in_it(loop: VirtualLoop) -> None:
    seen: list[float] = []
    LoopTimers(loop).call_later(250, lambda: seen.append(loop.time()))
    loop.run_until_complete(asyncio.sleep(1))
    assert seen == [0.25]


def test_waiting_for_what_cannot_come_is_an_error(loop: VirtualLoop) -> None:
    with pytest.raises(NothingLeft):
        loop.run_until_complete(loop.create_future())


def test_what_fails_in_an_executor_fails_here(loop: VirtualLoop) -> None:
    async def fail() -> None:
        await loop.run_in_executor(None, int, "none")

    with pytest.raises(ValueError, match="none"):
        loop.run_until_complete(fail())


def test_a_seed_is_one_order_of_events() -> None:
    assert _trace(7) == _trace(7)
    assert len({tuple(_trace(seed)) for seed in range(5)}) == 5


def test_a_clock_that_jumps_stays_monotonic(loop: VirtualLoop) -> None:
    clock = VirtualClock(loop, 1_000_000)
    loop.run_until_complete(asyncio.sleep(1.5))
    clock.jump(-60_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (941_500, 1500.0)
