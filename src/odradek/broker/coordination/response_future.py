"""Responses of a coordinator. They come through a callback: at once, or when something has been committed."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

R = TypeVar("R")


class ResponseFuture(Generic[R]):
    """Bridges the coordinator's callback to a handler's return value: the response, or a future of it."""

    __slots__ = ("_future", "_response")

    def __init__(self) -> None:
        self._response: R | None = None
        self._future: asyncio.Future[R] | None = None

    def deliver(self, response: R) -> None:
        """Take the response. The coordinator calls this, once."""
        future = self._future
        if future is None:
            self._response = response
        elif not future.done():
            # A peer that has gone took its future with it.
            future.set_result(response)

    def result(self, loop: asyncio.AbstractEventLoop) -> R | asyncio.Future[R]:
        """The response if it has come already, else a future of it."""
        if self._response is not None:
            return self._response
        self._future = loop.create_future()
        return self._future
