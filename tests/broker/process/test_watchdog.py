"""The watchdog: what is a stall, which are told of, and a real loop that is really held up."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import random
import re
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from odradek.broker.metrics.metrics import Metrics
from odradek.broker.process.logging import fields
from odradek.broker.process.main import loop_factory
from odradek.broker.process.watchdog import (
    LINES_PER_MINUTE,
    MOST_PLACES,
    Places,
    Stack,
    StackReader,
    Stall,
    StallDetector,
    ThreadUsage,
    Usage,
    Watchdog,
    parse_stack,
    place_of,
)
from waiting import joined, until_async

WHERE: Stack = ("handlers/slow.py:7 handle",)


class World:
    """A loop and its watchdog on a clock of their own: a beat is answered unless the loop is held up."""

    def __init__(self, threshold_ms: float = 50) -> None:
        self.now = 1000.0
        self.cpu = 0.0
        self.starved = 0.0
        self.others = 0.0
        self.detector = StallDetector(threshold_ms, self.now, self.usage)
        self.asked_at: float | None = None
        self.stacks_taken = 0
        self.stalls: list[Stall] = []

    @property
    def usage(self) -> Usage:
        return Usage(self.cpu, self.starved, self.cpu + self.others)

    def stack(self) -> Stack:
        self.stacks_taken += 1
        return WHERE

    def look(self, *, late: float = 0) -> None:
        """The thread looks; `late` after it wanted to."""
        self.now += late
        ask, stall = self.detector.look(self.now, self.usage, self.stack)
        if ask:
            self.asked_at = self.now
        if stall is not None:
            self.stalls.append(stall)

    def run(self, ms: float, *, held_up: bool = False, cpu_share: float = 0.5) -> None:
        """Time passes; the thread looks on time; the loop answers at once, unless it is held up."""
        end = self.now + ms
        while self.now < end:
            step = min(self.detector.period_ms, end - self.now)
            if not held_up and self.asked_at is not None:
                self.detector.beat(self.now, self.usage)
                self.asked_at = None
            self.now += step
            self.cpu += step * cpu_share
            self.look()


@pytest.mark.parametrize(
    ("where", "cpu_share", "starved"),
    [
        ("asyncio/runners.py:118 run", 0.0, 1),
        ("python3.11/selectors.py:468 select", 0.0, 1),
        ("asyncio/runners.py:118 run", 0.5, 0),
        ("handlers/slow.py:7 handle", 0.0, 0),
    ],
)
def test_a_loop_that_is_woken_late_was_starved(where: str, cpu_share: float, starved: int) -> None:
    world = World()
    world.stack = lambda: (where,)  # type: ignore[method-assign]
    world.run(200, cpu_share=0.1)
    world.run(100, held_up=True, cpu_share=cpu_share)
    world.run(100, cpu_share=0.1)
    assert (world.detector.count, world.detector.starved) == (1, starved)


@pytest.mark.parametrize(("others_ms", "starved"), [(0, 1), (90, 0)])
def test_a_process_that_stood_still_was_starved(others_ms: float, starved: int) -> None:
    """Nobody saw it, as the thread that looks stood still too; another that computes could have kept both."""
    world = World()
    world.run(200, cpu_share=0.1)
    world.now += 100
    world.others += others_ms
    if world.asked_at is not None:
        world.detector.beat(world.now, world.usage)
        world.asked_at = None
    world.look()
    assert world.stacks_taken == 0
    assert (world.detector.count, world.detector.starved) == (1, starved)


def test_a_loop_that_turns_is_no_stall() -> None:
    world = World()
    world.run(10_000)
    assert world.stalls == []
    assert world.detector.count == world.stacks_taken == 0
    delays = world.detector.delays
    assert delays.counts[0] == sum(delays.counts)
    assert delays.counts[0] > 0


def test_a_stall_is_told_once_with_its_length_and_where() -> None:
    world = World()
    world.run(100)
    world.run(80, held_up=True, cpu_share=1.0)
    assert world.stalls == []
    world.run(100)
    (stall,) = world.stalls
    assert 80 <= stall.stalled_ms <= 80 + world.detector.period_ms
    assert 80 <= stall.cpu_ms <= 80 + world.detector.period_ms
    assert (stall.stack, stall.over, stall.suppressed) == (WHERE, True, 0)
    assert (world.detector.count, world.detector.max_ms) == (1, stall.stalled_ms)
    assert world.stacks_taken == 2


def test_a_stall_in_which_the_loop_waited_shows_that_it_computed_nothing() -> None:
    world = World()
    world.run(100)
    before = world.cpu
    world.run(200, held_up=True, cpu_share=0.0)
    world.run(100)
    (stall,) = world.stalls
    assert stall.cpu_ms <= before
    assert stall.cpu_ms < stall.stalled_ms / 10


def test_a_thread_without_a_processor_is_told_apart() -> None:
    world = World()
    world.run(100)
    world.run(100, held_up=True, cpu_share=0.0)
    world.starved += 90
    world.run(100)
    world.run(100, held_up=True, cpu_share=1.0)
    world.run(100)
    assert [stall.starved_ms for stall in world.stalls] == [90, 0]
    assert (world.detector.count, world.detector.starved) == (2, 1)


def test_none_that_is_long_enough_is_missed_and_none_that_is_far_too_short_is_told() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(300):
        world = World()
        world.run(rng.uniform(1, 100))
        length = rng.uniform(1, 120)
        world.run(length, held_up=True)
        world.run(60)
        if length >= world.detector.threshold_ms:
            assert len(world.stalls) == 1, (seed, length)
            assert world.stalls[0].stack == WHERE, (seed, length)
        elif length < world.detector.threshold_ms - world.detector.period_ms:
            assert world.stalls == [], (seed, length)


def test_a_stall_that_kept_the_watchdog_too_from_running_is_seen_with_the_stack_right_after_it() -> None:
    world = World()
    world.run(100)
    assert world.asked_at is not None
    world.detector.beat(world.now, world.usage)  # it answers, and only then is it held up, with the lock held
    world.asked_at = None
    world.cpu += 70
    world.look(late=70)
    world.run(50)
    (stall,) = world.stalls
    assert 70 <= stall.stalled_ms < 75
    assert stall.stack == WHERE


def test_a_watchdog_that_had_no_processor_does_not_blame_the_loop() -> None:
    world = World()
    world.run(100)
    assert world.asked_at is not None
    world.detector.beat(world.now, world.usage)
    world.asked_at = None
    world.look(late=300)
    world.run(1_000)
    assert world.stalls == []
    assert world.detector.count == 0


def test_one_that_goes_on_is_told_of_before_it_is_over() -> None:
    world = World()
    world.run(100)
    world.run(4_500, held_up=True)
    assert [stall.over for stall in world.stalls] == [False, False, False]
    assert [round(stall.stalled_ms, -3) for stall in world.stalls] == [1000, 2000, 4000]
    world.run(100)
    assert world.stalls[-1].over
    assert world.stalls[-1].stalled_ms >= 4_500
    assert world.detector.count == 1
    world.run(100)
    world.run(1_100, held_up=True)
    assert [stall.over for stall in world.stalls[-2:]] == [True, False]


def test_lines_are_limited_and_those_left_out_are_counted() -> None:
    world = World()
    for _ in range(LINES_PER_MINUTE + 5):
        world.run(100)
        world.run(60, held_up=True)
    world.run(100)
    assert len(world.stalls) == LINES_PER_MINUTE
    assert world.detector.count == LINES_PER_MINUTE + 5
    world.run(60_000)
    world.run(60, held_up=True)
    world.run(100)
    assert world.stalls[-1].suppressed == 5


def test_a_loop_that_does_nothing_is_left_alone_until_it_does_something() -> None:
    world = World()
    world.run(1_000)
    assert not world.detector.resting
    world.run(1_000, cpu_share=0.005)
    assert world.detector.resting
    assert world.asked_at is None
    world.now += 1_000
    world.cpu += 0.1
    assert world.detector.woke(world.now, world.usage, activity=False) is None
    assert world.detector.resting
    world.now += 500
    assert world.detector.woke(world.now, world.usage, activity=True) is None
    assert not world.detector.resting
    world.look()
    world.run(90, held_up=True)
    world.run(50)
    (stall,) = world.stalls
    assert 90 <= stall.stalled_ms <= 91  # from the activity on, not from the last beat before the rest


def test_a_stall_during_the_rest_is_found_afterwards() -> None:
    world = World()
    world.run(1_000, cpu_share=0.005)
    assert world.detector.resting
    world.now += 1_000
    world.cpu += 120
    stall = world.detector.woke(world.now, world.usage, activity=False)
    assert stall is not None
    assert (stall.stack, round(stall.cpu_ms, -1)) == ((), 120)
    assert world.detector.count == 1
    assert not world.detector.resting


def test_the_usage_of_a_thread_is_seen_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    by_file = ThreadUsage()
    monkeypatch.setattr(os, "open", no_file)
    by_clock = ThreadUsage()
    began = time.thread_time()
    while time.thread_time() < began + 0.02:
        pass
    seen: list[Usage] = []
    other = threading.Thread(target=lambda: seen.extend((by_file.read(), by_clock.read())))
    other.start()
    joined(other)
    for reader in (by_file, by_clock, by_clock):
        reader.close()
    assert all(usage.cpu_ms >= 20 for usage in seen)
    assert seen[1].starved_ms == 0


def no_file(path: str, flags: int) -> int:
    raise FileNotFoundError(path)


def test_a_stack_reads_from_the_innermost_frame_on() -> None:
    stacks = StackReader()
    for _ in range(2):
        lines = stacks.read(threading.get_ident())
        assert lines[0].startswith("broker/process/watchdog.py:")
        assert lines[1].startswith("process/test_watchdog.py:")
        assert lines[1].endswith(" test_a_stack_reads_from_the_innermost_frame_on")
    assert stacks.read(1) == ()
    stacks.close()


def test_stacks_are_read_while_threads_run_and_collect() -> None:
    """Frames come and go, and garbage is collected, while another thread is looked at."""
    stacks, over = StackReader(), threading.Event()

    def descend(depth: int) -> list[object]:
        kept: list[object] = [depth]
        kept.append(kept)
        return descend(depth - 1) if depth else kept

    def work() -> None:
        while not over.is_set():
            descend(30)
            gc.collect(0)

    thread = threading.Thread(target=work)
    thread.start()
    seen = [stacks.read(thread.ident or 0) for _ in range(300)]
    over.set()
    joined(thread)
    stacks.close()
    assert any("descend" in line for stack in seen for line in stack)


def test_a_dump_is_parsed_for_one_thread() -> None:
    dump = (
        "Thread 0x00000000000000aa (most recent call first):\n"
        '  File "/a/odradek/log/storage/files.py", line 7 in pwrite\n'
        '  File "/usr/lib/python3.11/selectors.py", line ??? in select\n\n'
        "Current thread 0x00000000000000bb (most recent call first):\n"
        '  File "<string>", line 1 in <module>\n'
    )

    def parsed(dump: str, thread: int) -> Stack:
        return parse_stack(dump, thread, PurePosixPath("/a/odradek"))

    assert parsed(dump, 0xAA) == ("log/storage/files.py:7 pwrite", "python3.11/selectors.py:??? select")
    assert parsed(dump, 0xBB) == ("<string>:1 <module>",)
    assert parsed(dump, 0xCC) == parsed("", 0xAA) == ()


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("/home/me/odradek/src/odradek/log/storage/files.py", "log/storage/files.py"),
        ("/home/me/odradek/tests/broker/process/test_watchdog.py", "process/test_watchdog.py"),
        ("/home/me/odradek/app.py", "odradek/app.py"),
        ("/home/me/odradek/src/odradek_plugin/files.py", "odradek_plugin/files.py"),
    ],
)
def test_the_package_is_known_by_its_place_not_by_its_name(file: str, place: str) -> None:
    dump = f'Thread 0x00aa (most recent call first):\n  File "{file}", line 7 in f\n'
    package = PurePosixPath("/home/me/odradek/src/odradek")
    assert parse_stack(dump, 0xAA, package) == (f"{place}:7 f",)


@pytest.mark.parametrize("name", ["a blank", "ü", "ключ", "\U0001f600"])
def test_a_stack_is_read_whatever_the_folder_is_called(name: str, tmp_path: Path) -> None:
    """`faulthandler` has its own way to write a path."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        pytest.skip("this locale's folders have no such name")
    package = tmp_path / name / "odradek"
    (package / "log").mkdir(parents=True)
    source = package / "log" / "files.py"
    source.write_text("def look(): return read()\n", encoding="utf-8")
    read = compile(source.read_text(encoding="utf-8"), str(source), "exec")
    stacks = StackReader()
    found: dict[str, Any] = {"read": lambda: stacks.read(threading.get_ident(), package)}
    exec(read, found)
    assert "log/files.py:1 look" in found["look"]()
    stacks.close()


