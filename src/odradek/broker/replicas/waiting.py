# compiled: mypyc
"""Answers that wait until all replicas have followed what a request has done to some partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, final

from odradek.util.promise import Promise

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition

R = TypeVar("R")


@final
class _Waiting:
    """One answer that waits: what is still to be replicated, and who says that it is."""

    __slots__ = ("_give_up", "_pending", "_promise", "_response", "_settle")

    def __init__(
        self,
        promise: Promise[Any],
        response: Any,
        pending: list[tuple[Partition, int, Any]],
        settle: Callable[[Partition, int, Any], bool],
        give_up: Callable[[Partition, Any], None],
    ) -> None:
        self._promise = promise
        self._response = response
        self._pending = pending
        self._settle = settle
        self._give_up = give_up

    def try_complete(self) -> bool:
        """Return whether nothing is pending any more; the answer has been given then."""
        settle = self._settle
        left = [pending for pending in self._pending if not settle(pending[0], pending[1], pending[2])]
        if left:
            self._pending = left
            return False
        self._finish()
        return True

    def on_timeout(self) -> None:
        """Answer for what is pending that the time was up."""
        for partition, _, answer in self._pending:
            self._give_up(partition, answer)
        self._finish()

    def _finish(self) -> None:
        if not self._promise.done():
            self._promise.set_result(self._response)


def wait_for_replicas(
    context: RequestContext,
    timeout_ms: int,
    response: R,
    pending: list[tuple[Partition, int, Any]],
    settle: Callable[[Partition, int, Any], bool],
    give_up: Callable[[Partition, Any], None],
) -> Promise[R]:
    """A promise of the response: done when nothing is pending any more, or the time is up.

    Args:
        context: of the request; when its peer goes, nothing waits any more.
        timeout_ms: how long at most.
        response: what is answered; `pending` has parts of it.
        pending: partitions, the offset that their replicas must reach, and what is answered of them.
        settle: whether a partition is done; says so in its answer then.
        give_up: says in a partition's answer that the time was up.
    """
    promise: Promise[R] = Promise(context.broker.loop)
    waiting = _Waiting(promise, response, pending, settle, give_up)
    operation = context.broker.purgatory.watch(
        [partition.key for partition, _, _ in pending], waiting.try_complete, waiting.on_timeout, timeout_ms
    )
    context.on_disconnect = operation.cancel
    return promise
