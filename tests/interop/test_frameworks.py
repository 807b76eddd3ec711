"""Frameworks that others have built on clients of Kafka: each passes records on while a broker is killed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import waiting
from interop import programs, row_names
from interop.committed import Committed, committed
from interop.compatibility import Rows
from interop.one_or_three import Brokers
from interop.row_names import RowName
from interop.served import LIMIT_S, Served
from interop.tap import OURS
from odradek import Admin, NewTopic, Producer, TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.between, pytest.mark.timeout(900)]

GROUP = "capitals"
PARTITIONS = 2
COUNT = 200


class Framework(NamedTuple):
    """A program that passes on from `in` to `out`, in capitals, until SIGTERM.

    Attributes:
        row: of docs/compatibility.md.
        build: makes the program; the brokers' addresses follow its words.
        needs: what has to be on the machine.
        commits: to the group `capitals`; else it keeps beside itself where it was.
    """

    row: RowName
    build: Callable[[], programs.Program]
    needs: tuple[str, ...] = ()
    commits: bool = True


def _python(script: str, *words: str, release: tuple[str, ...]) -> programs.Program:
    """A program of the folder `python`, run by a Python that has the release and nothing else."""
    interpreter = programs.python_with(*release)
    return programs.Program((interpreter, *programs.python_program(script).words[1:], *words))


def _faststream(client: str) -> Framework:
    release = ("faststream", "0.7.8", "kafka,confluent")
    build = partial(_python, "faststreamcapitals", client, release=release)
    name = f"FastStream on {'aiokafka' if client == 'kafka' else 'confluent-kafka'}"
    return Framework(("Python", name, release[1], "PyPI"), build)


def _java(program: str, name: str, *artifacts: tuple[str, str, str]) -> Framework:
    """A class of the folder `java`, in the release of its first artifact."""
    release = artifacts[0][2]
    build = partial(programs.java_program, program, release, artifacts, SIMPLE_LOGGER)
    return Framework(("Java", name, release, "Maven Central"), build, needs=("javac", "mvn"))


BYTEWAX = ("bytewax", "0.21.1", "kafka")
PATHWAY = ("pathway", "0.33.0")
SIMPLE_LOGGER = (("org.slf4j", "slf4j-simple", "2.0.17"),)
WATERMILL = ("go.mod", "github.com/ThreeDotsLabs/watermill-kafka/v3")
NESTJS = ("package-lock.json", "@nestjs/microservices")

FRAMEWORKS = [
    _faststream("kafka"),
    _faststream("confluent"),
    Framework(
        ("Engines", *BYTEWAX[:2], "PyPI"), partial(_python, "bytewaxcapitals", release=BYTEWAX), commits=False
    ),
    Framework(
        ("Engines", *PATHWAY, "PyPI"), partial(_python, "pathwaycapitals", release=PATHWAY), commits=False
    ),
    Framework(
        row_names.library("Node", "NestJS", NESTJS),
        partial(programs.node_program, "nestjscapitals"),
        needs=("node", "npm"),
    ),
    Framework(
        row_names.library("Go", "watermill-kafka", WATERMILL),
        partial(programs.go_program, "watermill"),
        needs=("go",),
    ),
    _java("SpringCapitals", "Spring Kafka", ("org.springframework.kafka", "spring-kafka", "4.0.6")),
    _java("VertxCapitals", "Vert.x Kafka client", ("io.vertx", "vertx-kafka-client", "5.0.7")),
]


class PassingOn:
    """A framework at work.

    Attributes:
        program: the framework's.
        sent: values that went to `in`.
    """

    def __init__(self, program: Served, producer: Producer, out: Committed) -> None:
        self.program = program
        self.sent: list[str] = []
        self._producer = producer
        self._sending: list[Any] = []
        self._out = out

    def send(self, word: str) -> None:
        """Send values that begin with the word, and wait for nothing: there may be no broker."""
        values = [f"{word}-{i}" for i in range(COUNT)]
        self._sending += [
            self._producer.send("in", value=value, partition=i % PARTITIONS) for i, value in enumerate(values)
        ]
        self.sent += values

    def acknowledged(self) -> None:
        """Wait until all that was sent is written."""
        for future in self._sending:
            future.result(LIMIT_S)
        self._sending.clear()

    def all_in_capitals(self) -> Counter[str]:
        """How often each value is there, when all are."""
        self.acknowledged()
        wanted = {value.upper() for value in self.sent}

        def missing() -> set[str]:
            self._out.count()
            return wanted - set(self._out.values)

        waiting.until(
            missing, "nothing that is missing in `out`", holds=lambda rest: not rest, within_s=LIMIT_S
        )
        assert set(self._out.values) == wanted
        return Counter(self._out.values)


@contextmanager
def passing_on(framework: Framework, bootstrap: str, folder: Path) -> Iterator[PassingOn]:
    """The framework at work on these brokers; skips, by name, where it cannot be had."""
    if absent := [tool for tool in framework.needs if shutil.which(tool) is None]:
        pytest.skip(f"not on this machine: {', '.join(absent)}")
    try:
        program = framework.build()
    except RuntimeError as why:
        pytest.skip(str(why))
    at = {"bootstrap_servers": bootstrap, "client_id": OURS}
    with Admin(**at) as admin:
        admin.create_topics([NewTopic("in", PARTITIONS), NewTopic("out", PARTITIONS)])
    with (
        Producer(**at, acks="all") as producer,
        committed(bootstrap, "out", PARTITIONS) as out,
        program.serve(bootstrap, folder=folder) as served,
    ):
        yield PassingOn(served, producer, out)


def offsets_of_group(bootstrap: str) -> dict[TopicPartition, int]:
    """What the group of the frameworks has committed."""
    with Admin(bootstrap_servers=bootstrap, client_id=OURS) as admin:
        offsets = admin.list_group_offsets(GROUP)
    return {partition: offset.offset for partition, offset in offsets.items()}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.row[1].replace(" ", "-"))
def test_passes_on_while_a_broker_is_killed(
    framework: Framework, brokers: Brokers, tmp_path: Path, compatibility_row: Rows
) -> None:
    row = compatibility_row(*framework.row)
    with passing_on(framework, brokers.bootstrap_servers, tmp_path) as passing:
        passing.send("first")
        passing.all_in_capitals()
        row.does("produce", "consume")
        passing.send("second")
        passing.acknowledged()
        brokers.kill_leader("in")
        passing.send("third")
        if brokers.survive:
            passing.all_in_capitals()
        brokers.start_again()
        before = passing.all_in_capitals()
        row.does("broker restart", what=brokers.restart)
        passing.program.end()
        if framework.commits:
            ends = {TopicPartition("in", i): 3 * COUNT // PARTITIONS for i in range(PARTITIONS)}
            assert offsets_of_group(brokers.bootstrap_servers) == ends
        passing.send("fourth")
        passing.program.start()
        after = passing.all_in_capitals()
        if framework.commits:
            assert set((after - before).values()) == {1}
            row.does("group", "commit, resume")
