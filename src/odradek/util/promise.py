# compiled: mypyc
"""A result that comes later, told to whoever waits at the moment when it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Generic, TypeVar, final

from odradek.util.futures import pass_on

R = TypeVar("R")


@final
class Promise(Generic[R]):
    """A future like asyncio's, but that its callbacks are called at once, not in the loop's next turn.

    Answers that one event makes possible are made while it is being worked on, and can leave together; a
    future costs each of them a callback in the loop's next turn. Whoever sets a result has to be ready for
    what the callbacks do.
    """

    __slots__ = ("_callbacks", "_error", "_is_cancelled", "_loop", "_result")

    #: By which `asyncio.isfuture` knows its kind.
    _asyncio_future_blocking: ClassVar[bool] = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """
        Args:
            loop: is told of a callback that fails.
        """
        self._loop = loop
        self._callbacks: list[Callable[[Any], object]] | None = []
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_cancelled = False

    def done(self) -> bool:
        """Return whether it has ended, in whichever way."""
        return self._callbacks is None

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._is_cancelled

    def result(self) -> R:
        """Return what came of it.

        Raises:
            asyncio.CancelledError: it was cancelled.
            asyncio.InvalidStateError: nothing yet.
            BaseException: the error that it ended with.
        """
        error = self.exception()
        if error is not None:
            raise error
        result: R = self._result
        return result

    def exception(self) -> BaseException | None:
        """The error that it ended with, if any.

        Raises:
            asyncio.CancelledError, asyncio.InvalidStateError: as `result`.
        """
        if self._is_cancelled:
            raise asyncio.CancelledError
        if self._callbacks is not None:
            raise asyncio.InvalidStateError("nothing has come of it yet")
        return self._error

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in whose thread it is used."""
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call a function with this promise when it ends; at once, if it has ended."""
        if self._callbacks is None:
            self._call(callback)
        else:
            self._callbacks.append(callback)

    def set_result(self, result: R) -> None:
        """End with a result.

        Raises:
            asyncio.InvalidStateError: it has ended.
        """
        self._require_open()
        self._result = result
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """End with an error.

        Raises:
            asyncio.InvalidStateError: it has ended.
        """
        self._require_open()
        self._error = error
        self._end()

    def cancel(self) -> bool:
        """End without anything; false where it has ended."""
        if self._callbacks is None:
            return False
        self._is_cancelled = True
        self._end()
        return True

    def __await__(self) -> Generator[Any, None, R]:
        """Wait as for a future, which takes a turn of the loop."""
        future: asyncio.Future[R] = self._loop.create_future()
        pass_on(self, future)
        return future.__await__()

    def _require_open(self) -> None:
        if self._callbacks is None:
            raise asyncio.InvalidStateError("it has ended before")

    def _end(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        assert callbacks is not None
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Any], object]) -> None:
        try:
            callback(self)
        except Exception as error:
            # As with a future: the others are called, and whoever has set the result does not notice.
            self._loop.call_exception_handler(
                {"message": "a callback of a promise failed", "exception": error}
            )


def promised(future: asyncio.Future[R]) -> Promise[R]:
    """Return a promise that ends as a future does, in the turn of the loop in which its callbacks are called.

    By this the futures and tasks of asyncio become what a handler may return
    (`odradek.broker.requests.handler_types.Handled`).
    """
    promise: Promise[R] = Promise(future.get_loop())
    pass_on(future, promise)
    return promise


def promised_if_future(outcome: Any) -> Any:
    """Return what has come at once as it is, and a future of it as a promise; see `promised`."""
    return promised(outcome) if isinstance(outcome, asyncio.Future) else outcome
