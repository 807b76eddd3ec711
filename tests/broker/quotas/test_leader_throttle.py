"""The leader's half of the throttle of copies (KIP-73): who is held back, who is not, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.replication.partition import Partition
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

from ..dispatching import Later, dispatch, dispatcher_of
from ..fetch.test_fetch_waiting import frame_of, response_of, write
from ..live import batch, create_topic, running
from ..net import run
from ..stand_ins import OTHER

VERSION = 12
RATE = 1000


def copied(broker: Broker, partition: Partition, *in_sync: int) -> None:
    """Have a partition copied by another broker; `in_sync` are those beside the leader that are."""
    partition.make_leader(
        partition.leader_epoch + 1,
        replicas=(broker.broker_id, OTHER),
        isr=(broker.broker_id, *in_sync),
        partition_epoch=1,
        now_ms=broker.clock.now_ms(),
    )


@asynccontextmanager
async def throttled(path: Path, clock: ManualClock, *in_sync: int) -> AsyncIterator[Broker]:
    """A broker with partitions 0 and 1 of topic `a`, of which 0 is throttled, full of records."""
    async with running(path, clock=clock, pauses=ManualTimers(clock)) as broker:
        await create_topic(broker, "a", 2)
        throttle(broker)
        for partition in sorted(broker.replicas, key=lambda one: one.index):
            copied(broker, partition, *in_sync)
            for _ in range(20):
                write(broker, partition, b"x" * 200)
        yield broker


def throttle(broker: Broker, rate: int | None = RATE) -> None:
    own = broker.broker_id
    rates = {} if rate is None else {"leader.replication.throttled.rate": str(rate)}
    replicas = {} if rate is None else {"leader.replication.throttled.replicas": f"0:{own},1:{OTHER}"}
    broker.controller.alter_config(f"brokers/{own}", rates)
    broker.controller.alter_config("topics/a", replicas)


class Asking:
    """Someone who fetches both partitions, by one connection, and goes on where the answer ends."""

    def __init__(self, broker: Broker, replica_id: int = OTHER, most: int = 1000) -> None:
        self.broker, self.dispatcher, self.replica_id = broker, dispatcher_of(broker), replica_id
        self.most = most
        self.offsets = [0, 0]

    def send(self, wait_ms: int = 0, indexes: tuple[int, ...] = (0, 1)) -> tuple[Any, Later]:
        """Send a request; its answer, None while it waits."""
        later = Later()
        message = FetchRequest(
            replica_id=self.replica_id,
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic="a",
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=self.offsets[index],
                            partition_max_bytes=self.most,
                        )
                        for index in indexes
                    ],
                )
            ],
        )
        return dispatch(self.dispatcher, frame_of(message, VERSION), later), later

    def take(self, answer: Any) -> dict[int, PartitionData]:
        """The answer by partition; the next request goes on behind it."""
        found = {
            one.partition_index: one for t in response_of(answer, VERSION).responses for one in t.partitions
        }
        for index, one in found.items():
            assert one.error_code == 0
            self.offsets[index] += len(bytes(one.records)) // len(batch([b"x" * 200]))
        return found

    def fetch(self) -> dict[int, int]:
        """How many bytes of each partition one fetch gets that does not wait."""
        return {index: len(one.records) for index, one in self.take(self.send()[0]).items()}


def metric(broker: Broker, kind: str, name: str) -> float:
    return broker.metrics.snapshot()[f"kafka.server:{kind}", name, ()]


def test_who_is_not_in_sync_gets_nothing_of_what_is_throttled_until_the_rate_has_fallen(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with throttled(tmp_path, clock) as broker:
            quota, follower = broker.replicas.quotas.leader, Asking(broker)
            sent = 0
            while not quota.is_exceeded:
                got = follower.fetch()
                assert got[0] > 0 and got[1] > 0
                sent += got[0]
            assert RATE < sent == quota.byte_rate
            for _ in range(3):
                got = follower.fetch()
                assert got[0] == 0 and got[1] > 0
            # What it says of the partition is true all the same.
            answer = follower.take(follower.send()[0])[0]
            assert answer.high_watermark == answer.last_stable_offset == 20
            clock.advance(quota.pause_ms)
            assert follower.fetch()[0] > 0

    run(main)


def test_a_fetch_of_nothing_but_what_is_held_back_waits(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with throttled(tmp_path, clock) as broker:
            quota, follower = broker.replicas.quotas.leader, Asking(broker, most=100_000)
            quota.record(2 * RATE)
            answer, later = follower.send(wait_ms=3000, indexes=(0,))
            assert answer is None
            # More of the same ends no wait.
            write(broker, broker.replicas.get("a", 0), b"x" * 200)
            assert later.answer is None
            clock.advance(3000)
            broker.purgatory.expire_all()
            await asyncio.sleep(0)
            assert len(follower.take(later.answer)[0].records) == 21 * len(batch([b"x" * 200]))
            # Other partitions do.
            follower.offsets = [0, 20]
            assert quota.is_exceeded
            answer, later = follower.send(wait_ms=3000)
            assert answer is None
            write(broker, broker.replicas.get("a", 1), b"x" * 200)
            await asyncio.sleep(0)
            got = follower.take(later.answer)
            assert not got[0].records
            assert got[1].records

    run(main)


def test_who_is_in_sync_is_never_held_back_and_counts(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with throttled(tmp_path, clock, OTHER) as broker:
            quota, follower = broker.replicas.quotas.leader, Asking(broker)
            quota.record(100 * RATE)
            total = 0
            while got := follower.fetch()[0]:
                total += got
            assert total == 20 * len(batch([b"x" * 200]))
            assert quota.byte_rate == 100 * RATE + total

    run(main)


def test_consumers_are_not_held_back_and_are_counted_apart(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with throttled(tmp_path, clock) as broker:
            quota, partition = broker.replicas.quotas.leader, broker.replicas.get("a", 0)
            quota.record(2 * RATE)
            partition.log.commit_all()
            consumer = Asking(broker, replica_id=-1)
            read = sum(consumer.fetch().values())
            assert consumer.offsets[0] > 0
            assert metric(broker, "LeaderReplication", "byte-rate") == 2 * RATE
            assert metric(broker, "BrokerTopicMetrics", "BytesOutPerSec") == read
            assert metric(broker, "BrokerTopicMetrics", "ReplicationBytesOutPerSec") == 0
            throttle(broker, None)
            partition.adding = (OTHER,)
            got = Asking(broker).fetch()
            assert got[0] > 0
            assert metric(broker, "BrokerTopicMetrics", "BytesOutPerSec") == read
            assert metric(broker, "BrokerTopicMetrics", "ReplicationBytesOutPerSec") == sum(got.values())
            assert metric(broker, "BrokerTopicMetrics", "ReassignmentBytesOutPerSec") == got[0]
            # Without a throttle nothing is counted for it.
            assert metric(broker, "LeaderReplication", "byte-rate") == 2 * RATE

    run(main)
