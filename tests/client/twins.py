"""The clients for threads and for coroutines behind one face, so that a test asks both of the same."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from odradek.client import AsyncConsumer, AsyncProducer, Consumer, Producer

FACES = ["threads", "coroutines"]
_ASYNC = {Consumer: AsyncConsumer, Producer: AsyncProducer}


class Twin:
    """A client whose methods are called where they may be, and waited for.

    Args:
        client: either of the two.
        call: calls a function, in the client's loop if it has one, and waits for a coroutine.
    """

    def __init__(self, client: Any, call: Callable[[Callable[[], Any]], Any]) -> None:
        self.client = client
        self._call = call

    def turn(self) -> None:
        """Let the loop of coroutines do what is due."""
        self._call(lambda: asyncio.sleep(0))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **more: self._call(lambda: getattr(self.client, name)(*args, **more))


@contextmanager
def twin(face: str, kind: type, *args: Any, **configs: Any) -> Iterator[Twin]:
    """The client of a face, closed in the end.

    Args:
        face: one of `FACES`.
        kind: `Consumer` or `Producer`.
    """
    if face == "threads":
        with kind(*args, **configs) as client:
            yield Twin(client, _called)
        return

    async def call(function: Callable[[], Any]) -> Any:
        result = function()
        # A delivery's future can be awaited, too, and need not be.
        return await result if inspect.iscoroutine(result) else result

    with asyncio.Runner() as runner:
        client = _ASYNC[kind](*args, **configs)
        try:
            yield Twin(client, lambda function: runner.run(call(function)))
        finally:
            runner.run(client.close())


def _called(function: Callable[[], Any]) -> Any:
    result = function()
    if inspect.iscoroutine(result):
        result.close()  # a turn of a loop that goes on by itself
        return None
    return result
