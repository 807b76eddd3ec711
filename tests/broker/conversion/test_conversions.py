"""Conversions in threads keep the order of what is appended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.conversion.conversions import Conversions
from waiting import until_async


@pytest.mark.parametrize("fails", [False, True])
def test_a_key_is_busy_until_whoever_asked_has_had_the_result(fails: bool) -> None:
    """What comes between the end of the work and the append of its result must wait for that append."""

    async def main() -> None:
        conversions = Conversions()
        work: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        conversions.run = lambda _: work  # type: ignore[assignment, method-assign]
        appended: list[str] = []
        result = conversions.run_in_order(["t"], lambda: None)

        def append(done: asyncio.Future[Any]) -> None:
            done.exception()
            appended.append("first")

        result.add_done_callback(append)
        seen: list[tuple[int, bool]] = []
        # A request that the loop takes up right behind the end of the work.
        work.add_done_callback(lambda _: seen.append((len(appended), conversions.is_busy(["t"]))))
        if fails:
            work.set_exception(ValueError())
        else:
            work.set_result(None)
        await until_async(lambda: appended, "the append behind the conversion", every_s=0)
        assert seen == [(0, True)]
        await asyncio.sleep(0)
        assert not conversions.is_busy(["t"])

    asyncio.run(main())