def stalled(ms: float, *stack: str, starved_ms: float = 0.0, over: bool = True) -> Stall:
    return Stall(ms, ms - starved_ms, starved_ms, stack, over, process_ms=ms)


def test_a_place_is_warned_of_once_and_a_long_stall_always() -> None:
    places = Places()

    def warned(stall: Stall) -> bool:
        return places.level(stall, 50) == logging.WARNING

    assert warned(stalled(60, "wire/source.py:56 function", "wire/message.py:9 get"))
    assert not warned(stalled(60, "wire/source.py:56 function", "another/caller.py:9 get"))
    assert not warned(stalled(999, "wire/source.py:57 function"))
    assert warned(stalled(60, "wire/source.py:56 other"))
    assert warned(stalled(1_000, "wire/source.py:56 function"))
    assert warned(stalled(60, "wire/source.py:56 function", over=False))
    assert warned(stalled(60))
    assert not warned(stalled(60))
    # The machinery of imports is no place; where it is used is.
    frozen = "<frozen importlib._bootstrap>:1176 _find_and_load"
    assert warned(stalled(60, frozen, frozen, "broker/app.py:7 groups"))
    assert not warned(stalled(60, frozen, "broker/app.py:9 groups"))
    assert place_of((frozen, "a/b.py:1 f")) == "a/b.py:1 f"
    # A machine that is too busy stops the loop anywhere.
    assert warned(stalled(90, "a.py:1 f", starved_ms=80))
    assert not warned(stalled(90, "b.py:1 f", starved_ms=80))
    assert not any(warned(stalled(90, f"{number}.py:1 f", starved_ms=80)) for number in range(500))


