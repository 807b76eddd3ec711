"""One daemon thread with an event loop, for one synchronous client."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from odradek.client.errors import ClosedError, IllegalStateError
from odradek.client.sync.call import Call
from odradek.util.interruptible import wait_until
from odradek.util.stack_dumps import tell_of
from odradek.util.stand_still import StandStill

T = TypeVar("T")

_END_S = 5.0
"""How long the end of the thread is waited for, and of what still runs in it. It may be held up by a callback
of the application's, or by a lock that a thread holds which a signal's handler has interrupted
(logging's).
"""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where there is one, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()  # type: ignore[no-any-return]


_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()


class LoopThread:
    """Starts at once; `stop` ends it, and what was submitted fails with `ClosedError`.

    In a process that was forked it is not there: whoever asks it is told so. The loop is left alone then, as
    it shares its sockets, and what it waits for, with that of the other process.

    Nothing that an application's thread does here holds a lock: see `odradek.util.interruptible`.

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
        tell_of(self.loop)
        self._stands = StandStill(self.loop)
        self._calls: dict[Call[Any], Coroutine[Any, Any, Any]] = {}
        self._ends = self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._ends = True
            try:
                self.loop.run_until_complete(self._end_all())
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            finally:
                self.loop.close()
                self._ended = True
                for call, coroutine in list(self._calls.items()):
                    self._settle(call, None, ClosedError("the client is closed"))
                    # Handed over last, and never looked at, or made a task that never ran.
                    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                        coroutine.close()

    async def _end_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs in this thread (a callback): it must not wait for it."""
        return threading.get_ident() == self._thread.ident

    def check_process(self) -> None:
        """Check that the process is the one in which the client was made.

        Raises:
            IllegalStateError: it was forked after that.
        """
        if self.left_in is not None:
            raise IllegalStateError(
                f"the client is that of process {self.left_in}, of which this one is a fork: its thread and "
                "connections stayed there. Make a client after the fork"
            )

    def check_not_inside(self, call: str = "a blocking call") -> None:
        """Check that another thread asks.

        Raises:
            IllegalStateError: it is the thread itself, which would wait for itself for ever.
        """
        if self.is_current:
            raise IllegalStateError(
                f"{call} from the client's own I/O thread (a callback, or a finalizer that happens to run in "
                "it) would never return"
            )

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Call[T]:
        """Run a coroutine in the loop; do not wait."""
        if self.left_in is not None:
            coroutine.close()
            self.check_process()
        call: Call[T] = Call(self._cancel)
        self._calls[call] = coroutine
        try:
            self.loop.call_soon_threadsafe(self._begin, coroutine, call)
        except RuntimeError:  # the loop is closed
            self._calls.pop(call, None)
            coroutine.close()
            raise ClosedError("the client is closed") from None
        self._stands.end_for_exit_hook()
        if self._ended:
            # Nobody may have looked at what was handed over last.
            self._settle(call, None, ClosedError("the client is closed"))
            if call.task is None:
                coroutine.close()
        return call

    def _begin(self, coroutine: Coroutine[Any, Any, T], call: Call[T]) -> None:
        if call.is_cancelled or call.done():
            coroutine.close()
            self._settle(call, None, asyncio.CancelledError())
            return
        call.task = self.loop.create_task(coroutine)
        call.task.add_done_callback(partial(self._done, call))

    def _done(self, call: Call[T], task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            problem = task.exception()
            self._settle(call, None if problem is not None else task.result(), problem)
        elif self._ends:
            self._settle(call, None, ClosedError("the client was closed meanwhile"))
        else:
            self._settle(call, None, asyncio.CancelledError())

    def _settle(self, call: Call[T], value: T | None, problem: BaseException | None) -> None:
        self._calls.pop(call, None)
        call.settle(value, problem)

    def _cancel(self, call: Call[Any]) -> None:
        self.call_soon(self._cancel_task, call)

    @staticmethod
    def _cancel_task(call: Call[Any]) -> None:
        if call.task is not None:
            call.task.cancel()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop and wait. An interrupt (Ctrl-C) cancels it.

        Raises:
            TimeoutError: `timeout_s` has passed.
        """
        try:
            self.check_not_inside()
        except IllegalStateError:
            coroutine.close()
            raise
        call = self.submit(coroutine)
        try:
            return call.result(timeout_s)
        finally:
            call.cancel()

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a plain function in the loop's thread and wait; in that thread itself, at once."""
        if self.is_current:
            return function(*args)

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
            self._stands.end_for_exit_hook()

    def stop(self) -> None:
        """End the loop and the thread, which is waited for, for a bounded time."""
        if self.left_in is not None:
            return
        if not self.loop.is_closed():
            self.call_soon(self.loop.stop)
        if not self.is_current:
            wait_until(self._join, _END_S)

    def _join(self, slice_s: float) -> bool:
        self._thread.join(slice_s)
        return not self._thread.is_alive()


def _leave_behind() -> None:
    for thread in list(_threads):
        thread.left_in = os.getppid()
        left = None if thread.on_left is None else thread.on_left()
        if left is not None:
            left()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)
