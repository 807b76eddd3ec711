"""The clock in a test's hand: what passes, in which order, and what it is beside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from odradek import Consumer
from odradek.testing import Broker, ManualClock
from odradek.testing.clock.life import Life
from odradek.testing.clock.manual_clock import LOOKS
from odradek.testing.clock.resting_loop import RestingLoop
from waiting import WITHIN_S, joined

from .in_hand import broker_in_hand, send, start

HOUR_MS = 3_600_000


def test_it_stands_until_it_is_moved() -> None:
    began = datetime(2024, 2, 28, 12, tzinfo=UTC)
    clock = ManualClock(began)
    assert clock.now == began
    clock.advance(hours=1, minutes=1, seconds=1, milliseconds=1)
    clock.advance(timedelta(days=1), hours=1)
    assert clock.now - began == timedelta(days=1, hours=2, minutes=1, seconds=1, milliseconds=1)
    assert clock.monotonic_ms() == 26 * HOUR_MS + 61_001


def test_it_begins_now() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    assert before <= ManualClock().now <= datetime.now(UTC)


def test_it_is_not_set_back_nor_to_nowhere() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(hours=-1)
    with pytest.raises(ValueError, match="no time zone"):
        ManualClock(datetime(2024, 1, 1))


def test_a_broker_without_a_clock_has_the_machines_time(odradek_broker: Broker) -> None:
    with pytest.raises(RuntimeError, match=r"clock=odradek\.testing\.ManualClock"):
        odradek_broker.advance(hours=1)


# ---------------------------------------------------------------------- timers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def life(clock: ManualClock) -> Iterator[Life]:
    """A loop in a thread, under the clock."""
    loop = RestingLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    life = clock.begin_life(loop)
    yield life
    life.end()
    loop.call_soon_threadsafe(loop.stop)
    joined(thread)
    loop.close()


class Notes:
    """What was done, and when by the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.lines: list[tuple[str, float]] = []

    def __call__(self, line: str) -> None:
        self.lines.append((line, self.clock.monotonic_ms()))


def test_each_timer_fires_at_its_own_moment(clock: ManualClock, life: Life) -> None:
    note = Notes(clock)

    def again() -> None:
        note("again")
        life.call_later(250.5, partial(note, "after that"))

    def begin() -> None:
        life.call_later(300, partial(note, "last"))
        life.call_later(0, partial(note, "at once"))
        life.call_later(100, again)
        life.call_later(200, partial(note, "next")).cancel()
        life.call_later(200, partial(note, "next"))

    life.do(begin)
    clock.advance(milliseconds=99)
    assert note.lines == [("at once", 0)]
    clock.advance(seconds=1)
    assert note.lines[1:] == [("again", 100), ("next", 200), ("last", 300), ("after that", 351)]
    assert clock.monotonic_ms() == 1_099


def test_what_a_timer_begins_is_done_before_the_next(clock: ManualClock, life: Life) -> None:
    """Turns of the loop, and a thread."""
    note = Notes(clock)

    async def work() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        await life.loop.run_in_executor(None, partial(note, "thread"))
        await asyncio.sleep(0)
        note("done")

    tasks = []

    def begin() -> None:
        life.call_later(1, lambda: tasks.append(life.loop.create_task(work())))
        life.call_later(2, partial(note, "next"))
        life.call_later(2, lambda: tasks.append(life.loop.create_task(work())))

    life.do(begin)
    clock.advance(milliseconds=2)
    assert note.lines == [("thread", 1), ("done", 1), ("next", 2), ("thread", 2), ("done", 2)]


def test_a_timer_that_fails_holds_nothing_up(clock: ManualClock, life: Life) -> None:
    note = Notes(clock)
    problems = []
    life.loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
    life.call_later(1, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    life.call_later(2, partial(note, "next"))
    clock.advance(milliseconds=2)
    assert note.lines == [("next", 2)]
    assert isinstance(problems[0], ZeroDivisionError)


def test_looks_are_rare_in_a_long_time_and_the_last_is_at_its_end(clock: ManualClock, life: Life) -> None:
    note = Notes(clock)
    periodic = life.every("look", 1_000, partial(note, "look"))
    clock.advance(seconds=3, milliseconds=500)
    assert note.lines == [("look", 1_000), ("look", 2_000), ("look", 3_000)]
    note.lines.clear()
    clock.advance(days=7)
    assert LOOKS <= len(note.lines) <= LOOKS + 1
    assert note.lines[-1][1] == clock.monotonic_ms()
    periodic.stop()
    note.lines.clear()
    clock.advance(days=7)
    assert not note.lines


def test_timers_that_were_cancelled_do_not_gather(clock: ManualClock, life: Life) -> None:
    def put_off() -> None:
        for _ in range(20_000):
            life.call_later(HOUR_MS, lambda: None).cancel()

    life.do(put_off)
    assert clock.pending < 5_000


# ---------------------------------------------------------------------- brokers


def test_two_brokers_have_one_clock() -> None:
    clock = ManualClock()
    with broker_in_hand(clock) as one, broker_in_hand(clock) as other:
        for broker in (one, other):
            send(broker)
        one.advance(days=8)
        assert (start(one), start(other)) == (1, 1)


def test_a_broker_goes_on_by_its_clock_after_a_restart() -> None:
    with broker_in_hand() as broker:
        send(broker)
        broker.advance(days=4)
        broker.restart()
        send(broker)
        broker.advance(days=4)
        assert start(broker) == 2
        broker.kill()
        broker.clock.advance(days=1)  # nobody is there who would have to rest
        broker.restart()
        assert start(broker) == 2


def test_what_was_due_while_a_broker_stood_still_is_done_when_it_goes_on() -> None:
    with broker_in_hand() as broker:
        send(broker)
        broker.pause()
        broker.advance(days=8)
        broker.resume()
        assert start(broker) == 1


def test_a_clients_wait_is_its_own() -> None:
    """A long poll ends by real time, though the broker's time stands."""
    with broker_in_hand() as broker, Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([("orders", 0)])
        assert not consumer.poll(0.2)
        send(broker)
        assert consumer.poll(WITHIN_S)


def test_time_passes_beside_a_loop_of_the_users() -> None:
    async def main() -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with Broker(clock=ManualClock()) as broker:
            turning = asyncio.create_task(turn())
            await asyncio.to_thread(broker.advance, days=30)
            turning.cancel()
        assert turns > 1

    asyncio.run(main())


def test_nobody_waits_for_a_broker_that_has_ended(clock: ManualClock, life: Life) -> None:
    life.call_later(1, life.end)
    clock.advance(seconds=1)
    assert life.at_rest() >= 0
    life.do(lambda: None)
