"""A cluster of controllers over one store in memory, whose brokers do what they are told at once.

Work that watches post waits until `World.settle` runs it, one piece after the other, as the controller's
thread would. A broker whose store fails with `Crash` is dead from there on: its session ends.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.controller.control_request_forms import deleted_by
from odradek.cluster.controller.control_requests import ControlRequests, Requests
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage
from odradek.cluster.loading import load_image
from odradek.cluster.nodes import BrokerRegistration, Endpoint
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Op, OpResult, StoreUnavailable
from odradek.errors import KafkaStorageError
from odradek.util.clock import ManualClock
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest

from .scenario import Config


class Crash(Exception):
    """The process died."""


class MortalStore(MemoryStore):
    """A session that dies before, or just after, its n-th write from now, or whose answers are lost.

    Attributes:
        writes_left: how many writes there are until then, that one included.
        after: whether that one is done.
        loses: whether the process lives on, and hears only that the store is unavailable.
        away: nothing can be read or written.
    """

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.writes_left: float = float("inf")
        self.after = False
        self.loses = False
        self.away = False
        self.dead = False

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        self._check_away()
        if self.dead:
            raise Crash
        self.writes_left -= 1
        if self.writes_left > 0:
            return super().multi(ops)
        if self.loses:
            self.writes_left = float("inf")
            if self.after:
                super().multi(ops)
            raise StoreUnavailable("/", "the answer is lost", outcome_unknown=True)
        self.dead = True
        if self.after:
            super().multi(ops)
        raise Crash

    def get(self, path: str, watch: Any = None) -> Any:
        self._check_away()
        if self.dead:
            raise Crash
        return super().get(path, watch)

    def get_many(self, paths: Sequence[str]) -> Any:
        self._check_away()
        if self.dead:
            raise Crash
        return super().get_many(paths)

    def exists(self, path: str, watch: Any = None) -> Any:
        self._check_away()
        return super().exists(path, watch)

    def children(self, path: str, watch: Any = None) -> Any:
        self._check_away()
        return super().children(path, watch)

    def _check_away(self) -> None:
        if self.away:
            raise StoreUnavailable("/", "the store is away")


class Queue:
    """The event queue of one controller: what is posted waits for the world."""

    def __init__(self, world: World, broker: int) -> None:
        self.world, self.broker = world, broker

    def run(self, work: Callable[[], Any]) -> Any:
        return work()

    def post(self, work: Callable[[], object]) -> None:
        self.world.posted.append((self.broker, work))

    def publish(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:
        change()


class Channels:
    """Stands in for the channels of a controller: notes what it says, and answers deletions."""

    def __init__(self, world: World, controller: KafkaController) -> None:
        self.world, self.controller = world, controller
        self.builder: ControlRequests | None = None
        self.awaited: list[int] = []

    def start(self, image: ClusterImage) -> None:
        assert self.builder is None, "no term begins inside another"
        self.builder = ControlRequests("3.9", "PLAINTEXT", self.controller.broker_id)
        self._send(self.builder.everything(image, self.controller.offline_replicas))

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        assert self.builder is not None, "nothing is told outside a term"
        controller = self.controller
        self._send(self.builder.changes(image, delta, controller.offline_replicas, controller.shutting_down))

    def resend(self, broker_id: int) -> None:
        assert self.builder is not None
        self._send(self.builder.resend(self.controller.image, broker_id))

    def await_return(self, broker: BrokerImage) -> None:
        assert self.builder is not None
        self.awaited.append(broker.broker_id)

    def stop(self) -> None:
        assert self.builder is not None
        self.builder = None

    def _send(self, requests: Requests) -> None:
        for broker, sent in requests.items():
            for message, version, _ in sent:
                self.world.note(broker, message, version, self.controller)


def _note_deleted(by: KafkaController, broker: int, deleted: set[tuple[str, int]]) -> None:
    # As `ControllerChannelManager` does, which logs the error.
    if by.is_active:
        with suppress(KafkaStorageError):
            by.note_deleted(broker, deleted)


class World:
    """Brokers by id, and what they were told: `told` has (broker, message) in order."""

    def __init__(self, brokers: Sequence[int] = (1, 2, 3), protocol: str = "3.9") -> None:
        self.config = Config()
        self.config.inter_broker_protocol_version = protocol
        self.clock = ManualClock(1_000_000)
        self.server = MemoryServer(self.clock)
        self.reader = MemoryStore(self.server)
        self.stores: dict[int, MortalStore] = {}
        self.controllers: dict[int, KafkaController] = {}
        self.channels: dict[int, Channels] = {}
        self.posted: deque[tuple[int, Callable[[], object]]] = deque()
        self.told: list[tuple[int, Any]] = []
        self.deaf: set[int] = set()
        self.leader_epochs: dict[tuple[int, str, int], tuple[int, int]] = {}
        for broker in brokers:
            self.begin(broker)

    def begin(self, broker: int, *, settle: bool = True) -> KafkaController:
        """A broker starts."""
        store = MortalStore(self.server)
        controller = KafkaController(store, broker, self.config, self.clock, random.Random(broker))
        controller.event_queue = Queue(self, broker)
        self.channels[broker] = Channels(self, controller)
        controller.add_control_listener(self.channels[broker])
        self.stores[broker], self.controllers[broker] = store, controller
        controller.open()
        controller.start(BrokerRegistration((Endpoint("PLAINTEXT", "h", 9000 + broker),)))
        if settle:
            self.settle()
        return controller

    def kill(self, *brokers: int) -> None:
        """Processes are gone, and their sessions are found to be over, those of several at once."""
        for broker in brokers:
            del self.controllers[broker]
            self.stores.pop(broker).expire()
        self.settle()

    def settle(self) -> None:
        """Run what was posted until nothing is left."""
        while self.posted:
            broker, work = self.posted.popleft()
            if broker in self.controllers:
                try:
                    work()
                except Crash:
                    del self.controllers[broker]
                    self.stores.pop(broker).expire()

    def do(self, broker: int, work: Callable[[KafkaController], object]) -> None:
        """Have a controller do something, which may be its death, and see what comes of it."""
        self.posted.append((broker, lambda: work(self.controllers[broker])))
        self.settle()

    @property
    def active(self) -> KafkaController:
        (active,) = [c for c in self.controllers.values() if c.is_active]
        return active

    def note(self, broker: int, message: Any, version: int, by: KafkaController) -> None:
        """A broker is told something."""
        self.told.append((broker, message))
        if isinstance(message, StopReplicaRequest):
            deleted = deleted_by(message, version)
            if deleted and broker not in self.deaf:
                self.posted.append((by.broker_id, partial(_note_deleted, by, broker, deleted)))
        if isinstance(message, LeaderAndIsrRequest):
            for topic in message.topic_states:
                for state in topic.partition_states:
                    key = (broker, topic.topic_name + topic.topic_id.hex(), state.partition_index)
                    epoch = (state.leader_epoch, message.controller_epoch)
                    before = self.leader_epochs.get(key, (0, 0))
                    assert epoch[0] >= before[0], "leader epochs do not go back"
                    self.leader_epochs[key] = epoch

    def take_told(self) -> list[tuple[int, str]]:
        """What was told since the last time: brokers and the kinds of requests."""
        told = [(b, type(message).__name__.removesuffix("Request")) for b, message in self.told]
        self.told.clear()
        return told

    def create(self, name: str, *rows: Sequence[int]) -> None:
        """Create a topic."""
        self.active.create_topic(NewTopic(name, assignment=dict(enumerate(rows))))
        self.settle()

    def join_isr(self, topic: str, index: int, *brokers: int) -> None:
        """The leader says that these brokers are in sync, and no others."""
        partition = self.active.image.topics[topic].partitions[index]
        change = IsrChange(
            topic, index, partition.leader, partition.leader_epoch, partition.partition_epoch, brokers
        )
        self.do(self.active.broker_id, lambda active: active.alter_partition(change))

    def everybody_catches_up(self) -> None:
        """Every live replica of every partition with a leader comes into the ISR."""
        for _ in range(3):
            for name, topic in list(self.active.image.topics.items()):
                if name in self.active.image.marked:
                    continue
                for index in topic.partitions:
                    partition = self.active.image.partition(name, index)
                    if partition is None:
                        # Its controller has died meanwhile, and another one has deleted the topic.
                        continue
                    able = set(self.active.image.brokers) - (self.active.shutting_down.keys() - partition.isr)
                    live = [b for b in partition.replicas if b in able]
                    if partition.leader >= 0 and set(live) != set(partition.isr):
                        self.join_isr(name, index, *live)

    def check(self) -> None:
        """One controller; its image is what the nodes say; leaders live and are in sync; all know them."""
        stored = load_image(self.reader)
        live = {b: broker for b, broker in stored.brokers.items() if b not in self.active.refused}
        assert self.active.image == stored._replace(brokers=live)
        for controller in self.controllers.values():
            if not controller.is_active:
                assert not controller.image.topics
                assert not controller.image.brokers
        for topic in self.active.image.topics.values():
            if topic.name in self.active.image.marked:
                continue
            for index, partition in topic.partitions.items():
                assert not partition.is_new, (topic.name, index)
                assert set(partition.isr) <= set(partition.replicas)
                assert partition.isr
                if set(partition.isr) & set(self.active.image.brokers):
                    assert partition.leader in self.active.image.brokers, (topic.name, index, partition)
                    assert partition.leader in partition.isr
