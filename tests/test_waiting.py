"""Waits end in time, tell what was lacking, and no test has one without a bound."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from unbounded_waits import unbounded
from waiting import WITHIN_S, gathered, happened, joined, until, until_async, within

TESTS = Path(__file__).parent

WITHOUT_A_BOUND = {
    ("again.py", "subprocess.run"): "runs the tests, each of which has its time",
    (
        "broker/sweep.py",
        "while not reading.done()",
    ): "takes a step of a list each time, the last of which fails",
    ("broker/folders/test_disk_waits.py", "self._disk.wait"): "its own method, bounded where it is defined",
    ("broker/event_loop/test_slices.py", "awaited.result"): "of asyncio, which does not wait",
    (
        "broker/process/test_supervisor.py",
        "self.out_of_patience.wait",
    ): "stands for a time that only the test ends",
    (
        "broker/transactions/test_transactions_in_a_cluster.py",
        "sent.answer.result",
    ): "of asyncio, which does not wait",
    (
        "broker/requests/test_append_order.py",
        "while left or model.asked or model.converting",
    ): "no wait: all that it lacks it does itself",
    ("client/entered_amid.py", "thread.join"): "an outcome that is not there is told by name behind it",
    (
        "client/typing/programs.py",
        "typed.send('orders', Order(5)).result",
    ): "is read by mypy, and never run",
    ("testing/clock/test_clock.py", "while True"): "turns until it is cancelled",
    ("client/test_append_twins.py", "gate.wait"): "what is tested: it returns at once or raises",
    ("cluster_network.py", "self._healed.wait"): "a cut that lasts until a test heals it",
    ("cluster_network.py", "under_way.get"): "bytes that may come as long as the connection lasts",
    (
        "interop/python/librdkafkarestart.py",
        "while thread.is_alive() and told.quiet < QUIET_REPORTS",
    ): "reports come by the clock, and so many quiet ones end it",
    ("interop/tap.py", "back.join"): "as long as the connection lasts; `close` waits for it with a bound",
    (
        "interop/test_quotas.py",
        "while read < SENT",
    ): "each poll has a record within a minute, or the test fails",
    ("scenarios/faults/copier.py", "while not ended"): "a program that goes on until a signal",
    ("scenarios/faults/members.py", "while not self._ended"): "a thread that goes on until it is told to end",
    ("scenarios/faults/test_groups.py", "members.join"): "has a consumer join a group",
    (
        "scenarios/faults/workloads.py",
        "while not self._has_ended() and self._renewals == renewals",
    ): "a thread that goes on until it is told to end",
    ("simulation/machine.py", "done.result"): "it is done: virtual time has passed",
    (
        "simulation/sockets.py",
        "while not (self.gets_through(loop.host, host) and self.gets_through(host, loop.host))",
    ): "virtual time, which the run ends",
    ("simulation/test_world.py", "while True"): "what is tested: the world ends it",
    (
        "simulation/virtual_threads.py",
        "self._go.acquire",
    ): "a thread's next turn, the last of which is its end",
    ("simulation/world.py", "task.result"): "of asyncio, which does not wait",
    ("spark/cluster_job.py", "TaskContext.get"): "of Spark, which does not wait",
    ("spark/small_job.py", "Process(partial(abort, sink, batch, wrote)).result"): "who kills it ends it all",
    ("spark/small_job.py", "Process(partial(commit, sink, batch, wrote)).result"): "who kills it ends it all",
    ("spark/small_job.py", "process.result"): "who kills it ends it all",
    (
        "spark/writing/test_exactly_once_model.py",
        "self._turn.acquire",
    ): "an actor's next turn, if any",
    ("spark_cluster.py", "cluster.master.wait"): "a program that goes on until a signal",
    ("spark_cluster.py", "self._child.wait"): "a program that goes on until a signal",
    ("testing/test_replication.py", "waiting[0].result"): "of asyncio, which does not wait",
    ("util/test_promise.py", "one.result"): "of a promise, which does not wait",
    ("util/test_promise.py", "promise.result"): "of a promise, which does not wait",
    ("zookeeper_server.py", "self._child.wait"): "a program that goes on until a signal",
    ("zookeeper_server.py", "server.wait"): "a program that goes on until a signal",
}
"""By their file and what waits: why they need none."""


def test_no_test_waits_without_a_bound() -> None:
    found = {
        (str(file.relative_to(TESTS)), wait.what): f"{file}:{wait.line}"
        for file in sorted(TESTS.rglob("*.py"))
        for wait in unbounded(file.read_text(encoding="utf-8"))
    }
    assert {where: what for what, where in found.items() if what not in WITHOUT_A_BOUND} == {}
    assert WITHOUT_A_BOUND.keys() - found.keys() == set()


@pytest.mark.parametrize(
    "statement",
    [
        "thread.join()",
        "thread.join(60)",
        "self._thread.join(LIMIT_S)",
        "event.wait()",
        "event.wait(60)",
        "event.wait(timeout=60)",
        "await event.wait()",
        "child.wait()",
        "value = future.result()",
        "value = queue.get()",
        "value = await queue.get()",
        "lock.acquire()",
        "out, _ = child.communicate()",
        "out, _ = child.communicate('words')",
        "subprocess.run(words, check=True)",
        "subprocess.check_output(words)",
        "while not done(): time.sleep(0.1)",
        "while not done(): await asyncio.sleep(0)",
        "while True:\n        time.sleep(1)\n        if done(): break",
        "while len(found) < 3: found += consumer.poll(100)",
        "while len(found) < 3: found += consumer.consume(10, 0.2)",
        "while not done(): pass",
        "while (await ask()).error_code: pass",
    ],
)
def test_a_wait_without_a_bound_is_found(statement: str) -> None:
    function = "async def" if "await" in statement else "def"
    (wait,) = unbounded(f"{function} f():\n    {statement}\n")
    assert wait.line == 2


@pytest.mark.parametrize(
    "statement",
    [
        "joined(thread)",
        "words = ', '.join(names)",
        "words = os.path.join(folder)",
        "assert event.wait(60)",
        "stop.wait(0.1)",
        "child.wait(60)",
        "self._children[0].wait(timeout=60)",
        "await within(event.wait(), 'an event')",
        "await asyncio.wait_for(event.wait(), 60)",
        "await asyncio.wait({task})",
        "await asyncio.Event().wait()",
        "async with asyncio.timeout(60):\n        while not done(): await asyncio.sleep(0)",
        "value = future.result(60)",
        "value = future.result(timeout=60)",
        "value = await asked and task.result()",
        "value = queue.get(timeout=60)",
        "value = names.get('a')",
        "child.communicate(timeout=60)",
        "child.communicate('words', 60)",
        "subprocess.run(words, timeout=60)",
        "while not done():\n        assert time.monotonic() < deadline\n        time.sleep(0.1)",
        "while not stop.is_set(): time.sleep(0.1)",
        "while query.step(): pass",
        "while child.poll() is None: child.stdout.read()",
    ],
)
def test_other_statements_are_left_alone(statement: str) -> None:
    function = "async def" if "await" in statement or "async" in statement else "def"
    assert unbounded(f"{function} f():\n    {statement}\n") == []


def test_what_runs_elsewhere_is_not_bounded_by_where_it_stands() -> None:
    source = (
        "async def f():\n    async with asyncio.timeout(1):\n        def g():\n            event.wait()\n"
    )
    assert [wait.what for wait in unbounded(source)] == ["event.wait"]


def _sync(look: Callable[[], Any], *words: Any, **more: Any) -> Any:
    return until(look, *words, every_s=0, **more)


def _async(look: Callable[[], Any], *words: Any, **more: Any) -> Any:
    return asyncio.run(until_async(look, *words, every_s=0, **more))


def _async_look(look: Callable[[], Any], *words: Any, **more: Any) -> Any:
    async def ask() -> Any:
        await asyncio.sleep(0)
        return look()

    return asyncio.run(until_async(ask, *words, every_s=0, **more))


@pytest.mark.parametrize("way", [_sync, _async, _async_look])
def test_what_comes_is_given(way: Callable[..., Any]) -> None:
    numbers = itertools.count()
    assert way(lambda: next(numbers), "a number") == 1
    assert way(lambda: next(numbers), "a number", holds=lambda number: number > 5) == 6


@pytest.mark.parametrize("way", [_sync, _async])
def test_there_is_a_look_after_the_end(way: Callable[..., Any]) -> None:
    assert way(lambda: "here", "what is here", within_s=0) == "here"


@pytest.mark.parametrize("way", [_sync, _async])
def test_what_does_not_come_is_told_with_what_was_there(way: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=r"^waited 0 s in vain for three; instead: 2$"):
        way(lambda: 2, "three", holds=lambda found: found == 3, within_s=0)
    with pytest.raises(AssertionError, match=r"for a leader; instead: \['a', 'b'\]$"):
        way(lambda: None, "a leader", within_s=0, instead=lambda: ["a", "b"])


@pytest.mark.parametrize("way", [_sync, _async])
def test_what_has_no_name_is_told_by_its_source(way: Callable[..., Any]) -> None:
    nobody: list[str] = []
    with pytest.raises(AssertionError, match=r"in vain for .*lambda: nobody.*; instead: \[\]$"):
        way(lambda: nobody, within_s=0)
    with pytest.raises(AssertionError, match=r"in vain for <built-in method .*; instead: False$"):
        way("".isalpha, within_s=0)


def test_polls_are_gathered_until_they_are_enough() -> None:
    polls = iter([["a"], [], ["b", "c"], ["d"]])
    assert gathered(lambda: next(polls), 2, "two") == ["a", "b", "c"]
    left = ["d", "e"]
    assert gathered(lambda: [left.pop()], lambda: not left, "all") == ["e", "d"]
    assert gathered(lambda: [left.pop()], lambda: not left, "all") == []
    with pytest.raises(AssertionError, match=r"for 2 records; instead: 1, at the end \['a'\]$"):
        gathered(iter([["a"]]).__next__, 2, "2 records", within_s=0)


def test_an_awaitable_gives_its_result_or_its_error() -> None:
    async def one(error: BaseException | None = None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 1

    assert asyncio.run(within(one(), "one")) == 1
    # A time-out of its own is not one of the wait.
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(within(one(TimeoutError("its own")), "one"))


def test_an_awaitable_without_end_is_cancelled_and_told() -> None:
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    wait: Awaitable[None] = within(never(), "what never comes", 0)
    with pytest.raises(AssertionError, match="waited 0 s in vain for what never comes; instead: <coroutine"):
        asyncio.run(wait)  # type: ignore[arg-type]
    assert ended == ["cancelled"]


def test_a_thread_that_goes_on_is_told_with_its_place() -> None:
    go_on = threading.Event()

    def stand_still() -> None:
        happened(go_on, "leave to go on")

    thread = threading.Thread(target=stand_still, name="slow one")
    thread.start()
    try:
        with pytest.raises(AssertionError, match=r"(?s)for the end of slow one; instead: .*in stand_still"):
            joined(thread, 0)
    finally:
        go_on.set()
    joined(thread)


def test_an_event_that_does_not_happen_is_told() -> None:
    event = threading.Event()
    with pytest.raises(AssertionError, match="in vain for a sign; instead: "):
        happened(event, "a sign", 0)
    event.set()
    happened(event, "a sign")


def test_a_wait_ends_before_the_test_does(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("timeout")) > WITHIN_S
