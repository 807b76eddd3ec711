"""The thread in which the controller waits for the disk, so that the event loop does not.

Invariants:

- one piece of work at a time, in the order in which it was asked for;
- the image, and everything that follows it, changes in the loop's thread while this one waits; many
  partitions follow it piece by piece;
- folders of new partitions are on the disk before the image names them, deletions before their nodes go.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.broker.handler_types import HandlerFunction
    from odradek.broker.replica_manager import ReplicaManager
    from odradek.cluster.image import ClusterDelta, ClusterImage
    from odradek.log.folders.log_manager import LogManager

Result = TypeVar("Result")


class ControllerThread:
    """See `odradek.cluster.event_queue.EventQueue`. Made in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, replicas: ReplicaManager, logs: LogManager) -> None:
        """
        Args:
            loop: where the image is read.
            replicas, logs: what prepares folders, and syncs what was deleted.
        """
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._replicas = replicas
        self._logs = logs
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="controller")
        self._running: set[asyncio.Future[Any]] = set()
        self._stopped = False

    @property
    def is_busy(self) -> bool:
        """Return whether there is work that was asked for and is not done."""
        return bool(self._running)

    def run(self, work: Callable[[], Result]) -> Any:
        """See `EventQueue.run`. Returns a future, but not for work inside other work, or after the stop."""
        if self._stopped or threading.get_ident() != self._loop_thread:
            return work()
        running = self._loop.run_in_executor(self._executor, work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    def publish(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:
        """See `EventQueue.publish`."""
        if threading.get_ident() == self._loop_thread:
            change()
        else:
            self._replicas.prepare(image, delta)
            self._in_loop(partial(self._change, change))
            while self._in_loop(self._replicas.apply_further):
                pass
        self._logs.sync_names()

    def _change(self, change: Callable[[], None]) -> None:
        self._replicas.in_pieces = True
        try:
            change()
        finally:
            self._replicas.in_pieces = False

    def _in_loop(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the loop's thread, in a turn of its own, and wait for it here."""
        done: Future[Result] = Future()
        self._loop.call_soon_threadsafe(_call, work, done)
        return done.result()

    async def stop(self) -> None:
        """Wait for the work that has been asked for; what comes from now on is done at once."""
        while self._running:
            await asyncio.wait(self._running)
        self.let_go()

    def let_go(self) -> None:
        """End the thread, which has nothing to do any more. Harmless twice."""
        self._stopped = True
        self._executor.shutdown(wait=False)


def _call(work: Callable[[], Result], done: Future[Result]) -> None:
    try:
        result = work()
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(result)


def on_controller_thread(handle: HandlerFunction) -> HandlerFunction:
    """A handler that changes metadata: all of it is done in the controller's turn.

    There it may use the controller, the image, the configs and the request; nothing that belongs to the loop.
    """

    @wraps(handle)
    def enqueue(context: RequestContext, request: Any) -> Any:
        return context.broker.controller.event_queue.run(lambda: handle(context, request))

    return enqueue
