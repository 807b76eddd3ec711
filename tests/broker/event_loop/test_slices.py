"""Long work gives way to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.event_loop import slices
from odradek.broker.event_loop.slices import (
    SLICE_S,
    Slicer,
    Steps,
    each,
    in_order,
    take_all,
    take_apart,
    take_or_wait,
)
from odradek.util.promise import Promise
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from waiting import until_async

from ..net import run


class Clock:
    """Moved by the work itself."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steps(done: list[Any], name: str, count: int, pass_time: Callable[[], None]) -> Steps[str]:
    for number in range(count):
        done.append(f"{name}{number}")
        pass_time()
        yield
    return name


def in_a_loop(test: Callable[[Slicer, list[Any], Callable[[], None]], Any]) -> None:
    """Each step of work takes 0.6 of a slice: a slice has two of them."""

    async def main() -> None:
        clock = Clock()

        def pass_time() -> None:
            clock.now += 0.6 * SLICE_S

        await test(Slicer(clock), [], pass_time)

    run(main)


def test_little_work_is_done_at_once() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        assert slicer.run(steps(done, "a", 1, pass_time)) == "a"
        assert slicer.run(each([1, 2], lambda n: n + 1)) == [2, 3]
        assert slicer.run(each([], str)) == []
        assert not slicer.is_busy

    in_a_loop(main)


def test_much_work_lets_others_have_their_turn() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        busy: list[bool] = []
        slicer.on_busy = busy.append
        future = slicer.run(steps(done, "a", 5, pass_time))
        assert isinstance(future, asyncio.Future) or asyncio.isfuture(future)

        def others() -> None:
            if slicer.is_busy:
                done.append("others")
                loop.call_soon(others)

        loop.call_soon(others)
        assert await future == "a"
        assert done == ["a0", "a1", "a2", "a3", "others", "a4"]
        assert busy == [True, False]

    in_a_loop(main)


def test_work_in_slices_takes_turns_and_work_of_large_frames_goes_one_by_one() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        working = [
            slicer.run(steps(done, "A", 4, pass_time), large=True),
            slicer.run(steps(done, "B", 2, pass_time), large=True),
            # Others are waiting by now: the first slice ends at the first pause.
            slicer.run(steps(done, "c", 5, pass_time)),
            slicer.run(steps(done, "d", 3, pass_time)),
        ]
        assert done == ["c0", "d0"]
        assert await asyncio.gather(*working) == ["A", "B", "c", "d"]
        assert done[2:] == ["A0", "A1", "c1", "c2", "A2", "A3", "d1", "d2", "c3", "c4", "B0", "B1"]

    in_a_loop(main)


class Visitor:
    """Has things to do that each take 0.6 of a slice, as a connection with many requests does."""

    def __init__(self, slicer: Slicer, name: str, count: int, done: list[Any], pass_time: Any) -> None:
        self.slicer = slicer
        self.name = name
        self.left = count
        self._done = done
        self._pass_time = pass_time

    def come(self) -> None:
        """Have a look whether it may be done now, as for what is read from a socket."""
        until = self.slicer.begin_slice()
        if self.slicer.is_over(until):
            self.slicer.wait_turn(self.go_on, again=False)
        else:
            self.go_on()

    def go_on(self) -> None:
        until = self.slicer.begin_slice()
        while self.left:
            self.left -= 1
            self._done.append(self.name)
            self._pass_time()
            if self.left and self.slicer.is_over(until):
                self.slicer.wait_turn(self.go_on, again=True)
                return


def test_a_round_of_the_loop_has_one_slice_for_all_who_come() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        for name in "abcde":
            Visitor(slicer, name, 4, done, pass_time).come()
        assert done == ["a", "a"]
        rounds = []
        for _ in range(10):
            before = len(done)
            await asyncio.sleep(0)
            rounds.append(len(done) - before)
        # Never more than a slice's work in a round, and work in each until all is done.
        assert rounds == [2] * 9 + [0]
        # Those who have not had a turn come before those who have, and all get on.
        assert set(done[:10]) == set("abcde")
        assert sorted(done) == sorted("abcde" * 4)

    in_a_loop(main)


def test_who_comes_new_does_not_wait_for_all_who_come_again() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        for number in range(20):
            Visitor(slicer, f"hostile-{number}", 50, done, pass_time).come()
        await until_async(lambda: len(done) >= 60, "turns of the hostile", every_s=0)
        slicer.is_over(slicer.begin_slice())
        before = len(done)
        Visitor(slicer, "honest", 1, done, pass_time).come()
        await until_async(lambda: "honest" in done, "the honest one's turn", every_s=0)
        assert len(done) - before <= 6

    in_a_loop(main)


