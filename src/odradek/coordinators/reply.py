"""An answer that is owed: what a command gets instead of a future."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from odradek.errors import ErrorCode

R = TypeVar("R")


class Reply(Generic[R]):
    """One request's answer, given exactly once; whatever comes after the first is dropped.

    Args:
        deliver: takes the response; called at most once.
        on_error: makes the response that carries an error code in the request's own form.
    """

    __slots__ = ("_deliver", "_on_error", "answered")

    def __init__(self, deliver: Callable[[R], None], on_error: Callable[[ErrorCode], R]) -> None:
        self._deliver = deliver
        self._on_error = on_error
        self.answered = False

    def answer(self, response: R) -> None:
        """Give the response."""
        if not self.answered:
            self.answered = True
            self._deliver(response)

    def error_response(self, error: ErrorCode) -> R:
        """The response that says `error`."""
        return self._on_error(error)

    def fail(self, error: ErrorCode) -> None:
        """Give the response that says `error`."""
        if not self.answered:
            self.answer(self._on_error(error))
