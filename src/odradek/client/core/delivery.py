"""The fate of sent records: one outcome per batch, and a light future per record that looks into it.

A thread lock per record would cost more than the record. So futures share their batch's outcome, and nothing
that waits is made before somebody waits. When a batch is split because the broker found it too large, its
outcome points on to those of the parts.

Several threads look at an outcome, and signals' handlers amid that. There is no lock, as a handler may come
while one is held and wait for the thread that wants it (see `odradek.util.interruptible`): what has to happen
once is one step of a list or a set, which only one can make.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Self

from odradek.client.core._pyappend import DeliveryState
from odradek.client.core.kernel import producer_kernel
from odradek.client.core.undelivered import Undelivered
from odradek.client.errors import ClientTimeoutError, IllegalStateError
from odradek.client.types import RecordMetadata
from odradek.util.interruptible import Bell


class BatchOutcome:
    """The outcome of a batch.

    Attributes:
        base_offset: -1 when unknown (acks=0, forgotten duplicate).
        append_time_ms: the broker's timestamp for all records, -1 with CreateTime.
        error: None when the batch was written.
        record_errors: index → error, for records that the broker named (KIP-467).
        moved: per record (outcome, index) after a split.
        count: of the records, once the batch fails.
        heard: indices of the records of whose fate the application hears: it looks itself, or has a callback.
    """

    __slots__ = (
        "_undelivered",
        "_unheard",
        "append_time_ms",
        "base_offset",
        "count",
        "error",
        "heard",
        "moved",
        "partition",
        "record_errors",
        "settled",
        "topic",
        "waiters",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.settled = False
        self.base_offset = -1
        self.append_time_ms = -1
        self.error: Exception | None = None
        self.record_errors: dict[int, Exception] | None = None
        self.moved: list[tuple[BatchOutcome, int]] | None = None
        self.waiters: list[Callable[[], None]] = []
        self.heard: set[int] = set()
        self.count = 0
        self._unheard: set[int] | None = None
        self._undelivered: Undelivered | None = None

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        """The batch is in the log."""
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self._settle()

    def fail(self, error: Exception, record_errors: dict[int, Exception] | None = None) -> None:
        """The batch is given up."""
        self.error = error
        self.record_errors = record_errors
        self._settle()

    def move(self, parts: list[tuple[BatchOutcome, int]]) -> None:
        """The batch was split: record i is now `parts[i]`. Whoever waited looks again."""
        self.moved = parts
        for index in list(self.heard):
            outcome, at = parts[index]
            outcome.hear(at)
        self._settle()

    def error_of(self, index: int) -> Exception | None:
        """Return why a record was not written; None if it was."""
        if self.record_errors is not None:
            return self.record_errors.get(index, self.error)
        return self.error

    def hear(self, index: int) -> None:
        """The application looks at the fate of a record, or will be called."""
        self.heard.add(index)
        if self._unheard is not None:
            self._heard_after_all(index)

    def _heard_after_all(self, index: int) -> None:
        """The failure was counted before; take the record out again, once."""
        assert self._unheard is not None and self._undelivered is not None
        try:
            self._unheard.remove(index)
        except KeyError:
            return
        error = self.error_of(index)
        if error is not None:
            self._undelivered.add(error, -1)

    def hear_all(self) -> None:
        """The application looks at the fate of the failed batch as a whole."""
        for index in range(self.count):
            self.hear(index)

    def count_unheard(self, undelivered: Undelivered) -> None:
        """The batch failed: count the records of which the application has not heard."""
        self._undelivered = undelivered
        if self.record_errors is None:
            assert self.error is not None
            undelivered.add(self.error, self.count)
        else:
            for index in range(self.count):
                error = self.error_of(index)
                assert error is not None
                undelivered.add(error)
        self._unheard = set(range(self.count))
        for index in list(self.heard):
            self._heard_after_all(index)

    def _settle(self) -> None:
        self.settled = True
        self._tell_waiters()

    def when_settled(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` once the batch is settled or split; at once if it is."""
        self.waiters.append(waiter)
        if self.settled:
            self._tell_waiters()

    def _tell_waiters(self) -> None:
        # Whoever settles, and whoever comes at that moment, take them one by one: each is called once.
        while True:
            try:
                waiter = self.waiters.pop(0)
            except IndexError:
                return
            waiter()


_settled_here = threading.local()


def settles_here(owes: Callable[[BatchOutcome], bool]) -> None:
    """The outcomes for which `owes` is true are settled by this thread: it must not wait for one.

    Args:
        owes: a method; it is forgotten when its object is.
    """
    living = [method for method in getattr(_settled_here, "owing", ()) if method() is not None]
    _settled_here.owing = [*living, weakref.WeakMethod(owes)]