def test_those_who_come_again_get_on_while_others_come() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        Visitor(slicer, "old", 10, done, pass_time).come()
        for number in range(30):
            Visitor(slicer, f"new-{number}", 1, done, pass_time).come()
            Visitor(slicer, f"other-{number}", 1, done, pass_time).come()
            await asyncio.sleep(0)
        assert done.count("old") == 10

    in_a_loop(main)


def test_a_failure_is_raised_or_is_the_futures() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        def failing(count: int) -> Steps[None]:
            yield from steps(done, "a", count, pass_time)
            raise ValueError("item")

        with pytest.raises(ValueError, match="item"):
            slicer.run(failing(1))
        future: Any = slicer.run(failing(4))
        other: Any = slicer.run(steps(done, "b", 4, pass_time))
        with pytest.raises(ValueError, match="item"):
            await future
        assert await other == "b"
        assert not slicer.is_busy

    in_a_loop(main)


def test_work_that_is_cancelled_holds_up_no_other() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        awaited = asyncio.get_running_loop().create_future()

        def waiting() -> Steps[None]:
            yield from steps(done, "a", 4, pass_time)
            yield awaited
            awaited.result()

        future: Any = slicer.run(waiting())
        other: Any = slicer.run(steps(done, "b", 9, pass_time))
        awaited.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert future.cancelled()
        assert (other.done(), slicer.is_busy) == (True, False)
        # What comes later is begun.
        later: Any = slicer.run(steps(done, "c", 9, pass_time))
        for _ in range(100):
            await asyncio.sleep(0)
        assert later.done()

    in_a_loop(main)


def test_work_that_begins_other_work_is_not_run_twice_in_a_turn() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        begun: list[Any] = []

        def outer() -> Steps[str]:
            begun.append(slicer.run(steps(done, "inner", 3, pass_time)))
            yield from steps(done, "outer", 3, pass_time)
            return "outer"

        future: Any = slicer.run(outer())
        assert await future == "outer"
        assert await begun[0] == "inner"
        assert sorted(done) == sorted(f"{who}{n}" for who in ("inner", "outer") for n in range(3))

    in_a_loop(main)


@pytest.mark.parametrize("count", [0, 1, 4_096, 4_097, 20_000])
def test_names_are_sorted_in_pieces(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{number * 7_919 % 10_007}" for number in range(count)]
    longest = 0

    def sorted_(items: list[str]) -> list[str]:
        nonlocal longest
        longest = max(longest, len(items))
        return sorted(items)

    monkeypatch.setattr(slices, "sorted", sorted_, raising=False)
    assert take_all(in_order(names)) == sorted(names)
    assert longest <= 4_096
    assert sum(1 for _ in in_order(names)) >= count // 4_096


def test_a_message_is_taken_apart_in_pieces() -> None:
    partitions = [MetadataResponsePartition(partition_index=n) for n in range(1_000)]
    topics = [MetadataResponseTopic(name="large", partitions=partitions)]
    topics += [MetadataResponseTopic(name=f"t{n}", partitions=[]) for n in range(600)]
    response = MetadataResponse(topics=topics)
    held = partitions[0]
    pauses = sum(1 for _ in take_apart(response))
    assert pauses >= 1_000 // 256 + 600 // 256
    assert len(topics) <= 256
    assert not partitions or len(partitions) <= 256
    assert held.partition_index == 0


def test_short_lists_are_left_alone() -> None:
    """They may be somebody's own."""
    topics = [MetadataResponseTopic(name="t", partitions=[])]
    response = MetadataResponse(topics=topics)
    assert len(list(take_apart(response))) <= 1
    assert len(topics) == 1


def test_who_fails_in_its_turn_keeps_nobody_waiting() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: told.append(context["exception"])
        )

        def fail() -> None:
            raise RuntimeError("on purpose")

        slicer.wait_turn(fail, again=False)
        slicer.wait_turn(Visitor(slicer, "after it", 1, done, pass_time).go_on, again=False)
        await until_async(lambda: done, "the turn of who came after it", every_s=0)
        assert [str(problem) for problem in told] == ["on purpose"]

    in_a_loop(main)


def test_steps_whose_promise_was_cancelled_do_not_go_on() -> None:
    async def main(slicer: Slicer, done: list[Any], pass_time: Callable[[], None]) -> None:
        awaited = asyncio.get_running_loop().create_future()

        def waiting() -> Steps[str]:
            yield awaited
            done.append("went on")
            return "answer"

        promise = take_or_wait(waiting())
        assert isinstance(promise, Promise)
        promise.cancel()
        awaited.set_result(None)
        await asyncio.sleep(0)
        assert promise.cancelled()
        assert not done

    in_a_loop(main)
