"""Frameworks that others have built on clients of Kafka: each passes records on while a broker is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pytest

from interop import compatibility, kafka_peer, members, programs, row_names
from interop.cluster_of_processes import cluster_or_skip
from interop.conftest import OdradekServer
from interop.row_names import RowName
from interop.tap import OURS
from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from waiting import WITHIN_S

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


BYTEWAX = ("bytewax", "0.21.1", "kafka")
PATHWAY = ("pathway", "0.33.0")
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
]


class PassingOn:
    """A framework at work: what was sent to `in`, and what has come in `out`."""

    def __init__(self, framework: Framework, bootstrap: str, folder: Path) -> None:
        if absent := [tool for tool in framework.needs if shutil.which(tool) is None]:
            pytest.skip(f"not on this machine: {', '.join(absent)}")
        try:
            self.program = framework.build()
        except RuntimeError as why:
            pytest.skip(str(why))
        self.bootstrap = bootstrap
        self.at: dict[str, Any] = {"bootstrap_servers": bootstrap, "client_id": OURS}
        self.folder = folder
        self.sent: list[bytes] = []
        self.out: list[bytes] = []
        self.child: subprocess.Popen[bytes] | None = None
        with Admin(**self.at) as admin:
            admin.create_topics([NewTopic("in", PARTITIONS), NewTopic("out", PARTITIONS)])
        self.consumer = Consumer(
            "out", **self.at, group_id="look", auto_offset_reset="earliest", isolation_level="read_committed"
        )

    def __enter__(self) -> PassingOn:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait(WITHIN_S)
        self.consumer.close()
        if error is not None:
            error.add_note((self.folder / "log").read_text(encoding="utf-8", errors="replace")[-4000:])

    def start(self) -> None:
        """Start the program."""
        self.child = self.program.serve(self.bootstrap, folder=self.folder)

    def end(self) -> None:
        """Have it end as a service is ended."""
        assert self.child is not None
        self.child.terminate()
        self.child.wait(WITHIN_S)

    def send(self, word: str) -> None:
        """Send values that begin with the word."""
        values = [f"{word}-{i}".encode() for i in range(COUNT)]
        with Producer(**self.at, acks="all") as producer:
            for i, value in enumerate(values):
                producer.send("in", value=value, partition=i % PARTITIONS)
        self.sent += values

    def _poll(self) -> Counter[bytes]:
        self.out += [record.value or b"" for record in self.consumer.poll(timeout_ms=200)]
        return Counter(self.out)

    def all_in_capitals(self) -> Counter[bytes]:
        """How often each value is there, when all are."""
        wanted = {value.upper() for value in self.sent}
        members.until(
            "all is there in capitals", lambda: wanted <= set(self._poll()), kafka_peer.TOOL_LIMIT_S
        )
        assert set(self.out) == wanted
        return Counter(self.out)

    def committed(self) -> dict[TopicPartition, int]:
        """What its group has committed."""
        with Admin(**self.at) as admin:
            offsets = admin.list_group_offsets(GROUP)
        return {partition: committed.offset for partition, committed in offsets.items()}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.row[1].replace(" ", "-"))
class TestFrameworks:
    """Each on one broker and on three."""

    def test_its_only_broker_is_killed(
        self,
        framework: Framework,
        tapped: OdradekServer,
        tmp_path: Path,
        compatibility_row: Callable[..., compatibility.Row],
    ) -> None:
        row = compatibility_row(*framework.row)
        with PassingOn(framework, tapped.bootstrap_servers, tmp_path) as passing:
            passing.send("first")
            passing.all_in_capitals()
            row.does("produce", "consume")
            passing.send("second")
            tapped.restart(signal.SIGKILL)
            passing.send("third")
            before = passing.all_in_capitals()
            row.does("broker restart")
            passing.end()
            if framework.commits:
                ends = {TopicPartition("in", i): 3 * COUNT // PARTITIONS for i in range(PARTITIONS)}
                assert passing.committed() == ends
            passing.send("fourth")
            passing.start()
            after = passing.all_in_capitals()
            if framework.commits:
                assert set((after - before).values()) == {1}
                row.does("group", "commit, resume")

    def test_one_of_three_brokers_is_killed(
        self, framework: Framework, tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
    ) -> None:
        row = compatibility_row(*framework.row)
        with (
            cluster_or_skip(tmp_path) as cluster,
            PassingOn(framework, cluster.bootstrap_servers, tmp_path) as passing,
        ):
            passing.send("first")
            passing.all_in_capitals()
            passing.send("second")
            killed = cluster.leaders("in")[0]
            cluster.kill(killed)
            passing.send("third")
            passing.all_in_capitals()
            cluster.start(killed)
            passing.send("fourth")
            passing.all_in_capitals()
            row.does("broker restart", what="one of three killed")
