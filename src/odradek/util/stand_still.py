"""Event loops of daemon threads stand still when the interpreter ends.

CPython ends a daemon thread that asks for the GIL when the interpreter is gone. uvloop asks for it amid C,
and the process dies of SIGSEGV now and then. A thread that waits for a lock asks for nothing.

Who has exit hooks that need a loop imports this module before it registers them: the hook registered last
runs first. All of `atexit`'s run when non-daemon threads, and `concurrent.futures`, have ended.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import sys
import threading
import time
import weakref

from odradek.util.interruptible import Bell

EXIT_TIMEOUT_S = 5.0
"""How long the end of the interpreter waits for loops, all of them together: a callback may hold one up."""

_all: weakref.WeakSet[StandStill] = weakref.WeakSet()


class StandStill:
    """The means to have a loop stand still. The end of the interpreter uses it.

    Args:
        loop: runs in a daemon thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._goes_on: queue.SimpleQueue[None] | None = None
        self._exiting: int | None = None
        _all.add(self)

    def begin(self) -> Bell:
        """Stop the loop until `end`. Returns what rings once it stands still, or is closed."""
        begun, goes_on = Bell(), queue.SimpleQueue[None]()
        if self._goes_on is not None:
            begun.ring()
            return begun

        def stand() -> None:
            begun.ring()
            goes_on.get()

        self._goes_on = goes_on
        try:
            self._loop.call_soon_threadsafe(stand)
        except RuntimeError:  # the loop is closed
            begun.ring()
        return begun

    def begin_at_exit(self) -> Bell:
        """`begin`, in the thread that ends the interpreter."""
        self._exiting = threading.get_ident()
        return self.begin()

    def end(self) -> None:
        """Let the loop go on, if it stands still."""
        goes_on, self._goes_on = self._goes_on, None
        if goes_on is not None:
            goes_on.put(None)

    def end_for_exit_hook(self) -> None:
        """Let the loop go on for an exit hook that comes later and asks it for something (to close a client).

        Daemon threads of the application's do not wake it, nor what the garbage collector closes at last.
        """
        if self._exiting == threading.get_ident() and not sys.is_finalizing():
            self.end()


# Threads do not survive a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all.clear)


@atexit.register
def _stand_still() -> None:
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    for begun in [loop.begin_at_exit() for loop in list(_all)]:
        begun.wait(max(0.0, deadline - time.monotonic()))
