"""Runs scenario files: commands to a small cluster over one store, and what then is written and told.

A line that begins with `> ` is a command; the lines below it are what it made happen: `write` for each
operation on the store, in order, `multi` in front of those that are one transaction; `N told:` for each delta
that broker N's controller told its listeners; `=` for an answer. Set `UPDATE_TRANSCRIPTS=1` to have the files
rewritten.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from odradek.cluster.configs.config_def import ConfigValue
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.controller.event_queue import ImmediateQueue
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint, encode_registration
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Check, Create, Delete, Op, OpResult, SetData, StoreError
from odradek.errors import KafkaError
from odradek.util.clock import ManualClock


class Config:
    """What a controller needs of a broker's configs."""

    num_partitions = 1
    default_replication_factor = 1
    delete_topic_enable = True
    inter_broker_protocol_version = "3.9"

    def __init__(self) -> None:
        self.defaults: dict[str, ConfigValue] = {"unclean.leader.election.enable": False}

    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        return self.defaults


class Obedient:
    """A control listener in the place of the live brokers: they delete at once what they are told to."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    def start(self, image: ClusterImage) -> None:
        """What is marked is deleted."""
        self._delete(image, image.marked)

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """What is marked now, or by a broker that has come, is deleted."""
        self._delete(image, image.marked if delta.brokers else delta.topics_marked)

    def _delete(self, image: ClusterImage, names: Collection[str]) -> None:
        replicas = [
            (broker, name, index)
            for name in sorted(names)
            for index, partition in image.topics[name].partitions.items()
            for broker in partition.replicas
            if broker in image.brokers
        ]
        for broker in sorted({replica[0] for replica in replicas}):
            gone = [(name, index) for one, name, index in replicas if one == broker]
            self._controller.event_queue.post(partial(self._controller.note_deleted, broker, gone))

    def resend(self, broker_id: int) -> None:
        """All replicas can be used."""

    def await_return(self, broker: BrokerImage) -> None:
        """Nobody refuses."""

    def stop(self) -> None:
        """Nothing is kept."""


class Posts(ImmediateQueue):
    """What is posted comes after what is under way, as in a broker."""

    def __init__(self) -> None:
        self._posted: deque[Callable[[], object]] = deque()
        self._depth = 0

    def run(self, work: Callable[[], Any]) -> Any:
        self._depth += 1
        try:
            return work()
        finally:
            self._depth -= 1
            while self._posted and not self._depth:
                self.run(self._posted.popleft())

    def post(self, work: Callable[[], object]) -> None:
        if self._depth:
            self._posted.append(work)
        else:
            self.run(work)


class TracingStore(MemoryStore):
    """A session that notes its transactions."""

    def __init__(self, server: MemoryServer, note: Callable[[Sequence[Op]], None]) -> None:
        super().__init__(server)
        self._note = note

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Note what has been done, before anybody hears of it."""
        self.server.tree.plan(ops, self.session_id, self.server.clock.now_ms())
        self._note(ops)
        return super().multi(ops)


