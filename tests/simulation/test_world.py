"""Virtual time, and that a seed is one order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from odradek.broker.event_loop.loop_timers import LoopTimers

from .virtual_threads import VirtualExecutor
from .world import Livelock, NothingLeft, VirtualClock, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1)
    yield made
    made.close()


def _trace(seed: int) -> list[tuple[float, int]]:
    """Who came when, of three that leave it to an executor how long they take."""
    world = World(seed)
    seen: list[tuple[float, int]] = []

    async def work(number: int) -> None:
        for _ in range(5):
            await world.control.run_in_executor(None, lambda: seen.append((world.now_s, number)))

    async def all_of_them() -> None:
        await asyncio.gather(*(work(number) for number in range(3)))

    try:
        world.run(all_of_them())
    finally:
        world.close()
    return seen


def test_a_day_passes_at_once(world: World) -> None:
    world.run(asyncio.sleep(86_400 * 3))
    assert world.now_s == pytest.approx(86_400 * 3)


def test_timers_come_in_the_order_of_their_times(world: World) -> None:
    seen: list[str] = []
    for name, delay_s in (("last", 3.0), ("first", 1.0), ("second", 2.0)):
        world.control.call_later(delay_s, seen.append, name)
    world.run(asyncio.sleep(5))
    assert seen == ["first", "second", "last"]


def test_a_time_limit_is_virtual(world: World) -> None:
    async def wait() -> None:
        async with asyncio.timeout(30):
            await asyncio.sleep(31)

    with pytest.raises(TimeoutError):
        world.run(wait())
    assert world.now_s == pytest.approx(30, abs=0.001)


def test_the_timers_of_a_broker_run_in_it(world: World) -> None:
    seen: list[float] = []
    LoopTimers(world.control).call_later(250, lambda: seen.append(world.now_s))
    world.run(asyncio.sleep(1))
    assert seen == [pytest.approx(0.25, abs=0.0011)]


def test_waiting_for_what_cannot_come_is_an_error(world: World) -> None:
    async def wait() -> None:
        await world.control.create_future()

    with pytest.raises(NothingLeft):
        world.run(wait())


def test_doing_something_without_end_is_an_error(world: World) -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="spin"):
        world.run(spin())


def test_what_fails_in_an_executor_fails_here(world: World) -> None:
    async def fail() -> None:
        await world.control.run_in_executor(None, int, "none")

    with pytest.raises(ValueError, match="none"):
        world.run(fail())


def test_a_seed_is_one_order_of_events() -> None:
    assert _trace(7) == _trace(7)
    assert len({tuple(_trace(seed)) for seed in range(5)}) == 5


def test_a_clock_that_jumps_stays_monotonic(world: World) -> None:
    clock = VirtualClock(world, 1_000_000)
    world.run(asyncio.sleep(1.5))
    clock.jump(-60_000)
    assert (clock.now_ms(), round(clock.monotonic_ms())) == (941_500, 1500)


def test_a_loop_that_is_paused_stands_still(world: World) -> None:
    seen: list[float] = []
    other = world.loop("other")
    other.call_later(1, lambda: seen.append(world.now_s))
    other.is_paused = True
    world.run(asyncio.sleep(5))
    assert seen == []
    other.is_paused = False
    world.run(asyncio.sleep(1))
    assert seen == [pytest.approx(5, abs=0.001)]


def test_a_loop_whose_process_died_does_nothing_more(world: World) -> None:
    seen: list[str] = []
    other = world.loop("other")
    other.call_soon(lambda: setattr(other, "is_dead", True))
    other.call_soon(seen.append, "dead")
    world.run(asyncio.sleep(1))
    assert seen == []


def test_a_thread_takes_turns_with_its_loop(world: World) -> None:
    seen: list[str] = []
    executor = VirtualExecutor(world.control)

    def work() -> int:
        seen.append("begun")
        executor.pause(1.0)
        seen.append("ended")
        return 7

    async def run() -> int:
        answer = world.control.run_in_executor(executor, work)
        await asyncio.sleep(0.5)
        seen.append("meanwhile")
        return int(await answer)

    assert world.run(run()) == 7
    assert seen == ["begun", "meanwhile", "ended"]


def test_a_thread_ends_with_its_world(world: World) -> None:
    executor = VirtualExecutor(world.control)
    executor.submit(lambda: executor.pause(10))
    world.run(asyncio.sleep(1))
    executor.end()
    assert not executor.has_thread


def test_a_thread_ends_whatever_it_answers_to_being_interrupted(world: World) -> None:
    executor = VirtualExecutor(world.control)

    def work() -> None:
        try:
            executor.pause(10)
        finally:
            raise ValueError

    executor.submit(work)
    world.run(asyncio.sleep(1))
    executor.end()
    assert not executor.has_thread
