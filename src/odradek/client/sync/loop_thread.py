"""One daemon thread with an event loop, for one synchronous client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.client.errors import ClosedError, IllegalStateError

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where there is one, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()  # type: ignore[no-any-return]


class LoopThread:
    """Starts at once; `stop` ends it.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self.loop = new_event_loop()
        self._wanted = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs in this thread (a callback): it must not wait for it."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop; do not wait."""
        if self.loop.is_closed() or not self._thread.is_alive():
            coroutine.close()
            raise ClosedError("the client is closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait. An interrupt (Ctrl-C) cancels it."""
        if self.is_current:
            coroutine.close()
            raise IllegalStateError(
                "a blocking call from the client's own I/O thread (a callback) would never return"
            )
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a plain function in the loop's thread and wait."""

        async def run() -> T:
            return function(*args)

        return self.run(run())

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Run a plain function in the loop's thread soon; do not wait. Nothing happens after `stop`."""
        if not self.loop.is_closed():
            try:
                self.loop.call_soon_threadsafe(function, *args)
            except RuntimeError:  # closed between the two lines
                return

    def stop(self) -> None:
        """End the loop and the thread."""
        if not self.loop.is_closed():
            self.call_soon(self.loop.stop)
        if not self.is_current:
            self._thread.join()
