"""A chain of futures ends, however its links end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.util.futures import once_done, pass_on, then


def run(main: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await main(asyncio.get_running_loop())

    asyncio.run(whole())


@pytest.mark.parametrize("early", [True, False])
def test_a_result_goes_through_the_function(early: bool) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first: asyncio.Future[int] = loop.create_future()
        if early:
            first.set_result(1)
        after = then(first, lambda one: one + 1)
        if not early:
            first.set_result(1)
        assert await after == 2

    run(main)


def test_a_future_that_the_function_returns_is_waited_for() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first: asyncio.Future[int] = loop.create_future()
        second: asyncio.Future[int] = loop.create_future()
        after = then(first, lambda _: second)
        first.set_result(1)
        await asyncio.sleep(0)
        assert not after.done()
        second.set_result(2)
        assert await after == 2

    run(main)


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("how", ["error", "cancelled"])
def test_what_ends_without_a_result_ends_the_chain(which: str, how: str) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first: asyncio.Future[int] = loop.create_future()
        second: asyncio.Future[int] = loop.create_future()
        called: list[int] = []

        def go_on(one: int) -> asyncio.Future[int]:
            called.append(one)
            return second

        after = then(first, go_on)
        if which == "second":
            first.set_result(1)
        ended = first if which == "first" else second
        if how == "error":
            ended.set_exception(KeyError("x"))
        else:
            ended.cancel()
        await asyncio.wait([after])
        assert after.cancelled() == (how == "cancelled")
        if how == "error":
            assert isinstance(after.exception(), KeyError)
        assert called == ([1] if which == "second" else [])

    run(main)


def test_an_exception_out_of_the_function_is_the_futures() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first: asyncio.Future[int] = loop.create_future()
        after = then(first, lambda one: one // 0)
        first.set_result(1)
        with pytest.raises(ZeroDivisionError):
            await after

    run(main)


def test_nothing_is_done_for_one_who_does_not_wait_any_more() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        unforeseen: list[Any] = []
        loop.set_exception_handler(lambda _, context: unforeseen.append(context))
        for how in ("result", "error", "cancelled", "later"):
            first: asyncio.Future[int] = loop.create_future()
            second: asyncio.Future[int] = loop.create_future()
            called: list[int] = []

            def go_on(
                one: int, called: list[int] = called, second: asyncio.Future[int] = second
            ) -> asyncio.Future[int]:
                called.append(one)
                return second

            after = then(first, go_on)
            if how == "later":
                first.set_result(1)
                await asyncio.sleep(0)
            after.cancel()
            if how == "result":
                first.set_result(1)
            elif how == "error":
                first.set_exception(KeyError("x"))
            elif how == "cancelled":
                first.cancel()
            else:
                second.set_result(2)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert called == ([1] if how == "later" else [])
            assert after.cancelled()
        assert not unforeseen

    run(main)


@pytest.mark.parametrize("end", ["result", "error", "cancelled"])
def test_a_future_ends_as_another_one_does(end: str) -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first: asyncio.Future[int] = loop.create_future()
        after: asyncio.Future[int] = loop.create_future()
        given_up: asyncio.Future[int] = loop.create_future()
        given_up.cancel()
        for one in (after, given_up):
            pass_on(first, one)
        if end == "result":
            first.set_result(3)
        elif end == "error":
            first.set_exception(ValueError("no"))
        else:
            first.cancel()
        await asyncio.wait([after])
        if end == "result":
            assert after.result() == 3
        elif end == "error":
            assert isinstance(after.exception(), ValueError)
        else:
            assert after.cancelled()

    run(main)


@pytest.mark.parametrize("chain", [then, lambda first, function: once_done(first, lambda: function(None))])
def test_an_error_that_a_future_does_not_take_ends_the_chain_all_the_same(chain: Any) -> None:
    """Asyncio refuses `StopIteration`: the future of whoever waits would never end."""

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first: asyncio.Future[int] = loop.create_future()
        after = chain(first, lambda _: next(iter(())))
        first.set_result(1)
        await asyncio.sleep(0)
        assert after.done()
        assert isinstance(after.exception(), RuntimeError)
        assert isinstance(after.exception().__cause__, StopIteration)

    run(main)


def test_a_function_whose_waiters_go_meanwhile_may_fail() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        told: list[Any] = []
        loop.set_exception_handler(lambda loop, context: told.append(context))
        first: asyncio.Future[int] = loop.create_future()

        def fail(_: int) -> None:
            after.cancel()
            raise ValueError("nobody waits")

        after = then(first, fail)
        first.set_result(1)
        await asyncio.sleep(0)
        assert after.cancelled()
        assert told == []

    run(main)
