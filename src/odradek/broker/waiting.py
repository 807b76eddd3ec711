"""Answers that wait until all replicas have followed what a request has done to some partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.replication.partition import Partition

Response = TypeVar("Response")
Result = TypeVar("Result")


def wait_for_replicas(
    context: RequestContext,
    timeout_ms: int,
    response: Response,
    pending: list[tuple[Partition, int, Result]],
    settle: Callable[[Partition, int, Result], bool],
    give_up: Callable[[Partition, Result], None],
) -> asyncio.Future[Response]:
    """A future of the response: done when nothing is pending any more, or the time is up.

    Args:
        context: of the request; when its peer goes, nothing waits any more.
        timeout_ms: how long at most.
        response: what is answered; `pending` has parts of it.
        pending: partitions, the offset that their replicas must reach, and what is answered of them.
        settle: whether a partition is done; says so in its answer then.
        give_up: says in a partition's answer that the time was up.
    """
    future: asyncio.Future[Response] = context.broker.loop.create_future()

    def finish() -> None:
        if not future.done():
            future.set_result(response)

    def try_complete() -> bool:
        pending[:] = [one for one in pending if not settle(*one)]
        if pending:
            return False
        finish()
        return True

    def on_timeout() -> None:
        for partition, _, answer in pending:
            give_up(partition, answer)
        finish()

    operation = context.broker.purgatory.watch(
        [partition.key for partition, _, _ in pending], try_complete, on_timeout, timeout_ms
    )
    context.on_disconnect = operation.cancel
    return future
