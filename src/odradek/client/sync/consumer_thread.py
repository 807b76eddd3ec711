"""The passage between the application's threads and the background thread of one `Consumer`.

Listeners run in the application's thread: while a call waits for the background thread, it does what that
asks. A call may be made amid another one, by a listener or a signal's handler; then it is the innermost that
waits and does so.

Nothing here is a lock: see `odradek.util.interruptible`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from odradek.client.core.ownership import Entry, Ownership
from odradek.client.errors import ClosedError, IllegalStateError, WakeupError
from odradek.client.sync.call import Call
from odradek.client.sync.loop_thread import LoopThread
from odradek.client.types import TopicPartition
from odradek.util.interruptible import Bell

T = TypeVar("T")

logger = logging.getLogger("odradek.client.consumer")

_GRACE_S = 5.0
"""How much longer than its time a closing is waited for, which ends by itself in the background thread."""


class _Invocation:
    """A listener's call that the background thread wants made; its result goes back to the loop."""

    def __init__(
        self,
        thread: LoopThread,
        method: Callable[..., Any],
        partitions: tuple[TopicPartition, ...],
        done: asyncio.Future[None],
    ) -> None:
        self._thread = thread
        self._method = method
        self._partitions = partitions
        self._done = done

    def run(self) -> None:
        try:
            self._method(self._partitions)
        except BaseException as problem:
            self._thread.call_soon(_settle, self._done, problem)
            if not isinstance(problem, Exception):
                raise
        else:
            self._thread.call_soon(_settle, self._done, None)


def _settle(future: asyncio.Future[None], problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(None)
    else:
        future.set_exception(problem)


class ConsumerThread:
    """The background thread of a consumer, and who is in which call.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self.loop_thread = LoopThread(name)
        self._ownership = Ownership("this Consumer")
        self._todo: deque[_Invocation] = deque()
        self._waiting: list[Bell] = []
        self._woken = False
        self._taking = False
        self._closer: dict[str, int] = {}
        self._ended: list[Bell] = []
        self.closed = False

    # Who may call

    def check(self) -> None:
        """Check that the consumer can be used.

        Raises:
            ClosedError: it is closed.
            IllegalStateError: in a process that was forked.
        """
        self.loop_thread.check_process()
        if self.closed or (self._closer and threading.get_ident() != self._closer.get("")):
            raise ClosedError("the consumer is closed")

    def entering(self, name: str, *, nested: bool = True, changes: bool = False) -> Entry:
        """Begin a call.

        Args:
            name: of the method.
            nested: whether it may be made amid another one of the same thread.
            changes: it changes, or commits, positions: not while records are being taken.

        Raises:
            ConcurrentModificationError: another thread is inside.
            IllegalStateError: the call may not be made here, or in a process that was forked.
            ClosedError: the consumer is closed.
        """
        self.check()
        self.loop_thread.check_not_inside(name)
        entry = self._ownership.enter(name, threading.get_ident(), nested=nested)
        if changes and self._taking and entry.inside is not None:
            raise IllegalStateError(
                f"{name} amid the taking of records by {entry.inside.name}, from a deserializer, an "
                "interceptor or a signal's handler: only after that has returned"
            )
        return entry

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Take records in the block, by which positions move."""
        self._taking = True
        try:
            yield
        finally:
            self._taking = False

    # Waiting

    def run(self, coroutine: Coroutine[Any, Any, T], *, wakes: bool = False) -> T:
        """Run in the loop; meanwhile do here what the loop asks for.

        Args:
            wakes: `wakeup` ends it.
        """
        try:
            self.check()
        except BaseException:
            coroutine.close()
            raise
        return self._wait(coroutine, wakes=wakes)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a plain function in the loop; see `run`."""

        async def run() -> T:
            return function(*args)

        return self.run(run())

    def _wait(
        self, coroutine: Coroutine[Any, Any, T], *, wakes: bool, close_timeout_s: float | None = None
    ) -> T:
        call = self.loop_thread.submit(coroutine)
        bell = Bell()
        self._waiting.append(bell)
        call.ring_when_done(bell)
        try:
            while True:
                self._do_what_is_asked(call)
                if call.done():
                    return self._result(call)
                if close_timeout_s is None and self._closer and threading.get_ident() != self._closer.get(""):
                    raise ClosedError("the consumer was closed meanwhile")
                if wakes:
                    self.check_wakeup()
                if not bell.wait(close_timeout_s):
                    raise TimeoutError
        finally:
            self._waiting.remove(bell)
            call.cancel()

    def _result(self, call: Call[T]) -> T:
        try:
            return call.result()
        except asyncio.CancelledError:
            raise ClosedError("the consumer was closed meanwhile") from None

    def _do_what_is_asked(self, call: Call[Any]) -> None:
        while not call.done():
            try:
                invocation = self._todo.popleft()
            except IndexError:
                return
            invocation.run()

    async def invoke(self, method: Callable[..., Any], partitions: tuple[TopicPartition, ...]) -> None:
        """In the loop: have a listener's method called by the thread that waits, or that waits next."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._todo.append(_Invocation(self.loop_thread, method, partitions, done))
        self._ring()
        await done

    def _ring(self) -> None:
        for bell in list(self._waiting):
            bell.ring()

    def wake_up(self) -> None:
        """See `Consumer.wakeup`."""
        self.loop_thread.check_process()
        self._woken = True
        self._ring()

    def check_wakeup(self) -> None:
        """Tell of `wake_up`, once for however many calls.

        Raises:
            WakeupError: it was called.
        """
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup was called")

    # Closing

    def begin_close(self, timeout_s: float) -> bool:
        """End the waits of other threads. Returns whether the caller is to close: nobody does so before it.

        Where another thread does, its end is waited for, at most `timeout_s` seconds.
        """
        me = threading.get_ident()
        first = not self.closed and not self._closer
        closer = self._closer.setdefault("", me)
        if not first or closer != me:
            if closer != me and not self.loop_thread.is_current:
                self._wait_closed(timeout_s)
            return False
        self._ring()
        holder = self._ownership.holder
        if holder is not None and holder.caller != me and not self.loop_thread.is_current:
            self._ownership.wait_free(timeout_s)
        return True

    def _wait_closed(self, timeout_s: float) -> None:
        bell = Bell()
        self._ended.append(bell)
        try:
            if not self.closed:
                bell.wait(timeout_s)
        finally:
            self._ended.remove(bell)

    def run_close(self, coroutine: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Run the end of the consumer in the loop, doing here what that asks for."""
        me = threading.get_ident()
        holder = self._ownership.holder
        entry = self._ownership.enter("close", me) if holder is None or holder.caller == me else None
        try:
            with suppress(ClosedError):
                self._wait(coroutine, wakes=False, close_timeout_s=timeout_s + _GRACE_S)
        except TimeoutError:
            logger.warning("the consumer's thread is held up (by a callback?); it is left as it is")
        finally:
            if entry is not None:
                self._ownership.leave(entry)

    def end_close(self) -> None:
        """Nothing goes on after this; where the background thread itself closes, it ends later."""
        self.closed = True
        if not self.loop_thread.is_current:
            self.loop_thread.stop()
        self._ring()
        for bell in list(self._ended):
            bell.ring()
