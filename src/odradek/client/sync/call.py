"""`Call`: a coroutine's result on its way from the loop to whoever waits for it in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from odradek.util.interruptible import Bell

T = TypeVar("T")


class Call(Generic[T]):
    """A `concurrent.futures.Future` without its lock: see `odradek.util.interruptible`.

    Args:
        cancel: has the coroutine cancelled, in its loop.
    """

    __slots__ = ("_cancel", "_done", "_problem", "_value", "_waiting", "is_cancelled", "task")

    def __init__(self, cancel: Callable[[Call[T]], None]) -> None:
        self.task: asyncio.Task[T] | None = None
        """Made in the loop."""
        self.is_cancelled = False
        self._cancel = cancel
        self._done = False
        self._value: Any = None
        self._problem: BaseException | None = None
        self._waiting: list[Bell] = []

    def settle(self, value: Any, problem: BaseException | None) -> None:
        """Give the result, or the error where there is one. What comes later is nothing."""
        if self._done:
            return
        self._value, self._problem = value, problem
        self._done = True
        for bell in list(self._waiting):
            bell.ring()

    def done(self) -> bool:
        """Return whether the result is here."""
        return self._done

    def ring_when_done(self, bell: Bell) -> None:
        """Ring once it is done; at once if it is."""
        self._waiting.append(bell)
        if self._done:
            bell.ring()

    def cancel(self) -> None:
        """Give the coroutine up; who waits sees it end as it ends then."""
        if not self._done:
            self.is_cancelled = True
            self._cancel(self)

    def result(self, timeout_s: float | None = None) -> T:
        """Wait for the result and return it, or raise the coroutine's error.

        Raises:
            TimeoutError: there is none in time.
        """
        if not self._done:
            bell = Bell()
            self.ring_when_done(bell)
            if not bell.wait(timeout_s) and not self._done:
                raise TimeoutError
        if self._problem is not None:
            raise self._problem
        value: T = self._value
        return value