def check_may_wait(outcome: BatchOutcome) -> None:
    """Check that this thread may wait for the outcome.

    Raises:
        IllegalStateError: it is the thread that settles it, and would wait for itself for ever.
    """
    owing = getattr(_settled_here, "owing", ())
    if owing and any((owes := method()) is not None and owes(outcome) for method in owing):
        raise IllegalStateError(
            "waiting for a record in the thread that gets the answers (a callback, or the event loop of an "
            "AsyncProducer) would never end: take a callback, or await the future"
        )


def left_behind(outcomes: Iterable[BatchOutcome], process: int) -> None:
    """In a process that was forked: these are settled in the other one, and nobody will hear of it here."""
    for outcome in outcomes:
        outcome.error = IllegalStateError(
            f"the record is that of process {process}, of which process {os.getpid()} is a fork: what became "
            "of it is known there"
        )
        outcome.settled = True


class DeliveryMethods:
    """The methods of a `DeliveryFuture`; the compiled one calls these functions, too."""

    __slots__ = ()

    # Its state, as `odradek.client.core._pyappend.DeliveryState` describes it.
    _outcome: BatchOutcome
    _index: int
    _timestamp: int
    _key_size: int
    _value_size: int
    _final: Callable[[], BatchOutcome | None]

    def done(self) -> bool:
        """Return whether the record was acknowledged or given up."""
        return self._final() is not None

    def cancelled(self) -> bool:
        """Always false."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait and return where the record lies, or raise why not.

        Args:
            timeout: seconds; None waits as long as `delivery_timeout_ms` lets the record live.

        Raises:
            ClientTimeoutError: `timeout` passed; the record may still be written.
            IllegalStateError: in a delivery callback of the same producer, as nothing is acknowledged while
                it runs; or, in a process that was forked, of a record sent before.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.metadata()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait and return why the record was not written; None if it was.

        Raises:
            ClientTimeoutError, IllegalStateError: as `result`.
        """
        while (outcome := self._final()) is None:
            check_may_wait(self._outcome)
            bell = Bell()
            self._outcome.hear(self._index)
            self._outcome.when_settled(bell.ring)
            if not bell.wait(timeout):
                raise ClientTimeoutError(f"the record was not acknowledged within {timeout} s")
        error = outcome.error_of(self._index)
        if error is not None:
            outcome.hear(self._index)
        return error

    def metadata(self) -> RecordMetadata:
        """Return the place of the record, once `done`; offset -1 if unknown or failed."""
        outcome = self._final() or self._outcome
        offset = outcome.base_offset
        return RecordMetadata(
            outcome.topic,
            outcome.partition,
            offset + self._index if offset >= 0 else -1,
            outcome.append_time_ms if outcome.append_time_ms >= 0 else self._timestamp,
            self._key_size,
            self._value_size,
        )

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call `callback(self)` when done, from the client's I/O thread; at once if it is."""

        def look() -> None:
            if self._final() is None:
                self._outcome.when_settled(look)
            else:
                callback(self)

        self._outcome.hear(self._index)
        look()

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        while self._final() is None:
            loop = asyncio.get_running_loop()
            waiting: asyncio.Future[None] = loop.create_future()

            def wake(loop: asyncio.AbstractEventLoop = loop, waiting: asyncio.Future[None] = waiting) -> None:
                loop.call_soon_threadsafe(_resolve, waiting)

            self._outcome.when_settled(wake)
            yield from waiting.__await__()
        return self.result(0)


class _Plain(DeliveryMethods, DeliveryState):
    __slots__ = ()


if TYPE_CHECKING:

    class DeliveryFuture(DeliveryMethods):
        """The fate of one record; `result()` in threads, `await` in coroutines.

        It has the methods of `concurrent.futures.Future` that a reader of results needs. It cannot be
        cancelled.
        """

        def __init__(
            self, outcome: BatchOutcome, index: int, timestamp: int, key_size: int, value_size: int
        ) -> None: ...
elif hasattr(producer_kernel, "DeliveryFuture"):
    DeliveryFuture = producer_kernel.DeliveryFuture
    producer_kernel.give_methods(DeliveryMethods)
else:
    DeliveryFuture = _Plain


def _set_soon(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


async def wait_for_outcomes(outcomes: Iterable[BatchOutcome]) -> None:
    """Wait until every batch is settled, the parts of split ones included."""
    loop = asyncio.get_running_loop()
    for outcome in outcomes:
        pending = [outcome]
        while pending:
            current = pending.pop()
            if not current.settled:
                event = asyncio.Event()
                current.when_settled(partial(_set_soon, loop, event))
                await event.wait()
            if current.moved is not None:
                pending.extend({id(o): o for o, _ in current.moved}.values())


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
