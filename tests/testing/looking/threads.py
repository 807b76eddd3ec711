"""Clients that do something in a thread of their own while a test waits for the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from odradek import Consumer
from odradek.testing import Broker, Cluster
from waiting import joined


@contextmanager
def meanwhile(step: Callable[[], object]) -> Iterator[None]:
    """Do a step again and again, until the end of the block; it ends by itself where it returns False."""
    over = threading.Event()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            while not over.is_set() and step() is not False:
                pass
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        joined(thread)
    assert not problems


@contextmanager
def consuming(servers: Broker | Cluster, topic: str, group: str, client_id: str = "me") -> Iterator[None]:
    """A consumer that polls, and commits what it was given."""
    with (
        Consumer(
            bootstrap_servers=servers.bootstrap_servers,
            group_id=group,
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        consumer.subscribe([topic])

        def step() -> None:
            if consumer.poll(0.1):
                consumer.commit()

        with meanwhile(step):
            yield
