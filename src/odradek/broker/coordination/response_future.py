"""Responses of a coordinator. They come through a callback: at once, or when something has been committed."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from odradek.util.promise import Promise

R = TypeVar("R")


class ResponseFuture(Generic[R]):
    """Bridges the coordinator's callback to a handler's return value: the response, or a promise of it."""

    __slots__ = ("_promise", "_response")

    def __init__(self) -> None:
        self._response: R | None = None
        self._promise: Promise[R] | None = None

    def deliver(self, response: R) -> None:
        """Take the response. The coordinator calls this, once."""
        promise = self._promise
        if promise is None:
            self._response = response
        else:
            # In the next turn of the loop, as a coordinator delivers amid its changes and the answer may have
            # the connection's next request taken up.
            promise.get_loop().call_soon(_end, promise, response)

    def result(self, loop: asyncio.AbstractEventLoop) -> R | Promise[R]:
        """The response if it has come already, else a promise of it."""
        if self._response is not None:
            return self._response
        self._promise = Promise(loop)
        return self._promise


def _end(promise: Promise[R], response: R) -> None:
    if not promise.done():
        promise.set_result(response)
