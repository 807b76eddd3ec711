"""Whom a consumer's fetch asks, and in which leader epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.client.aio.fetcher import Fetcher
from odradek.client.config import ConsumerConfig, build
from odradek.client.core.fetch_buffer import FetchBuffer
from odradek.client.core.metadata import MetadataCache
from odradek.client.core.subscription_state import SubscriptionState
from odradek.client.types import TopicPartition
from odradek.errors import NetworkError
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from waiting import within

TP = TopicPartition("t", 0)


class _Connection:
    """Writes down what is asked."""

    def __init__(self, node: int, asked: list[tuple[int, int]]) -> None:
        self._node, self._asked = node, asked

    def pick(self, key: object, at_most: int) -> int:
        return at_most

    async def send(self, request: Any, version: int) -> Any:
        self._asked.append((self._node, request.topics[0].partitions[0].current_leader_epoch))
        raise NetworkError("the connection broke")


class _Cluster:
    """Connections that come when a test says so."""

    def __init__(self) -> None:
        self.metadata = MetadataCache()
        self.on_update: list[Callable[[], None]] = []
        self.closed = False
        self.may_connect = asyncio.Event()
        self.asked: list[tuple[int, int]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def led_by(self, leader: int, epoch: int) -> None:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        self.metadata.update(
            MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
                topics=[MetadataResponseTopic(name="t", partitions=[partition])],
            ),
            replace_all=True,
        )

    def now_ms(self) -> float:
        return 0.0

    def backoff_left_ms(self, node: int, key: object) -> float:
        return 0.0

    def request_update(self) -> None:
        pass

    def spawn(self, work: Any) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work))

    async def connection(self, node: int, key: object) -> _Connection:
        await within(self.may_connect.wait(), "leave to connect")
        return _Connection(node, self.asked)


def test_a_broker_that_no_longer_leads_is_not_asked_in_its_successors_epoch() -> None:
    """It may follow in that epoch, behind the successor: its answer that an offset is out of range, which is
    no news of the log at all, would throw the consumer back to the beginning."""

    async def scenario() -> None:
        cluster: Any = _Cluster()
        positions = SubscriptionState("earliest")
        positions.assign([TP])
        positions.assigned[TP].seek(45)
        cluster.led_by(1, 0)
        config = build(ConsumerConfig, {"bootstrap_servers": "h:1"})
        fetcher = Fetcher(config, cluster, positions, FetchBuffer(False, None, None), lambda: None)
        fetcher.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # The connection takes its time; meanwhile another broker is known to lead.
        cluster.led_by(2, 1)
        cluster.may_connect.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert set(cluster.asked) == {(2, 1)}
        fetcher.stop()

    asyncio.run(scenario())
