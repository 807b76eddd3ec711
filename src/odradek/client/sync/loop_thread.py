"""One daemon thread with an event loop, for one synchronous client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from odradek.client.errors import ClosedError, IllegalStateError
from odradek.util.interruptible import result_of

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where there is one, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()  # type: ignore[no-any-return]


_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()


class LoopThread:
    """Starts at once; `stop` ends it.

    In a process that was forked it is not there: whoever asks it is told so. The loop is left alone then, as
    it shares its sockets, and what it waits for, with that of the other process.

    Args:
        name: of the thread.

    Attributes:
        left_in: the process that has the thread, where that is not this one; None where it is.
        on_left: called in a process that was forked, if whose method it is lives.
    """

    def __init__(self, name: str) -> None:
        self.left_in: int | None = None
        self.on_left: weakref.WeakMethod[Callable[[], None]] | None = None
        _threads.add(self)
        self.loop = new_event_loop()
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

    def check_process(self) -> None:
        """Raise `IllegalStateError` in a process that was forked after the client was made."""
        if self.left_in is not None:
            raise IllegalStateError(
                f"the client is that of process {self.left_in}, of which this one is a fork: its thread and "
                "connections stayed there. Make a client after the fork"
            )

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop; do not wait."""
        if self.left_in is not None:
            coroutine.close()
            self.check_process()
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
            return result_of(future)
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
        if self.left_in is None and not self.loop.is_closed():
            try:
                self.loop.call_soon_threadsafe(function, *args)
            except RuntimeError:  # closed between the two lines
                return

    def stop(self) -> None:
        """End the loop and the thread."""
        if self.left_in is not None:
            return
        if not self.loop.is_closed():
            self.call_soon(self.loop.stop)
        if not self.is_current:
            self._thread.join()


def _leave_behind() -> None:
    for thread in list(_threads):
        thread.left_in = os.getppid()
        left = None if thread.on_left is None else thread.on_left()
        if left is not None:
            left()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)
