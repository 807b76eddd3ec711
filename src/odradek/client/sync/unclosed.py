"""A client that nobody closed: it tells, and what it was given to send is still sent.

While the process lives, a client that was let go of is closed in its own background thread. When the
interpreter ends, that thread ends too; so producers are waited for then, for a bounded time.

A worker process of multiprocessing that was forked ends without the interpreter's exit hooks; there it is one
of multiprocessing's own.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.client.errors import ClosedError
from odradek.client.sync.call import Call
from odradek.client.sync.loop_thread import LoopThread

logger = logging.getLogger("odradek.client")

EXIT_TIMEOUT_S = 5.0
"""How long the end of the interpreter waits for producers that were not closed, all of them together."""

_open: set[Unclosed] = set()


class Unclosed:
    """The rest of a client until it is closed.

    Args:
        client: is watched; nothing here may refer to it.
        client_name: for messages: "producer 'odradek'".
        thread: the client's.
        finish: ends it in the thread's loop, having waited for what it has to send.
        sends_waiting: how many sends have no answer yet; None for a client that does not send.
    """

    def __init__(
        self,
        client: object,
        client_name: str,
        thread: LoopThread,
        finish: Callable[[], Coroutine[Any, Any, None]],
        sends_waiting: Callable[[], int] | None = None,
    ) -> None:
        self._client_name = client_name
        self._thread = thread
        self._finish = finish
        self._sends_waiting = sends_waiting
        self._ending: Call[None] | None = None
        self._watch = weakref.finalize(client, self._let_go)
        self._watch.atexit = False
        _open.add(self)
        _wait_at_the_end_of_a_worker()

    def closed(self) -> None:
        """The client was closed as it should be."""
        self._watch.detach()
        _open.discard(self)

    def close_in_background(self, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The client was closed where it cannot be waited for: end it in its own thread.

        Args:
            finish: as the class has it.
        """
        if self._ending is None:
            self._watch.detach()
            self._finish = finish
            self._ending = self._thread.submit(self._finish_and_stop())

    # The collector may call from any thread, whatever that holds: nothing here waits or takes a lock of ours.
    def _let_go(self) -> None:
        if self not in _open:
            return
        self._begin()
        self._warn()

    def _begin(self) -> None:
        try:
            self._ending = self._thread.submit(self._end())
        except ClosedError:
            _open.discard(self)

    async def _end(self) -> None:
        self._tell()
        await self._finish_and_stop()

    async def _finish_and_stop(self) -> None:
        try:
            await self._finish()
        finally:
            _open.discard(self)
            self._thread.call_soon(self._thread.loop.stop)

    def _tell(self) -> None:
        if self._sends_waiting is not None:
            logger.warning(
                "%s was not closed; %d sends have no answer yet and are waited for, "
                "at the end of the process for %.0f s at most",
                self._client_name,
                self._sends_waiting(),
                EXIT_TIMEOUT_S,
            )

    def at_exit(self) -> None:
        """The interpreter ends: begin to finish, if there is something to lose."""
        if self._sends_waiting is not None and self._ending is None:
            self._watch.detach()
            self._begin()
            self._warn()

    def _warn(self) -> None:
        try:
            warnings.warn(f"{self._client_name} was not closed", ResourceWarning, stacklevel=3)
        except ResourceWarning as raised:  # python -W error: nobody is there to catch it
            logger.error("%s", raised)

    def wait(self, deadline: float) -> None:
        """Wait until it is finished, until `deadline` (monotonic seconds)."""
        if self._ending is None or self._sends_waiting is None:
            return
        try:
            self._ending.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            logger.error(
                "%s: the process ends, and %d sends are lost or in doubt",
                self._client_name,
                self._sends_waiting(),
            )
        except Exception:
            logger.exception("%s could not be closed", self._client_name)


# Threads do not survive a fork: the parent's clients are not the child's to finish.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)

_waiting_in: int | None = None
"""The process that is a worker of multiprocessing and waits for its producers at its end."""


def _wait_at_the_end_of_a_worker() -> None:
    global _waiting_in
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _waiting_in == os.getpid():
        return
    from multiprocessing.util import Finalize

    _waiting_in = os.getpid()
    Finalize(None, _at_exit, exitpriority=0)


@atexit.register
def _at_exit() -> None:
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    unclosed = list(_open)
    for client in unclosed:
        client.at_exit()
    for client in unclosed:
        client.wait(deadline)
