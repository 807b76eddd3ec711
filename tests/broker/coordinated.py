"""Coordinators of two brokers over real partitions, whose leaders, replication and wires are the test's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from log.following import append_follower
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.event_loop.slices import Slicer, is_in_steps, take_or_wait
from odradek.broker.groups.runtime import GroupRuntime
from odradek.broker.transactions.markers import MarkerWriter
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.transactions.runtime import TransactionRuntime
from odradek.cluster import paths
from odradek.cluster.controller.event_queue import ImmediateQueue
from odradek.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint, ProducerIdBlock
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.commands import ProducerResult
from odradek.coordinators.transactions.states import TransactionState
from odradek.errors import NotLeaderOrFollowerError
from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.delayed import Purgatory
from odradek.replication.partition import Partition
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers

from .fake_channels import FakeChannels

FIRST, SECOND = 1, 2
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
LISTENER = "PLAINTEXT"


class Replicas:
    """Stands in for `ReplicaManager` where partitions come and go as the test says."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.partitions: dict[tuple[str, int], Partition] = {}

    def find(self, topic: str, index: int) -> Partition | None:
        return self.partitions.get((topic, index))

    def get(self, topic: str, index: int) -> Partition:
        found = self.find(topic, index)
        if found is None:
            raise NotLeaderOrFollowerError
        return found


class ControllerStandIn:
    """The part of a controller that every broker has: the metadata store, and producer ids."""

    def __init__(self, store: MemoryStore, first_id: int) -> None:
        self.store = store
        self.event_queue = ImmediateQueue()
        self.is_active = False
        self._first = first_id

    def allocate_producer_ids(self, above: int = -1) -> ProducerIdBlock:
        self._first += 1000
        return ProducerIdBlock(1, self._first, self._first + 999)


class Node:
    """One broker's coordinators. It is also the `broker` that handlers are given."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.clock = self.stopwatch = cluster.clock
        self.timers = self.pauses = cluster.timers
        self.loop = asyncio.get_running_loop()
        self.config = BrokerConfig(
            {
                "broker.id": str(broker_id),
                "transaction.state.log.replication.factor": "3",
                "transaction.state.log.min.isr": "2",
            }
        )
        self.purgatory = Purgatory(self.timers)
        self.replicas: Any = Replicas(broker_id)
        self.channels: Any = FakeChannels()
        self.knows_cluster = True
        self.controller: Any = ControllerStandIn(MemoryStore(cluster.server), broker_id * 1_000_000)
        self.groups = GroupRuntime(
            broker_id=broker_id,
            replicas=self.replicas,
            purgatory=self.purgatory,
            controller=self.controller,
            clock=self.clock,
            timers=self.timers,
            pauses=self.timers,
            config=self.config,
        )
        writer = MarkerWriter(
            self.replicas, self.purgatory, lambda: self.groups, self.clock, 30_000, Slicer(lambda: 0.0)
        )
        producer_ids = ProducerIds(self.controller)
        producer_ids.use(producer_ids.claiming()())
        self.transactions = TransactionRuntime(
            broker_id=broker_id,
            replicas=self.replicas,
            purgatory=self.purgatory,
            controller=self.controller,
            producer_ids=producer_ids,
            writer=writer,
            clock=self.clock,
            timers=self.timers,
            stopwatch=self.clock,
            pauses=self.timers,
            loop=self.loop,
            config=self.config,
            transaction_version=0,
            channels=self.channels,
        )

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    def follow(self) -> None:
        """The metadata has changed."""
        self.groups.follow(self.image)
        self.transactions.follow(self.image)

    def on_leadership(self, *topics: str) -> None:
        """Some replicas lead or follow now."""
        self.groups.follow_leaders(topics)
        self.transactions.follow_leaders(topics)

    def add(self, topic: str, index: int) -> Partition:
        """A replica here, that neither leads nor follows yet."""
        log = open_partition_log(
            Path(f"/data/{topic}-{index}"), topic, index, LogConfig(), MemoryFileSystem(), self.clock
        )
        partition = Partition(
            log, topic=topic, index=index, broker_id=self.broker_id, on_progress=self.purgatory.check
        )
        self.replicas.partitions[topic, index] = partition
        return partition

    async def serve(self, handle: Any, request: Any, version: int) -> Any:
        """What a handler answers to a request of another broker."""
        answer = handle(_Context(self, version), request)
        answer = take_or_wait(answer) if is_in_steps(answer) else answer
        return await answer if asyncio.isfuture(answer) else answer


class _Context:
    listener_name = LISTENER

    def __init__(self, broker: Node, api_version: int) -> None:
        self.broker = broker
        self.api_version = api_version

    def authorize(self, *args: object, **audit: object) -> bool:
        return True

    def authorize_by_type(self, *asked: object) -> bool:
        return True

    def may_write(self, topic: str) -> bool:
        return True

    def may_write_with(self, transactional_id: str) -> bool:
        return True


class Cluster:
    """Two brokers with replicas of the same partitions.

    Attributes:
        image: what both know of it; `change` makes the next one.
    """

    def __init__(self, **topics: int) -> None:
        """Args: topics: partitions by topic, led by the first broker."""
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.server = MemoryServer(self.clock)
        self.image = ClusterImage(
            brokers={
                broker: BrokerImage(
                    broker, 0, BrokerRegistration((Endpoint(LISTENER, f"host-{broker}", 9092),))
                )
                for broker in (FIRST, SECOND)
            }
        )
        store = MemoryStore(self.server)
        for path in ("/brokers", paths.TOPICS, "/admin", paths.DELETE_TOPICS):
            store.create(path)
        self.nodes = {broker: Node(self, broker) for broker in (FIRST, SECOND)}
        for topic, count in topics.items():
            store.create(paths.topic(topic))
            for node in self.nodes.values():
                for index in range(count):
                    node.add(topic, index)
            self.show(topic, dict.fromkeys(range(count), (FIRST, 0)))
            for index in range(count):
                self.lead(topic, index, FIRST, 0)
        self.follow()

    def __getitem__(self, broker: int) -> Node:
        return self.nodes[broker]

    def show(self, topic: str, leaders: dict[int, tuple[int, int]]) -> None:
        """Have the image say who leads a topic's partitions, and in which epoch."""
        both = (FIRST, SECOND)
        partitions = {
            index: PartitionImage(both, both, leader, epoch, 0, 1)
            for index, (leader, epoch) in leaders.items()
        }
        topics = {**self.image.topics, topic: TopicImage(topic, bytes(15) + b"\1", partitions)}
        self.image = self.image._replace(topics=topics)

    def lead(self, topic: str, index: int, leader: int, epoch: int) -> None:
        """Have the replicas led by a broker; nobody is told."""
        both = (FIRST, SECOND)
        for node in self.nodes.values():
            partition = node.replicas.get(topic, index)
            if node.broker_id == leader:
                partition.make_leader(
                    epoch, replicas=both, isr=both, partition_epoch=epoch, now_ms=self.clock.now_ms()
                )
            else:
                partition.make_follower(leader, epoch, replicas=both, isr=both, partition_epoch=epoch)

    def follow(self) -> None:
        """Both brokers hear of the image."""
        for node in self.nodes.values():
            node.follow()
        self.timers.advance(0)

    def move(self, topic: str, index: int, leader: int, epoch: int) -> None:
        """Another broker leads a partition, as the replicas and the image say, and all have heard of it."""
        self.lead(topic, index, leader, epoch)
        for node in self.nodes.values():
            node.on_leadership(topic)
        known = self.image.topics[topic].partitions.items()
        self.show(topic, {i: (one.leader, one.leader_epoch) for i, one in known} | {index: (leader, epoch)})
        self.follow()

    def copy(self, topic: str, index: int) -> None:
        """Have the follower fetch all that the leader has, without telling how far it has come."""
        leader, follower = self._roles(topic, index)
        end = leader.log.log_end_offset
        while follower.log.log_end_offset < end:
            start = follower.log.log_end_offset
            records = leader.log.read(start, 1 << 20, upper_bound=end, min_one_batch=True).records
            append_follower(follower.log, bytes(records))

    def commit(self, topic: str, index: int) -> None:
        """Have the follower fetch all, and tell: all of it is committed."""
        self.copy(topic, index)
        leader, follower = self._roles(topic, index)
        leader.record_follower_fetch(
            follower.broker_id,
            fetch_offset=follower.log.log_end_offset,
            log_start_offset=0,
            now_ms=self.clock.now_ms(),
        )
        self.timers.advance(0)

    def _roles(self, topic: str, index: int) -> tuple[Partition, Partition]:
        one, other = (node.replicas.get(topic, index) for node in self.nodes.values())
        return (one, other) if one.is_leader else (other, one)


