"""Long work on many items, done in slices, so that one request never holds the event loop for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

SLICE_S = 0.010
"""How long one slice may take before other connections get their turn."""


def in_slices(
    loop: asyncio.AbstractEventLoop,
    items: Sequence[T],
    work: Callable[[T], None],
    finish: Callable[[], R],
) -> R | asyncio.Future[R]:
    """Do `work` on every item, then `finish`.

    Args:
        loop: where further slices run.
        items: what there is to do.
        work: one step; it is not interrupted.
        finish: makes the result.

    Returns:
        The result if one slice was enough, else a future of it. An exception out of `work` is raised, or is
        the future's.
    """
    position = _slice(items, 0, work)
    if position == len(items):
        return finish()
    future: asyncio.Future[R] = loop.create_future()

    def go_on(position: int) -> None:
        if future.done():
            return
        try:
            position = _slice(items, position, work)
            if position == len(items):
                future.set_result(finish())
            else:
                loop.call_soon(go_on, position)
        except Exception as error:
            future.set_exception(error)

    loop.call_soon(go_on, position)
    return future


def _slice(items: Sequence[T], position: int, work: Callable[[T], None]) -> int:
    end = perf_counter() + SLICE_S
    count = len(items)
    while position < count:
        work(items[position])
        position += 1
        if perf_counter() > end:
            break
    return position
