"""Futures that wait for futures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Awaited(Protocol[T_co]):
    """The methods that a future of asyncio's and a `odradek.util.promise.Promise` have in common."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop in whose thread it is used."""
        ...

    def result(self) -> T_co:
        """Return what came of it, or raise what did."""
        ...

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        ...

    def exception(self) -> BaseException | None:
        """Return the error that it ended with, if any."""
        ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Call a function when it has ended."""
        ...


def then(first: Awaited[T], function: Callable[[T], Any]) -> asyncio.Future[Any]:
    """Return a future of what `function` makes of the result of `first`.

    Nothing that happens on the way leaves the returned future undone:

    - An error or the cancellation of `first` is passed on; `function` is not called then.
    - An exception out of `function` becomes the returned future's.
    - Where `function` returns a future, its result, error or cancellation is waited for and passed on.

    When the returned future is cancelled, nobody waits for the result: `function` is not called any more.
    """
    after: asyncio.Future[Any] = first.get_loop().create_future()

    def go_on(done: Any) -> None:
        if _failed(done, after) or after.done():
            return
        _end_as(lambda: function(done.result()), after)

    first.add_done_callback(go_on)
    return after


def once_done(first: asyncio.Future[Any], function: Callable[[], Any]) -> asyncio.Future[Any]:
    """Return a future of what `function` returns once `first` has ended, in whichever way.

    What became of `first` is for `function` to look at. An exception out of `function` becomes the returned
    future's, and `CancelledError` its cancellation; a future that it returns is waited for. When the returned
    future is cancelled, `function` is not called any more.
    """
    after: asyncio.Future[Any] = first.get_loop().create_future()

    def go_on(done: asyncio.Future[Any]) -> None:
        if after.done():
            error_of(done)  # so that asyncio does not log that nobody has asked for it
            return
        _end_as(function, after)

    first.add_done_callback(go_on)
    return after


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait until `work` has ended, also where the wait is cancelled meanwhile, once or more often.

    Raises:
        asyncio.CancelledError: the wait was cancelled; after the end.
    """
    ending = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.wait([ending])
        except asyncio.CancelledError as error:
            cancelled = error
    ending.result()
    if cancelled is not None:
        raise cancelled


def error_of(done: Awaited[Any]) -> BaseException | None:
    """Return what a future that has ended has instead of a result: its error, or `CancelledError`; None where
    it has one. For callbacks, in which `Future.exception` would raise for one that was cancelled.

    Whoever asks has heard of the error: asyncio logs those that nobody has asked for.
    """
    return asyncio.CancelledError() if done.cancelled() else done.exception()


def _end_as(function: Callable[[], Any], after: asyncio.Future[Any]) -> None:
    """Let a future end as a call does, or as the future that the call returns."""
    try:
        outcome = function()
    except asyncio.CancelledError:
        after.cancel()
    except Exception as error:
        if after.done():
            return  # whoever waited has gone meanwhile
        if isinstance(error, StopIteration):
            # No future takes it: its own would never end.
            wrapped = RuntimeError("StopIteration out of a function that a future waits for")
            wrapped.__cause__ = error
            error = wrapped
        after.set_exception(error)
    else:
        if isinstance(outcome, asyncio.Future) or asyncio.isfuture(outcome):
            pass_on(outcome, after)
        elif not after.done():
            after.set_result(outcome)


def pass_on(first: Any, after: Any) -> None:
    """Let a future end as another one does: with its result, its error, or its cancellation.

    Either may be a `odradek.util.promise.Promise`.
    """

    first.add_done_callback(lambda done: end_like(done, after))


def end_like(done: Any, after: Any) -> None:
    """Let a future end as one that has ended; nothing where it has ended itself meanwhile.

    Either may be a `odradek.util.promise.Promise`.
    """
    if not _failed(done, after) and not after.done():
        after.set_result(done.result())


def _failed(done: asyncio.Future[Any], after: asyncio.Future[Any]) -> bool:
    """Return whether a future has no result; what it has instead is passed on."""
    if done.cancelled():
        after.cancel()
        return True
    error = done.exception()
    if error is None:
        return False
    if not after.done():
        after.set_exception(error)
    return True