def test_places_are_bounded() -> None:
    places = Places()
    levels = [places.level(stalled(60, f"{number}.py:1 f"), 50) for number in range(3 * MOST_PLACES)]
    assert levels.count(logging.WARNING) == MOST_PLACES
    assert len(places.seen) == MOST_PLACES


@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
def test_whole_stacks_are_for_the_debug_level(
    level: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        watchdog = Watchdog(asyncio.get_running_loop(), THRESHOLD_MS)
        for _ in range(2):
            watchdog.tell(stalled(60, "a.py:1 f", "b.py:2 g"))
        watchdog.tell(stalled(5_000, "a.py:1 f", "b.py:2 g", over=False))
        watchdog.tell(None)
        watchdog.stop()

    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    with caplog.at_level(level, logger="odradek.broker.process.watchdog"):
        asyncio.run(main())
    stack = "a.py:1 f" if level == logging.WARNING else "a.py:1 f < b.py:2 g"
    first = f"event loop stalled stalled_ms=60 cpu_ms=60 starved_ms=0 suppressed=0 stack={stack}"
    long = f"event loop is still stalled stalled_ms=5000 cpu_ms=5000 starved_ms=0 suppressed=0 stack={stack}"
    lines = [one.getMessage() for one in caplog.records if one.name == "odradek.broker.process.watchdog"]
    assert lines == ([first, long] if level == logging.WARNING else [first, first, long])
    facts = fields(caplog.records[0])
    assert facts == {"stalled_ms": 60, "cpu_ms": 60, "starved_ms": 0, "suppressed": 0, "stack": stack}


THRESHOLD_MS = 20


HELD_UP = re.compile(
    r"event loop stalled stalled_ms=\d+ .* stack=process/test_watchdog\.py:\d+ hold_up_the_loop( |$)"
)


def hold_up_the_loop(ms: float) -> None:
    """Busy, calling no function of Python's: wherever the sample falls, it finds this frame innermost."""
    end = time.monotonic() + ms / 1000
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("factory", [loop_factory(), None], ids=["uvloop", "stock"])
def test_a_real_loop_that_is_held_up(
    factory: object, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        # Longer each time: where the machine stood still just then, nobody saw it, or it was not the loop's.
        for held_up_ms in itertools.count(2 * THRESHOLD_MS, THRESHOLD_MS):
            watchdog = Watchdog(asyncio.get_running_loop(), THRESHOLD_MS)
            watchdog.register(metrics)
            watchdog.start()
            hold_up_the_loop(held_up_ms)
            held_until_ms = time.monotonic_ns() / 1e6
            await until_async(
                lambda watchdog=watchdog: watchdog.detector.last_beat.at_ms,
                "a beat behind the stall",
                holds=lambda at_ms, held_until_ms=held_until_ms: at_ms >= held_until_ms,
                every_s=0.001,
            )
            watchdog.stop()
            watchdog.stop()
            if any(HELD_UP.match(record.getMessage()) for record in caplog.records):
                break

    metrics = Metrics()
    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    with (
        caplog.at_level(logging.WARNING, logger="odradek.broker.process.watchdog"),
        asyncio.Runner(loop_factory=factory) as runner,  # type: ignore[arg-type]
    ):
        runner.run(main())
    values = metrics.snapshot()
    kind = "odradek.server:EventLoop"
    assert values[(kind, "StallCount", ())] >= 1
    assert values[(kind, "StallTimeMsMax", ())] >= THRESHOLD_MS


@pytest.mark.parametrize("factory", [loop_factory(), None], ids=["uvloop", "stock"])
def test_a_real_loop_that_rests_and_awakes(factory: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watchdog = Watchdog(loop, THRESHOLD_MS)
        assert watchdog.activity is not None
        woken: list[bool] = []
        woke = watchdog.detector.woke

        def note(now_ms: float, usage: Usage, *, activity: bool) -> Stall | None:
            woken.append(activity)
            return woke(now_ms, usage, activity=activity)

        monkeypatch.setattr(watchdog.detector, "woke", note)
        watchdog.detector.quiet_looks = 1_000_000  # quiet for long: it rests from the first beat on
        monkeypatch.setattr("odradek.broker.process.watchdog._QUIET_CPU_MS", 1e9)
        watchdog.start()
        async with asyncio.timeout(30):
            while True not in woken:
                # Whatever happens in the loop is an event on the descriptor that it waits on.
                await loop.run_in_executor(None, time.sleep, 0.001)
        watchdog.stop()

    with asyncio.Runner(loop_factory=factory) as runner:  # type: ignore[arg-type]
        runner.run(main())
