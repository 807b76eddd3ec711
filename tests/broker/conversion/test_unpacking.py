"""Work that unpacks in a thread: bounded by the second, by turns, and given up for peers that have gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from odradek.broker.conversion.unpacking import Unpacking
from odradek.broker.requests.peer import Peer
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers

from ..net import run, settle
from .unpacked import connected


def work(name: str) -> Callable[[], str]:
    return lambda: name


def of(size: int) -> Callable[[str | None], int]:
    return lambda result: size


def test_what_is_unpacked_in_a_second_is_bounded() -> None:
    async def main() -> None:
        clock = ManualClock()
        timers = ManualTimers(clock)
        unpacking = Unpacking(clock, timers, 1_000)
        peer = connected("one")
        # A second's bytes ahead are given; then each waits until those before it are paid for.
        first = unpacking.run(work("a"), of(1_500), peer)
        assert await first == "a"
        second, third = unpacking.run(work("b"), of(500), peer), unpacking.run(work("c"), of(500), peer)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.done() and not third.done()
        timers.advance(499)
        await asyncio.sleep(0)
        assert not second.done()
        timers.advance(1)
        assert await second == "b"
        assert await third == "c"  # it began beside the second
        last = unpacking.run(work("d"), of(0), peer)
        timers.advance(5_000)
        assert await last == "d"
        broken = unpacking.run(lambda: 1 / 0, of(7), peer)
        with pytest.raises(ZeroDivisionError):
            await broken
        waiting = unpacking.run(work("e"), of(9_000), peer)
        assert await waiting == "e"
        dropped = unpacking.run(work("f"), of(1), peer)
        unpacking.stop()
        assert dropped.cancelled()

    run(main)


def test_a_round_of_the_loop_has_room_for_so_much() -> None:
    async def main() -> None:
        clock = ManualClock()
        unpacking = Unpacking(clock, ManualTimers(clock), 0)
        whole = unpacking.room
        unpacking.use_room(700_000)
        unpacking.use_room(700_000)
        assert unpacking.room == 0
        await asyncio.sleep(0)
        assert unpacking.room == whole
        unpacking.use_room(1)
        assert unpacking.room == whole - 1

    run(main)


def test_peers_have_their_work_unpacked_by_turns() -> None:
    """One that sends much at once does not hold up those that send little."""

    async def main() -> None:
        clock = ManualClock()
        timers = ManualTimers(clock)
        unpacking = Unpacking(clock, timers, 1_000)
        many, few = connected("many"), connected("few")
        await unpacking.run(work("first"), of(2_000), many)
        done: list[str] = []

        def ask(name: str, peer: Peer) -> asyncio.Future[str]:
            return unpacking.run(lambda: done.append(name) or name, of(1_000), peer)

        asked = [ask(f"many-{number}", many) for number in range(20)] + [ask("few", few)]
        for _ in asked:
            timers.advance(1_000)
            await settle(lambda: not unpacking.is_busy)
        assert await asyncio.gather(*asked)
        assert done.index("few") <= 3
        assert [name for name in done if name != "few"] == [f"many-{number}" for number in range(20)]

    run(main)


def test_the_work_of_peers_that_have_gone_is_left_and_costs_nobody() -> None:
    async def main() -> None:
        clock = ManualClock()
        timers = ManualTimers(clock)
        unpacking = Unpacking(clock, timers, 1_000)
        here = connected("here")
        await unpacking.run(work("first"), of(3_000), here)
        gone = [connected(f"gone-{number}") for number in range(100)]
        left = [unpacking.run(work("never"), of(1_000), peer) for peer in gone]
        asked = unpacking.run(work("asked"), of(1_000), here)
        for peer in gone:
            peer.is_open = False
        # What they sent is let go of when others come, not only when its turn would be.
        more = [connected(f"more-{number}") for number in range(150)]
        waiting = [unpacking.run(work("later"), of(0), peer) for peer in more]
        assert all(future.cancelled() for future in left)
        timers.advance(2_000)
        assert await asked == "asked"
        timers.advance(1_000)
        assert set(await asyncio.gather(*waiting)) == {"later"}

    run(main)
