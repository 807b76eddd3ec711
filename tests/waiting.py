"""Waits with a bound: whatever does not come is told by its name, together with what was there instead.

The bound is for a slow machine that does other work as well. It is less than what a test may take as a whole:
what pytest ends itself says where a test was, not what it lacked.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 60.0
EVERY_S = 0.01


def until(
    look: Callable[[], T],
    what: str = "",
    *,
    holds: Callable[[T], object] = bool,
    within_s: float = WITHIN_S,
    every_s: float = EVERY_S,
    instead: Callable[[], object] | None = None,
) -> T:
    """Return what `look` gives as soon as that holds.

    Parameters:
        what: what is waited for, as a noun: it follows "in vain for". Without, the source of `look` is told.
        holds: judges what `look` gave; without, it has to be true.
        every_s: how long to sleep after each look.
        instead: gives what to tell if it does not come; without, that is what `look` gave last.

    Raises:
        AssertionError: it has not come within `within_s` seconds.
    """
    deadline = monotonic() + within_s
    while True:
        # The last look is one after the end: a machine may have stood still for as long.
        is_last = monotonic() >= deadline
        found = look()
        if holds(found):
            return found
        if is_last:
            raise in_vain(what or _source(look), within_s, found if instead is None else instead())
        sleep(every_s)


async def until_async(
    look: Callable[[], T | Awaitable[T]],
    what: str = "",
    *,
    holds: Callable[[T], object] = bool,
    within_s: float = WITHIN_S,
    every_s: float = EVERY_S,
    instead: Callable[[], object] | None = None,
) -> T:
    """Let the loop run until what `look` gives, or an awaitable of it, holds; see `until`.

    With an `every_s` of 0, it looks in each turn of the loop.
    """
    deadline = monotonic() + within_s
    while True:
        is_last = monotonic() >= deadline
        given = look()
        found = await within(given, what or _source(look), within_s) if inspect.isawaitable(given) else given
        if holds(found):
            return found
        if is_last:
            raise in_vain(what or _source(look), within_s, found if instead is None else instead())
        await asyncio.sleep(every_s)


def gathered(
    poll: Callable[[], Iterable[T]],
    enough: int | Callable[[], object],
    what: str,
    *,
    within_s: float = WITHIN_S,
) -> list[T]:
    """Return what a consumer's polls give, in order, once it is enough.

    Parameters:
        poll: waits a moment for more by itself.
        enough: how many at least, or judges whether there are enough.

    Raises:
        AssertionError: it is not enough within `within_s` seconds.
    """
    found: list[T] = []

    def is_enough() -> bool:
        return len(found) >= enough if isinstance(enough, int) else bool(enough())

    def look() -> bool:
        if not is_enough():
            found.extend(poll())
        return is_enough()

    until(look, what, within_s=within_s, every_s=0, instead=lambda: f"{len(found)}, at the end {found[-3:]}")
    return found


async def within(awaitable: Awaitable[T], what: str, within_s: float = WITHIN_S) -> T:
    """Return what an awaitable gives.

    Raises:
        AssertionError: it has given nothing within `within_s` seconds, and has been cancelled.
    """
    try:
        async with asyncio.timeout(within_s) as bound:
            return await awaitable
    except TimeoutError:
        if not bound.expired():
            raise
        raise in_vain(what, within_s, awaitable) from None


def joined(thread: threading.Thread, within_s: float = WITHIN_S) -> None:
    """Wait until a thread has ended.

    Raises:
        AssertionError: it has not within `within_s` seconds; the message says where it is.
    """
    thread.join(within_s)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        where = "".join(traceback.format_stack(frame)) if frame else "it has ended since"
        raise in_vain(f"the end of {thread.name}", within_s, where)


def happened(event: threading.Event, what: str, within_s: float = WITHIN_S) -> None:
    """Wait until an event is set, from a thread.

    Raises:
        AssertionError: it is not within `within_s` seconds.
    """
    if not event.wait(within_s):
        raise in_vain(what, within_s, event)


def in_vain(what: str, within_s: float, instead: object) -> AssertionError:
    """The error of a wait: what has not come within how many seconds, and what was there instead."""
    return AssertionError(f"waited {within_s:g} s in vain for {what}; instead: {instead}")


def _source(look: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(look).split())
    except (OSError, TypeError):
        return repr(look)