class Producer:
    """A transactional id at one coordinator; what has been answered is in `results`."""

    def __init__(self, node: Node, producer_id: int = -1, epoch: int = -1) -> None:
        self.coordinator = node.transactions.coordinator
        self.timers = node.timers
        self.name = "x"
        self.producer_id, self.epoch = producer_id, epoch
        self.results: list[Any] = []

    def init(self) -> None:
        self.coordinator.init_producer_id(self.name, 60_000, None, Reply(self._take, ProducerResult))
        self.timers.advance(0)

    def _take(self, result: ProducerResult) -> None:
        self.results.append(result.error)
        if not result.error:
            self.producer_id, self.epoch = result.producer_id, result.epoch

    def add(self, *partitions: tuple[str, int]) -> None:
        reply = Reply(self.results.append, lambda error: dict.fromkeys(partitions, error))
        self.coordinator.add_partitions(self.name, self.producer_id, self.epoch, partitions, reply)
        self.timers.advance(0)

    def end(self, *, commit: bool) -> None:
        reply = Reply(lambda result: self.results.append(result.error), ProducerResult)
        self.coordinator.end("x", self.producer_id, self.epoch, commit=commit, client_version=0, reply=reply)
        self.timers.advance(0)


def begun(cluster: Cluster, *partitions: tuple[str, int]) -> Producer:
    """A producer whose transaction has these partitions, all of it committed to the log."""
    producer = Producer(cluster[FIRST])
    producer.init()
    cluster.commit(TRANSACTIONS, 0)
    producer.add(*partitions)
    cluster.commit(TRANSACTIONS, 0)
    assert producer.results == [ErrorCode.NONE, dict.fromkeys(partitions, ErrorCode.NONE)]
    producer.results.clear()
    return producer


def described(node: Node) -> TransactionState:
    return node.transactions.coordinator.describe("x").state
