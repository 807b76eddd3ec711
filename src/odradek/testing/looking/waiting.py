"""Waits of a test, woken by the brokers that they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition
from time import monotonic
from typing import Protocol, TypeVar

from odradek.errors import BrokerNotAvailableError, KafkaError

T = TypeVar("T")

TIMEOUT_S = 10.0
"""How long a wait lasts where nothing else is said."""


_LOOK_AGAIN_S = 0.1


class WaitTimeoutError(AssertionError, TimeoutError):
    """A wait of a test has been in vain; the message says what was there instead."""


class Told(Protocol):
    """A broker that tells of its events: `odradek.testing.broker.Broker`."""

    def listen(self, on_event: Callable[[], object]) -> None:
        """Call `on_event` in the broker's loop with each event from now on, in all of its lives."""
        ...

    def leave(self, on_event: Callable[[], object]) -> None:
        """Call it no more."""
        ...


class Events:
    """Counts what has happened, for a thread that waits for more.

    Attributes:
        count: of events.
        is_given_up: whether nobody waits any more.
    """

    def __init__(self) -> None:
        self._more = Condition()
        self.count = 0
        self.is_given_up = False

    def __call__(self) -> None:
        """Count one."""
        with self._more:
            self.count += 1
            self._more.notify_all()

    def give_up(self) -> None:
        """End the wait."""
        with self._more:
            self.is_given_up = True
            self._more.notify_all()

    def more_than(self, count: int, timeout_s: float) -> bool:
        """Wait until there are more than `count`; returns whether there are."""
        with self._more:
            self._more.wait_for(lambda: self.count > count or self.is_given_up, max(0.0, timeout_s))
            return self.count > count


class Waits:
    """The waits of one thread that another may give up."""

    def __init__(self) -> None:
        self.is_given_up = False
        self.events: Events | None = None

    def give_up(self) -> None:
        """End the wait that goes on, and all later ones."""
        self.is_given_up = True
        if self.events is not None:
            self.events.give_up()


waits: ContextVar[Waits | None] = ContextVar("waits", default=None)
"""Of this thread, where somebody may give them up: a task that is cancelled (`aio`)."""


def wait_until(
    brokers: Sequence[Told],
    look: Callable[[], T],
    *,
    holds: Callable[[T], object],
    awaited: str,
    instead: Callable[[T | None, KafkaError | None], str],
    timeout_s: float,
) -> T:
    """Return what `look` gives as soon as that holds. It is looked again when a broker tells of something.

    Args:
        brokers: those that tell.
        look: called in this thread; a `KafkaError` of it counts as nothing yet.
        holds: judges what it gave.
        awaited: in words; follows "waited in vain for".
        instead: tells of what was there instead, by what `look` gave, or raised, last.
        timeout_s: how long to wait, in seconds.

    Raises:
        WaitTimeoutError: it has not come in time.
    """
    deadline = monotonic() + timeout_s
    value: T | None = None
    with _told(brokers) as events:
        while True:
            count = events.count
            problem: KafkaError | None = None
            try:
                value = look()
                if holds(value):
                    return value
            except KafkaError as error:
                problem = error
            left_s = deadline - monotonic()
            # A broker that has just gone, or stands still, may tell of nothing more.
            looks_again = isinstance(problem, BrokerNotAvailableError) and left_s > _LOOK_AGAIN_S
            if looks_again:
                left_s = _LOOK_AGAIN_S
            if not events.more_than(count, left_s) and (events.is_given_up or not looks_again):
                break
    raise WaitTimeoutError(f"waited {timeout_s:g} s in vain for {awaited}\n{instead(value, problem)}")


@contextmanager
def _told(brokers: Sequence[Told]) -> Iterator[Events]:
    events, of_thread = Events(), waits.get()
    if of_thread is not None:
        of_thread.events = events
        events.is_given_up = of_thread.is_given_up
    try:
        for broker in brokers:
            broker.listen(events)
        yield events
    finally:
        for broker in brokers:
            broker.leave(events)
