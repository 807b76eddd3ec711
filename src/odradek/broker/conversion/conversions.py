"""Records that are converted between message formats: in threads, a few at a time, answered in order.

Converting takes long where it concerns megabytes (decompress, rewrite, compress), and the loops over records
are compiled and leave the interpreter's lock alone: so they run beside the event loop. What is converted at
once is bounded by the number of threads; the rest waits as the request that it came in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from odradek.util.futures import end_like

T = TypeVar("T")

THREADS = 2
"""How many conversions run at once."""


class Conversions:
    """Runs conversions of one broker. All methods are called from the event loop.

    Attributes:
        latest: of each key in work the future that comes last; empty while nothing is waited for, which
            every produce looks at.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._turns = 0
        self.latest: dict[Hashable, asyncio.Future[Any]] = {}

    def next_turn(self) -> int:
        """Return a number that is another one each time."""
        self._turns += 1
        return self._turns

    def is_busy(self, keys: Sequence[Hashable]) -> bool:
        """Return whether something with one of these keys is in work, so that what comes now has to wait for
        it.
        """
        return bool(self.latest) and any(key in self.latest for key in keys)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread; the future is cancelled where a stop comes before it has begun."""
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="conversion")
        return loop.run_in_executor(self._threads, work)

    def run_in_order(self, keys: Sequence[Hashable], work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread; the result comes after those of all earlier calls with one of these keys.

        Callbacks of an earlier result have run when those of a later one do. An exception out of `work` is
        the future's; it is cancelled as that of `run` is.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        latest = self.latest
        waits = {latest[key] for key in keys if key in latest}
        running = self.run(work)
        waits.add(running)
        left = len(waits)

        def one_is_done(_: object) -> None:
            nonlocal left
            left -= 1
            if left:
                return
            give_out()
            # Behind the callbacks of the result: what comes before they have run must still wait for them.
            loop.call_soon(forget)

        def forget() -> None:
            for key in keys:
                if latest.get(key) is result:
                    del latest[key]

        def give_out() -> None:
            end_like(running, result)

        for key in keys:
            latest[key] = result
        for one in waits:
            one.add_done_callback(one_is_done)
        return result

    def stop(self) -> None:
        """Begin nothing more; what runs goes on to its end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
