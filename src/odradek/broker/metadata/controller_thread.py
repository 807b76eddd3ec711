"""The thread in which the controller waits for the disk, so that the event loop does not.

Invariants:

- one piece of work at a time, in the order in which it was asked for;
- the controller's image changes in the loop's thread while this one waits; where `until_told` is given, this
  one waits as well until the broker has followed what it was told of it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.errors import NotControllerError, OdradekError
from odradek.util.promise import promised_if_future

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.cluster.image import ClusterDelta, ClusterImage

Result = TypeVar("Result")

UntilTold = Callable[[], Coroutine[Any, Any, None]]
"""Waits until a broker has followed what its controller has told it."""

logger = logging.getLogger(__name__)


class ControllerThread:
    """See `odradek.cluster.controller.event_queue.EventQueue`. Made in the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        until_told: UntilTold | None = None,
    ) -> None:
        """
        Args:
            loop: where the image is read.
            until_told: waits until the brokers have followed a change; None where the controller does not
                wait for that, as in a cluster of several brokers.
        """
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._until_told = until_told
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="controller")
        self._running: set[asyncio.Future[Any]] = set()
        self._stopped = False
        self._closing = False
        self._posting = threading.Lock()
        self._posted = 0
        """How much was posted and is not done; changed with `_posting` held."""
        self._in_turn: Future[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether there is work that was asked for and is not done."""
        return bool(self._running) or self._posted > 0

    def run(self, work: Callable[[], Result]) -> Any:
        """See `EventQueue.run`. Returns a future, but not for work inside other work, or after the stop."""
        if self._stopped or threading.get_ident() != self._loop_thread:
            return work()
        running = self._loop.run_in_executor(self._executor, work)
        self._running.add(running)
        # Whoever asked has the future, and hears how it ends.
        running.add_done_callback(self._running.discard)
        return running

    def post(self, work: Callable[[], object]) -> None:
        """See `EventQueue.post`."""
        with self._posting:
            # Under the lock, so that nothing is handed to an executor that has been shut down.
            if not self._closing:
                self._posted += 1
                self._executor.submit(self._run_posted, work)

    def _run_posted(self, work: Callable[[], object]) -> None:
        try:
            if not self._closing:
                work()
        except CancelledError:
            pass  # let go in the middle of it
        except NotControllerError:
            # Another one has come, and does it.
            logger.info("the work is another controller's by now")
        except OdradekError as error:
            # The metadata store is away perhaps.
            logger.error("work for the controller failed: %s", error)
        except Exception:
            # Nobody waits for it: a bug in it must not pass in silence.
            logger.exception("work for the controller failed")
        finally:
            with self._posting:
                self._posted -= 1

    def publish(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:  # noqa: ARG002
        """See `EventQueue.publish`."""
        if threading.get_ident() == self._loop_thread:
            change()
            return
        self._in_loop(change)
        if self._until_told is not None:
            publication = self._in_turn = asyncio.run_coroutine_threadsafe(self._until_told(), self._loop)
            if self._stopped:
                publication.cancel()
            publication.result()

    def _in_loop(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the loop's thread, in a turn of its own, and wait for it here."""
        done: Future[Result] = Future()
        self._in_turn = done
        if self._stopped:
            # The loop may never come to it.
            done.cancel()
        else:
            self._loop.call_soon_threadsafe(_call, work, done)
        return done.result()

    async def stop(self) -> None:
        """Wait for the work that has been asked for; what comes from now on is done at once."""
        self._close()
        while self._running:
            await asyncio.wait(self._running)
        if not self._stopped:
            # What was posted may be in the middle of something, and need the loop for it.
            await self._loop.run_in_executor(self._executor, _nothing)
        self.let_go()

    def _close(self) -> None:
        with self._posting:
            self._closing = True

    def let_go(self) -> None:
        """End the thread, which has nothing to do any more. Harmless twice.

        Work that waits for its turn in the loop is given up there: after the end of the loop it would wait
        for ever, and the process for it.
        """
        self._close()
        self._stopped = True
        in_turn = self._in_turn
        if in_turn is not None:
            in_turn.cancel()
        self._executor.shutdown(wait=False)

    async def give_up(self) -> None:
        """End the thread as `let_go` does, without what it has not begun, and return when it has ended."""
        self.let_go()
        await self._loop.run_in_executor(None, partial(self._executor.shutdown, cancel_futures=True))


def _nothing() -> None:
    """Be reached when everything before it is done."""


def _call(work: Callable[[], Result], done: Future[Result]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(result)


def on_controller_thread(handle: Callable[..., Any]) -> Callable[..., Any]:
    """A handler, or a part of one, that changes metadata: all of it is done in the controller's turn.

    There it may use the controller, the image, the configs and the request; nothing that belongs to the loop.
    """

    @wraps(handle)
    def enqueue(context: RequestContext, request: Any, *more: Any) -> Any:
        run = context.broker.controller.event_queue.run
        return promised_if_future(run(lambda: handle(context, request, *more)))

    return enqueue
