"""A thread of a simulated process: it runs in turns with its event loop, and the seed says when it goes on.

Of all threads one at a time is running: a machine's loop hands the baton over and waits until the work is
done, or pauses for what would take a real one time. So the work of several brokers' controllers mixes as that
of processes does, and always in the same way.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from waiting import WITHIN_S, joined

from .world import Killed

if TYPE_CHECKING:
    from .world import MachineLoop

BEGIN_S = (0.0001, 0.005)


class VirtualExecutor:
    """See `concurrent.futures.ThreadPoolExecutor`, with one thread."""

    def __init__(self, loop: MachineLoop) -> None:
        self._loop = loop
        self._queue: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_working = self._is_ended = False
        loop.executors.append(self)

    def submit(self, func: Callable[..., Any], *args: Any) -> Future[Any]:
        """See `Executor.submit`."""
        future: Future[Any] = Future()
        self._queue.append((future, func, args))
        self._begin()
        return future

    def shutdown(self, wait: bool = True) -> None:
        """See `Executor.shutdown`: what is queued is still done."""

    @property
    def is_here(self) -> bool:
        """Return whether this is called in the thread."""
        return self._thread is threading.current_thread()

    @property
    def has_thread(self) -> bool:
        """Return whether the thread has begun, and has not been ended."""
        return self._thread is not None

    def pause(self, seconds: float) -> None:
        """Called in the thread: let everything else go on for a while."""
        if self._is_ended:
            raise Killed
        self._loop.call_later(seconds, self._switch)
        self._back.release()
        self._go.acquire()
        if self._is_ended:
            raise Killed

    def wait_for(self, future: Future[Any]) -> None:
        """Called in the thread: let everything else go on until the loop has done something."""
        while not future.done():
            self.pause(0)

    def end(self) -> None:
        """Have the thread end, wherever it is."""
        self._is_ended = True
        if self._thread is not None:
            self._go.release()
            joined(self._thread)
            self._thread = None

    def _begin(self) -> None:
        if not self._is_working and self._queue:
            self._is_working = True
            self._loop.call_later(self._loop.delay_s(*BEGIN_S), self._switch)

    def _switch(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"virtual {self._loop.name}", daemon=True)
            self._thread.start()
        self._go.release()
        assert self._back.acquire(timeout=WITHIN_S), f"{self._thread.name} keeps its turn"

    def _run(self) -> None:
        # What is interrupted may end with an error of its own.
        while not self._is_ended:
            self._go.acquire()
            try:
                if self._is_ended:
                    return
                self._work(*self._queue.popleft())
            except Killed:
                return
            finally:
                self._is_working = False
                if not self._is_ended:
                    self._begin()
                self._back.release()

    def _work(self, future: Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = func(*args)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
