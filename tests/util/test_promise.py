"""A promise tells who waits for it at the moment when it ends, and is asyncio's kind of future otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.util.futures import pass_on
from odradek.util.promise import Promise

Ends = Callable[[Any], object]


def run(main: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await main(asyncio.get_running_loop())

    asyncio.run(whole())


def what_came(promise: Any) -> object:
    try:
        return promise.result()
    except (ValueError, asyncio.CancelledError) as error:
        return type(error)


ENDS: dict[str, tuple[Ends, object]] = {
    "result": (lambda one: one.set_result(7), 7),
    "error": (lambda one: one.set_exception(ValueError("bad")), ValueError),
    "cancelled": (lambda one: one.cancel(), asyncio.CancelledError),
}


@pytest.mark.parametrize("how", ENDS)
def test_callbacks_are_called_at_once_and_in_order(how: str) -> None:
    end, expected = ENDS[how]

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        promise = Promise(loop)
        told: list[object] = []
        promise.add_done_callback(lambda one: told.append(what_came(one)))
        promise.add_done_callback(lambda one: told.append("second"))
        assert not promise.done()
        assert promise.get_loop() is loop
        end(promise)
        assert told == [expected, "second"]
        assert promise.done()
        assert promise.cancelled() == (how == "cancelled")
        promise.add_done_callback(lambda one: told.append("late"))
        assert told[2:] == ["late"]

    run(main)


@pytest.mark.parametrize("how", ENDS)
def test_it_can_be_awaited_and_passed_on_like_a_future(how: str) -> None:
    end, expected = ENDS[how]

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        first, second = Promise(loop), Promise(loop)
        assert asyncio.isfuture(first)
        pass_on(first, second)
        loop.call_soon(end, first)
        try:
            came: object = await second
        except (ValueError, asyncio.CancelledError) as error:
            came = type(error)
        assert came == expected

    run(main)


def test_it_ends_once() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        promise = Promise(loop)
        with pytest.raises(asyncio.InvalidStateError):
            promise.result()
        promise.set_result(1)
        for again in (promise.set_result, promise.set_exception):
            with pytest.raises(asyncio.InvalidStateError):
                again(ValueError())  # type: ignore[operator]
        assert not promise.cancel()
        assert promise.result() == 1

    run(main)


def test_a_callback_that_fails_is_told_to_the_loop_and_the_others_are_called() -> None:
    async def main(loop: asyncio.AbstractEventLoop) -> None:
        problems: list[Any] = []
        loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
        promise = Promise(loop)
        told: list[int] = []
        error = ValueError("bad")

        def fail(_: object) -> None:
            raise error

        promise.add_done_callback(fail)
        promise.add_done_callback(lambda one: told.append(one.result()))
        promise.set_result(1)
        assert (told, problems) == ([1], [error])

    run(main)
