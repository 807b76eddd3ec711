"""Long work gives way to others."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker import slices
from odradek.broker.slices import in_slices

from .net import run


def test_little_work_is_done_at_once() -> None:
    async def main() -> None:
        done: list[int] = []
        assert in_slices(asyncio.get_running_loop(), [1, 2, 3], done.append, lambda: sum(done)) == 6
        assert in_slices(asyncio.get_running_loop(), [], done.append, lambda: "empty") == "empty"

    run(main)


def test_much_work_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(slices, "SLICE_S", -1.0)
        loop = asyncio.get_running_loop()
        order: list[object] = []
        future = in_slices(loop, [1, 2, 3], order.append, lambda: "result")
        assert isinstance(future, asyncio.Future) or asyncio.isfuture(future)
        loop.call_soon(order.append, "other")
        assert await future == "result"
        assert order == [1, 2, "other", 3]

    run(main)


def test_a_failure_is_the_futures(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(slices, "SLICE_S", -1.0)

        def work(item: int) -> None:
            if item == 2:
                raise ValueError("item 2")

        future = in_slices(asyncio.get_running_loop(), [1, 2, 3], work, lambda: None)
        assert future is not None
        with pytest.raises(ValueError, match="item 2"):
            await future

    run(main)
