"""Conversions for one partition are appended one after another."""

from __future__ import annotations

import asyncio

from odradek.broker.conversion.conversions import Conversions
from odradek.broker.event_loop.slices import Steps, take_or_wait
from waiting import until_async

KEY = ("t", 0)


def test_one_comes_after_the_other() -> None:
    """What comes between the end of a turn and those who wait for it waits, too."""

    async def main() -> None:
        conversions = Conversions()
        appended: list[str] = []
        held: dict[str, asyncio.Future[None]] = {}

        def convert(name: str) -> Steps[None]:
            yield from conversions.come(KEY)
            conversions.take_turn(KEY)
            held[name] = asyncio.get_running_loop().create_future()
            yield held[name]
            appended.append(name)
            conversions.give_turn(KEY)

        running = [take_or_wait(convert("first")), take_or_wait(convert("second"))]
        assert list(held) == ["first"]
        held["first"].set_result(None)
        await until_async(lambda: appended, "the first append", every_s=0)
        running.append(take_or_wait(convert("third")))
        for _ in range(20):
            waiting = [one for one in held.values() if not one.done()]
            assert len(waiting) <= 1
            for one in waiting:
                one.set_result(None)
            await asyncio.sleep(0)
        assert sorted(appended) == ["first", "second", "third"]
        assert appended[0] == "first"
        for one in running:
            if one is not None:
                await one
        assert not conversions.latest

    asyncio.run(main())


def test_other_partitions_are_not_waited_for() -> None:
    async def main() -> None:
        conversions = Conversions()
        conversions.take_turn(KEY)
        assert list(conversions.come(("t", 1))) == []
        conversions.give_turn(KEY)
        assert list(conversions.come(KEY)) == []

    asyncio.run(main())
