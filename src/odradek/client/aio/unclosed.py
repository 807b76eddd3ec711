"""A client for coroutines that nobody closed: it tells so, once, and lets go of what it holds.

While its loop runs, a client that was let go of is closed there. A client that is still there when the loop
ends is closed by the last thing that happens in it: asyncio.run, and what is like it, closes the asynchronous
generators that have not ended (`loop.shutdown_asyncgens`), and each client has one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

logger = logging.getLogger("odradek.client")


class Unclosed:
    """The rest of a client until it is closed. Made in the client's loop.

    Args:
        client_name: for messages: "producer 'odradek'".
        finish: ends the client as it should be ended, having waited for what it has to send.
        stop: ends it without waiting; nothing of both may refer to the client.
        sends_waiting: how many sends have no answer yet; None for a client that does not send.
    """

    def __init__(
        self,
        client_name: str,
        finish: Callable[[], Awaitable[object]],
        stop: Callable[[], Awaitable[object]],
        sends_waiting: Callable[[], int] | None = None,
    ) -> None:
        self._client_name = client_name
        self._finish = finish
        self._stop = stop
        self._sends_waiting = sends_waiting
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self._told = False
        self._ending: asyncio.Task[None] | None = None
        self._guard = self._until_the_loop_ends()
        # Its first step makes the loop know of it.
        with suppress(StopIteration):
            self._guard.__anext__().send(None)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._ending is not None and self._ending is not asyncio.current_task():
                # It began when asyncio.run had cancelled all tasks already.
                self._ending.cancel()
                await asyncio.wait({self._ending})
            elif not self._told:
                self._tell()
                await self._stop()

    async def closed(self) -> None:
        """The client was closed as it should be."""
        self._told = True
        await self._guard.aclose()

    def let_go(self) -> None:
        """The client is collected, perhaps in another thread, or after the loop."""
        if self._told or self._process != os.getpid():
            return
        self._tell()
        with suppress(RuntimeError):  # the loop is closed
            if asyncio._get_running_loop() is self._loop:
                self._end()
            else:
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._ending = self._loop.create_task(self._close())

    async def _close(self) -> None:
        try:
            await self._finish()
        except asyncio.CancelledError:
            # The loop ends.
            await self._stop()
            raise
        await self._guard.aclose()

    def _tell(self) -> None:
        self._told = True
        text = f"{self._client_name} was not closed"
        if self._sends_waiting is not None:
            # What may be lost is told also where Python hides a ResourceWarning, as it does by default.
            logger.warning("%s; %d sends have no answer yet", text, self._sends_waiting())
        try:
            warnings.warn(text, ResourceWarning, stacklevel=3)
        except ResourceWarning as raised:  # python -W error: nobody is there to catch it
            logger.error("%s", raised)
