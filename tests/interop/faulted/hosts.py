"""The broker, or the cluster, at which a client meets faults, and what is done to it by hand."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack
from typing import Self

from odradek import Admin, Consumer, Producer
from odradek.testing import Broker, Cluster, Fault
from odradek.testing.faults.set_fault import SetFault
from waiting import WITHIN_S, until

TOPIC, GROUP, TRANSACTIONAL_ID, CLIENT_ID = "orders", "billing", "orders-1", "faulted"
PAUSE_S = 3.0


class Host:
    """One broker, or three, with the topic `orders`; gone at the end of a `with` block."""

    def __init__(self, *, is_cluster: bool) -> None:
        self._block = ExitStack()
        self._is_cluster = is_cluster
        self._before: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.own: Broker | Cluster = self._block.enter_context(Cluster(3) if self._is_cluster else Broker())
        return self

    def __exit__(self, *_: object) -> None:
        self._block.close()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return self.own.bootstrap_servers

    # ------------------------------------------------------------------ what it is asked

    def requests(self) -> Counter[str]:
        """How many requests of each API have come so far, in all lives."""
        brokers = self.own.brokers if isinstance(self.own, Cluster) else [self.own]
        return sum((broker.requests_by_api() for broker in brokers), self._before)

    def set(self, faults: tuple[Fault, ...]) -> list[SetFault]:
        """Set faults."""
        return [self.own.set_fault(fault) for fault in faults]

    # ------------------------------------------------------------------ what is there

    def create_topic(self) -> None:
        """Create the topic."""
        self.own.create_topic(TOPIC)

    def write(self, numbers: range) -> None:
        """Write numbers, as the programs read them."""
        with Producer(bootstrap_servers=self.bootstrap_servers, client_id="writer") as producer:
            for sent in [producer.send(TOPIC, b"%d" % number, partition=0) for number in numbers]:
                sent.result(WITHIN_S)

    def written(self) -> list[int]:
        """The numbers in the log that a reader of what is committed sees, in order."""
        values: list[int] = []
        with Consumer(
            bootstrap_servers=self.bootstrap_servers, client_id="reader", isolation_level="read_committed"
        ) as consumer:
            at = (TOPIC, 0)
            consumer.assign([at])
            consumer.seek_to_beginning(at)
            (end,) = consumer.end_offsets([at]).values()

            def is_read() -> bool:
                if consumer.position(at) < end:
                    values.extend(int(record.value or b"") for record in consumer.poll(100))
                return consumer.position(at) >= end

            until(is_read, f"the log up to {end}", every_s=0)
        return values

    def committed(self) -> int:
        """The offset that the group has committed; -1 where it has none."""
        with Admin(bootstrap_servers=self.bootstrap_servers, client_id="reader") as admin:
            offsets = [offset.offset for offset in admin.list_group_offsets(GROUP).values()]
        return offsets[0] if offsets else -1

    def has_topic(self) -> bool:
        """Whether there is the topic."""
        with Admin(bootstrap_servers=self.bootstrap_servers, client_id="reader") as admin:
            return TOPIC in admin.list_topics()

    # ------------------------------------------------------------------ by hand

    def _broker(self) -> Broker:
        assert isinstance(self.own, Broker)
        return self.own

    def fence_producer(self) -> None:
        """Another producer takes the transactional id."""
        self.own.fence_producer(TRANSACTIONAL_ID)

    def expire_session(self) -> None:
        """The session of the group's member runs out."""
        self.own.expire_session(GROUP)

    def pause(self) -> None:
        """The broker stands still for three seconds, while the client works."""
        broker = self._broker()
        broker.pause()
        threading.Timer(PAUSE_S, broker.resume).start()

    def cut_client(self) -> None:
        """The client's connections are closed, at once."""
        self.own.cut_client(CLIENT_ID)

    def kill_and_restart(self) -> None:
        """The broker dies, and is there again."""
        broker = self._broker()
        self._before = self.requests()
        broker.kill()
        broker.restart()

    def move_leader(self) -> None:
        """Another broker leads."""
        assert isinstance(self.own, Cluster)
        leader = self.own.leader(TOPIC)
        self.own.move_leader(TOPIC, 0, (leader + 1) % 3)
