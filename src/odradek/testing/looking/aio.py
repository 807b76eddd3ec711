"""Functions in a thread of their own, for tasks: the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from odradek.testing.looking.waiting import Waits, waits

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a function as a coroutine function; waits in it are given up when the task is cancelled."""

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        given_up = Waits()
        context = copy_context()
        context.run(waits.set, given_up)
        call = partial(context.run, function, *args, **kwargs)
        try:
            return await asyncio.get_running_loop().run_in_executor(None, call)
        except asyncio.CancelledError:
            # The thread cannot be broken off, and the end of the loop waits for it.
            given_up.give_up()
            raise

    return run