class Scenario:
    """A cluster under test; `run` takes a command and returns what happened."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.server = MemoryServer(self.clock)
        self.config = Config()
        self.rng = random.Random(7)
        self.lines: list[str] = []
        self.stores: dict[int, MemoryStore] = {}
        self.controllers: dict[int, KafkaController] = {}
        self.quiet = False
        self.queue = Posts()

    def run(self, command: str) -> list[str]:
        """Do a command."""
        self.lines = []
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        try:
            self.queue.run(lambda: getattr(self, f"do_{name}")(*plain, **options))
        except (KafkaError, StoreError) as error:
            self.lines.append(f"= {type(error).__name__}: {error}")
        return self.lines

    # --- commands -----------------------------------------------------------------------------------------

    def do_controller(self, broker: str, rack: str | None = None) -> None:
        """A whole broker: registers and tries to become the controller."""
        store = TracingStore(self.server, self._note)
        controller = KafkaController(store, int(broker), self.config, self.clock, self.rng)
        controller.event_queue = self.queue
        controller.add_control_listener(Obedient(controller))
        self.stores[int(broker)], self.controllers[int(broker)] = store, controller
        controller.add_listener(lambda image, delta: self._told(int(broker), image, delta))
        self.quiet = True
        controller.open()
        self.quiet = False
        controller.start(BrokerRegistration((Endpoint("PLAINTEXT", "h", 9092 + int(broker)),), rack))

    def do_broker(self, broker: str, rack: str | None = None) -> None:
        """A broker that is only registered, as another process would be."""
        store = MemoryStore(self.server)
        self.stores[int(broker)] = store
        registration = BrokerRegistration((Endpoint("PLAINTEXT", "h", 9092 + int(broker)),), rack)
        store.create(f"/brokers/ids/{broker}", encode_registration(registration), ephemeral=True)

    def do_kill(self, broker: str) -> None:
        """A broker's session expires."""
        self.stores.pop(int(broker)).expire()
        self.controllers.pop(int(broker), None)

    def do_stop(self, broker: str) -> None:
        """A broker stops in good order."""
        self.controllers.pop(int(broker)).stop()
        self.stores.pop(int(broker)).close()

    def do_create(self, name: str, assign: str, by: str = "0", **configs: str) -> None:
        """assign=0,1;1,0: the replicas of partition 0, then 1."""
        assignment = {i: _ids(part) for i, part in enumerate(assign.split(";"))}
        self.controllers[int(by)].create_topic(NewTopic(name, assignment=assignment, configs=configs))

    def do_grow(self, name: str, count: str, assign: str | None = None, by: str = "0") -> None:
        assignments = None if assign is None else [_ids(part) for part in assign.split(";")]
        self.controllers[int(by)].create_partitions(name, int(count), assignments)

    def do_delete(self, name: str, by: str = "0") -> None:
        error = self.controllers[int(by)].delete_topics([name])[name]
        if error is not None:
            raise error

    def do_config(self, entity: str, by: str = "0", **configs: str) -> None:
        self.controllers[int(by)].alter_config(entity, configs)

    def do_isr(self, place: str, leader: str, isr: str, epochs: str, by: str = "0") -> None:
        """A leader asks for another ISR; epochs=<leader epoch>,<partition epoch>."""
        topic, _, index = place.rpartition("-")
        leader_epoch, partition_epoch = _ids(epochs)
        change = IsrChange(topic, int(index), int(leader), leader_epoch, partition_epoch, _ids(isr))
        epoch = self.controllers[int(by)].alter_partition(change)
        self.lines.append(f"= partition epoch {epoch}")

    def do_ids(self, by: str = "0") -> None:
        block = self.controllers[int(by)].allocate_producer_ids()
        self.lines.append(f"= {block.first}..{block.last}")

    def do_unclean(self, value: str) -> None:
        self.config.defaults["unclean.leader.election.enable"] = value == "true"

    def do_outside(self, operation: str, path: str, data: str | None = None) -> None:
        """Somebody writes to the store without asking the controller."""
        store = MemoryStore(self.server)
        if operation == "create":
            store.create(path, None if data is None else data.encode())
        elif operation == "set":
            store.set(path, None if data is None else data.encode())
        else:
            store.delete(path)

    def do_show(self, name: str, by: str = "0") -> None:
        image = self.controllers[int(by)].image
        if name == "cluster":
            self.lines.append(
                f"= controller {image.controller_id} epoch {image.controller_epoch} "
                f"brokers {sorted(image.brokers)} topics {sorted(image.topics)} marked {sorted(image.marked)}"
            )
            return
        for index, partition in image.topics[name].partitions.items():
            self.lines.append(f"= {name}-{index} {_show(partition)}")

    # --- what happens -------------------------------------------------------------------------------------

    def _note(self, ops: Sequence[Op]) -> None:
        if self.quiet:
            return
        changing = [op for op in ops if not isinstance(op, Check)]
        if len(ops) > 1:
            checks = ", ".join(f"{op.path}={op.version}" for op in ops if isinstance(op, Check))
            self.lines.append(f"multi {f'check {checks}' if checks else 'without check'}")
        indent = "  " if len(ops) > 1 else ""
        for op in changing:
            self.lines.append(indent + _write(op))

    def _told(self, broker: int, image: ClusterImage, delta: ClusterDelta) -> None:
        parts: list[str] = []
        if delta.controller is not None:
            parts.append(f"controller {delta.controller[0]} epoch {delta.controller[1]}")
        if delta.brokers:
            parts.append(f"brokers {sorted(delta.brokers)}")
        if delta.brokers_gone:
            parts.append(f"brokers gone {sorted(delta.brokers_gone)}")
        for name, topic in delta.topics.items():
            states = "; ".join(f"{i}: {_show(p)}" for i, p in topic.partitions.items())
            parts.append(f"topic {name} [{states}]")
        if delta.topics_marked:
            parts.append(f"marked {sorted(delta.topics_marked)}")
        if delta.topics_gone:
            parts.append(f"topics gone {sorted(delta.topics_gone)}")
        parts += [f"config {entity} {dict(config)}" for entity, config in delta.configs.items()]
        self.lines.append(f"{broker} told: " + ", ".join(parts))


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _show(partition: PartitionImage) -> str:
    leader = "none" if partition.leader < 0 else partition.leader
    return (
        f"replicas {list(partition.replicas)} leader {leader} isr {list(partition.isr)} "
        f"epoch {partition.leader_epoch}/{partition.partition_epoch}"
    )


def _write(op: Op) -> str:
    if isinstance(op, Delete):
        return f"write delete {op.path}"
    assert isinstance(op, Create | SetData)
    kind = "create" if isinstance(op, Create) else "set"
    extra = ""
    if isinstance(op, Create):
        extra = " ephemeral" if op.ephemeral else " sequence" if op.sequence else ""
    elif op.version >= 0:
        extra = f" if {op.version}"
    data = "" if op.data is None else f" {op.data.decode()}"
    return f"write {kind}{extra} {op.path}{_without_ids(data)}"


def _without_ids(data: str) -> str:
    """Topic ids are random: left out."""
    head, found, tail = data.partition('"topic_id":"')
    return f"{head}{found}…{tail[22:]}" if found else data


def check(path: Path) -> None:
    """Run a file and compare; or rewrite it when `UPDATE_TRANSCRIPTS` is set."""
    scenario = Scenario()
    expected = path.read_text(encoding="utf-8")
    actual: list[str] = []
    for line in expected.splitlines():
        if line.startswith("> "):
            actual += [line, *scenario.run(line[2:])]
        elif line.startswith("#") or not line:
            actual.append(line)
    text = "\n".join(actual) + "\n"
    if os.environ.get("UPDATE_TRANSCRIPTS"):
        path.write_text(text, encoding="utf-8")
    assert text == expected
