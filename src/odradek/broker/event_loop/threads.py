"""Work that waits for the disk, in a thread beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from odradek.util.futures import error_of


def run_in_thread(
    loop: asyncio.AbstractEventLoop,
    work: Callable[[], object],
    finish: Callable[[BaseException | None], object],
    executor: Executor | None = None,
) -> None:
    """Run `work` in a thread, and call `finish` in the loop when it has ended, in whichever way.

    Args:
        loop: the event loop.
        work: runs in a thread.
        finish: gets the exception out of `work`, or `CancelledError` where it was never begun; None if all
            went well. What it raises itself the loop logs.
        executor: has the threads; the loop's own when None.
    """
    loop.run_in_executor(executor, work).add_done_callback(lambda done: finish(error_of(done)))
