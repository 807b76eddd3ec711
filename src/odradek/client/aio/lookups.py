"""The lookups that serializers need (`LookupNeeded`), made outside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from odradek.client.errors import SerializationError
from odradek.client.serialization import LookupNeeded

T = TypeVar("T")


async def look_up(needed: LookupNeeded) -> None:
    """Look up what is needed, in a thread of its own.

    One of asyncio's executor would be waited for when the loop ends, for as long as a registry hangs.

    Raises:
        SerializationError: it cannot be had.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(problem: BaseException | None) -> None:
        if done.cancelled():
            return
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    def work() -> None:
        problem = None
        try:
            needed.load()
        except BaseException as failed:
            problem = failed
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, problem)

    threading.Thread(target=work, name="odradek-lookup", daemon=True).start()
    await done


class _Turn:
    """The sends to one topic that wait, one behind the other.

    Attributes:
        failures: how often a lookup has failed.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.failures = 0
        self.problem: SerializationError | None = None


class Lookups:
    """The lookups of a producer.

    Sends to a topic go on in the order in which they came, and where a lookup fails, all that wait for it
    fail with it, rather than each try for as long again.
    """

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    async def done(self, topic: str, prepare: Callable[[], T]) -> T:
        """Return what `prepare` does, after the lookups that it needs.

        Raises:
            SerializationError: a lookup failed.
            Exception: what `prepare` raises.
        """
        turn = self._turns.get(topic)
        if turn is None:
            try:
                return prepare()
            except LookupNeeded:
                turn = self._turns[topic] = _Turn()
        turn.waiting += 1
        failures = turn.failures
        try:
            async with turn.lock:
                while True:
                    if turn.failures != failures:
                        assert turn.problem is not None
                        raise turn.problem
                    try:
                        return prepare()
                    except LookupNeeded as needed:
                        await self._look_up(turn, needed)
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[topic]

    @staticmethod
    async def _look_up(turn: _Turn, needed: LookupNeeded) -> None:
        try:
            await look_up(needed)
        except SerializationError as problem:
            turn.failures += 1
            turn.problem = problem
            raise
