"""What every client must do with a broker: produce, share a topic between members, live through a restart.

A client is adapted in a few lines (`Client`); `run` is the same story for all.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import waiting

LIMIT_S = 120.0
"""Bounds what never comes; a busy machine may take a minute for what does."""


class Member(Protocol):
    """One member of a consumer group."""

    def poll(self) -> list[bytes]:
        """Values that have arrived, waiting a short while for them."""
        ...

    def partitions(self) -> set[int]:
        """The partitions of the topic that the member had after its last poll (other threads ask)."""
        ...

    def close(self) -> None:
        """Commit and leave the group."""
        ...


class Client(Protocol):
    """A client library: how to send and how to join a group."""

    def produce(self, topic: str, values: list[bytes]) -> None:
        """Send and wait until all are acknowledged."""
        ...

    def join(self, topic: str, group: str) -> Member:
        """A new member of a group, reading from the earliest offset."""
        ...


class _Reader(threading.Thread):
    """Polls a member until told to end."""

    def __init__(self, member: Member) -> None:
        super().__init__(daemon=True)
        self.member = member
        self.values: list[bytes] = []
        self.error: Exception | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self.values += self.member.poll()
            self.member.close()
        except Exception as error:  # reported by `end` in the test's own thread
            self.error = error

    def end(self) -> None:
        self._ended.set()
        waiting.joined(self, LIMIT_S)
        if self.error is not None:
            raise self.error


def until(what: str, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Wait for a condition; fail by name after the limit."""
    waiting.until(condition, what, within_s=limit_s, every_s=0.02)


def collect_what_clients_left() -> None:
    """Collect sockets that kafka-python has not closed, those whose connection was refused.

    Whoever lets it lose its broker calls this when it is done with it. Else they are found some time later,
    and fail a test that has nothing to do with them: of another file, if this one was the last.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def run(client: Client, topic: str, restart: Callable[[], None]) -> None:
    """Two members share a topic; one leaves; the broker restarts in between; nothing is lost.

    The topic has four partitions and is empty. At-least-once is what consumers promise across a rebalance,
    so values may repeat, but each must come.
    """
    first = [b"first-%d" % i for i in range(200)]
    second = [b"second-%d" % i for i in range(200)]
    third = [b"third-%d" % i for i in range(200)]
    client.produce(topic, first)
    one = _Reader(client.join(topic, "interop"))
    one.start()
    until("the first member has all partitions", lambda: one.member.partitions() == {0, 1, 2, 3})
    until("the first member has read the first values", lambda: set(first) <= set(one.values))
    two = _Reader(client.join(topic, "interop"))
    two.start()

    def shared() -> bool:
        theirs = one.member.partitions(), two.member.partitions()
        # Each tells of its last poll: one that was given them anew may not have told yet.
        return all(len(partitions) == 2 for partitions in theirs) and not theirs[0] & theirs[1]

    until("the partitions are shared two and two", shared)
    restart()
    client.produce(topic, second)
    until("both have read on after the restart", lambda: set(second) <= set(one.values) | set(two.values))
    one.end()
    client.produce(topic, third)
    until("the one that stays has all partitions", lambda: two.member.partitions() == {0, 1, 2, 3})
    until("the one that stays has read the rest", lambda: set(third) <= set(two.values))
    two.end()
    counts = Counter(one.values + two.values)
    assert set(counts) == {*first, *second, *third}
