"""Results on their way from a loop to a thread: whatever ends the loop, whoever waits is told."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from odradek.client.errors import ClosedError, IllegalStateError
from odradek.client.sync.loop_thread import LoopThread
from waiting import joined


async def give(value: int) -> int:
    return value


async def fail() -> int:
    raise TimeoutError("of the work")


def test_results_and_errors() -> None:
    thread = LoopThread("test")
    assert thread.submit(give(5)).result(60) == 5
    with pytest.raises(TimeoutError, match="of the work"):
        thread.run(fail())
    assert thread.call(lambda: threading.get_ident()) != threading.get_ident()
    never = thread.submit(asyncio.sleep(3600))
    with pytest.raises(TimeoutError):
        never.result(0)
    thread.stop()
    with pytest.raises(ClosedError, match="closed meanwhile"):
        never.result(60)
    with pytest.raises(ClosedError):
        thread.run(give(5))


def test_the_thread_does_not_wait_for_itself() -> None:
    thread = LoopThread("test")

    def inside() -> str:
        assert thread.call(int) == 0
        with pytest.raises(IllegalStateError, match="would never return") as refused:
            thread.run(give(5))
        return str(refused.value)

    assert "I/O thread" in thread.call(inside)
    thread.stop()


def test_what_ends_the_loop_ends_all_that_waits() -> None:
    thread = LoopThread("test")
    waiting = [thread.submit(asyncio.sleep(3600)) for _ in range(3)]
    thread.call_soon(thread.loop.stop)
    for call in waiting:
        with pytest.raises(ClosedError):
            call.result(60)
    thread.stop()


@pytest.mark.parametrize("round_", range(20))
def test_what_is_submitted_while_the_loop_ends_is_told(round_: int) -> None:
    """Whether the loop still takes it or not: it ends, and no coroutine is left that nobody awaited."""
    thread = LoopThread("test")
    ends: list[str] = []

    def submit() -> None:
        while not ends:
            try:
                thread.submit(give(5)).result(60)
            except ClosedError as problem:
                ends.append(str(problem))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for one in threads:
        one.start()
    thread.stop()
    for one in threads:
        joined(one)
    assert len(ends) >= 1
    # A coroutine that nobody awaited would be told of here.
    gc.collect()
