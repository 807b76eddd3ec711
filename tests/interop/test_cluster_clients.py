"""Others' clients on a cluster of three whose brokers are killed -9, one after the other, and come back.

Each broker leads partitions of every client's topic, one of them is the controller and some coordinate: when
all have been killed in turn, every client has lost leaders, its coordinator and the controller. All clients
write and read by a group meanwhile; what was acknowledged stands in the log, in order, and was read. Streams
of Spark copy their topics to others, which are read.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from interop import kafka_peer, members, programs
from interop.cluster_of_processes import BROKERS, ClusterOfProcesses, cluster_or_skip
from interop.test_spark_connector import connector_jars
from odradek import Admin, Consumer, NewTopic
from odradek import Producer as OurProducer
from waiting import WITHIN_S, gathered, joined

pytestmark = [
    pytest.mark.interop,
    # Of kafka-python, while brokers are down; see `members.collect_what_clients_left`.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PARTITIONS = 4
PACE_S = 0.1
LIMIT_S = 150
"""Only reached by what is broken; Spark takes a while to start."""


class Writer(Protocol):
    """Sends values in order, each to the next partition, while brokers come and go."""

    def send(self, values: list[str]) -> None:
        """Send more; they may be acknowledged later. The first goes to partition 0."""
        ...

    def finish(self) -> None:
        """Wait until all are acknowledged; raises if one was refused."""
        ...


class ProgramWriter:
    """A program's producer, idempotent."""

    def __init__(self, program: programs.Program, bootstrap: str, version: str, topic: str) -> None:
        self.child = program.start("stream", bootstrap, version, topic)

    def send(self, values: list[str]) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write("".join(f"{value}\n" for value in values))
        self.child.stdin.flush()

    def finish(self) -> None:
        _, errors = self.child.communicate(timeout=kafka_peer.TOOL_LIMIT_S)
        assert self.child.returncode == 0, errors[-3000:]


class ConfluentWriter:
    """librdkafka's producer, idempotent."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.errors: list[object] = []
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send(self, values: list[str]) -> None:
        def told(error: object, _: object) -> None:
            if error is not None:
                self.errors.append(error)

        for i, value in enumerate(values):
            self.producer.produce(self.topic, value.encode(), None, i % PARTITIONS, on_delivery=told)
        self.producer.poll(0)

    def finish(self) -> None:
        assert self.producer.flush(120) == 0
        assert self.errors == []


class KafkaPythonWriter:
    """kafka-python's producer, idempotent."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from kafka import KafkaProducer

        self.topic = topic
        self.producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        self.sent: list[Any] = []

    def send(self, values: list[str]) -> None:
        for i, value in enumerate(values):
            self.sent.append(self.producer.send(self.topic, value.encode(), partition=i % PARTITIONS))

    def finish(self) -> None:
        for sent in self.sent:
            sent.get(120)
        self.producer.close()


class Story:
    """One client: its topic is written and read until `end`.

    Values are `PARTITION-NUMBER`. `written` is how many each partition was given.
    """

    def __init__(self, topic: str, writer: Writer, member: members.Member) -> None:
        self.topic, self.writer, self.member = topic, writer, member
        self.written = 0
        self.read: list[str] = []
        self.error: BaseException | None = None
        self._sent_all = threading.Event()
        self._read_all = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(w,)) for w in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # reported by the client's own test
            self.error = self.error or error

    def _write(self) -> None:
        while not self._sent_all.is_set():
            self.writer.send([f"{p}-{self.written}" for p in range(PARTITIONS)])
            self.written += 1
            time.sleep(PACE_S)
        self.writer.finish()

    def _read(self) -> None:
        while not self._read_all.is_set():
            self.read += [value.decode() for value in self.member.poll()]
        self.member.close()

    def has_read_on(self, since: int) -> bool:
        """Was something read that was written after each partition had so many? True where it has failed."""
        seen = {value.split("-")[0] for value in self.read[-2000:] if int(value.split("-")[1]) > since}
        return self.error is not None or len(seen) == PARTITIONS

    def has_read_all(self) -> bool:
        """Was everything read? True where it has failed."""
        return self.error is not None or len(set(self.read)) == PARTITIONS * self.written

    def finish_writing(self) -> None:
        """Wait until everything is acknowledged."""
        self._sent_all.set()
        joined(self._threads[0], 150)

    def end(self) -> None:
        """Have the member leave."""
        self._read_all.set()
        joined(self._threads[1])


def absent(*tools: str) -> str | None:
    """What a client cannot be built without."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f"not on this machine: {', '.join(missing)}" if missing else None


def java(version: str) -> Callable[[str, str], tuple[Writer, members.Member]]:
    """Kafka's Java clients."""

    def start(at: str, topic: str) -> tuple[Writer, members.Member]:
        program = programs.java_program("Clients", version)
        client = programs.ProgramClient(program, at, version, ("none",))
        return ProgramWriter(program, at, version, topic), client.join(topic, topic)

    return start


def confluent(at: str, topic: str) -> tuple[Writer, members.Member]:
    """librdkafka, whose errors while it reads are the application's."""
    from confluent_kafka import Consumer as Theirs

    settings = {"bootstrap.servers": at, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Theirs(settings)
    consumer.subscribe([topic])

    class Joined:
        def poll(self) -> list[bytes]:
            message = consumer.poll(0.1)
            if message is None:
                return []
            assert message.error() is None, message.error()
            return [message.value()]

        def partitions(self) -> set[int]:
            return {p.partition for p in consumer.assignment()}

        def close(self) -> None:
            consumer.close()

    return ConfluentWriter(at, topic), Joined()


def kafka_python(at: str, topic: str) -> tuple[Writer, members.Member]:
    """kafka-python."""
    from interop.test_python_clients import KafkaPython

    return KafkaPythonWriter(at, topic), KafkaPython(at).join(topic, topic)


def franz(at: str, topic: str) -> tuple[Writer, members.Member]:
    """franz-go."""
    program = programs.go_program("franz")
    client = programs.ProgramClient(program, at, "newest", ("none",))
    return ProgramWriter(program, at, "newest", topic), client.join(topic, topic)


class OurWriter:
    """Our own producer, idempotent."""

    def __init__(self, at: str, topic: str) -> None:
        self.topic = topic
        self.producer = OurProducer(bootstrap_servers=at, enable_idempotence=True)
        self.sent: list[Any] = []

    def send(self, values: list[str]) -> None:
        for i, value in enumerate(values):
            self.sent.append(self.producer.send(self.topic, value=value.encode(), partition=i % PARTITIONS))

    def finish(self) -> None:
        for sent in self.sent:
            sent.result(120)
        self.producer.close()


class OurMember:
    """Our own consumer; read_committed, as one of its topics is written in transactions."""

    def __init__(self, at: str, topic: str, group: str | None) -> None:
        self.consumer = Consumer(
            bootstrap_servers=at,
            group_id=group,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        if group is None:
            self.consumer.assign([(topic, p) for p in range(PARTITIONS)])
        else:
            self.consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        return [record.value or b"" for record in self.consumer.poll(timeout_ms=100)]

    def partitions(self) -> set[int]:
        return {p for _, p in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


def ours(at: str, topic: str) -> tuple[Writer, members.Member]:
    """The client of this project."""
    return OurWriter(at, topic), OurMember(at, topic, topic)


def copied(at: str, topic: str) -> tuple[Writer, members.Member]:
    """A topic that is written, and its copy, which is read: between them is a stream of Spark."""
    return OurWriter(at, topic), OurMember(at, f"{topic}.copy", None)


class SparkJob:
    """The process of the streams of Spark."""

    def __init__(self, at: str, folder: Path, topics: list[str]) -> None:
        self.log = folder / "spark.log"
        jars = connector_jars() if "spark-kafka" in topics else ""
        job = Path(__file__).with_name("spark_cluster_job.py")
        with self.log.open("w", encoding="utf-8") as errors:
            self.child = subprocess.Popen(
                [sys.executable, str(job), at, str(folder / "checkpoints"), jars, *topics],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def end(self) -> str:
        """Have it stop; what it said."""
        try:
            return self.child.communicate("", 90)[0]
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.communicate(timeout=WITHIN_S)[0] + "\nit did not stop"


CLIENTS: dict[str, tuple[tuple[str, ...], Callable[[str, str], tuple[Writer, members.Member]]]] = {
    "java-4.4.0": (("javac", "mvn"), java("4.4.0")),
    "java-2.2.2": (("javac", "mvn"), java("2.2.2")),
    "confluent-kafka": ((), confluent),
    "kafka-python": ((), kafka_python),
    "franz-go": (("go",), franz),
    "odradek": ((), ours),
    "spark-kafka": (("java", "mvn"), copied),
    "spark-odradek": (("java",), copied),
}
SPARK = ("spark-kafka", "spark-odradek")
MODULES = {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka", **dict.fromkeys(SPARK, "pyspark")}


class Told:
    """What became of all clients: their stories, and the logs of their topics."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}
        self.stories: dict[str, Story] = {}
        self.logs: dict[str, dict[int, list[str]]] = {}
        self.spark = ""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """All clients at once, while each broker is killed and comes back; the controller is the first."""
    told = Told()
    for name, (tools, _) in CLIENTS.items():
        why = absent(*tools)
        if name in MODULES:
            pytest.importorskip(MODULES[name])
        if why is not None:
            told.skipped[name] = why
    directory = tmp_path_factory.mktemp("cluster")
    with cluster_or_skip(directory) as cluster:
        at = cluster.bootstrap_servers
        with Admin(bootstrap_servers=at) as admin:
            names = [*CLIENTS, *(f"{name}.copy" for name in SPARK)]
            admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in names])
        members.until("all replicas are in sync", cluster.is_whole)
        streams = [name for name in SPARK if name not in told.skipped]
        spark = SparkJob(at, directory, streams) if streams else None
        try:
            for name, (_, start) in CLIENTS.items():
                if name not in told.skipped:
                    told.stories[name] = Story(name, *start(at, name))
            await_all(told, "it reads", lambda story: story.has_read_on(0))
            first = cluster.metadata().controller_id
            for broker in [first, *(one for one in range(BROKERS) if one != first)]:
                kill_and_start(cluster, broker, told)
            for story in told.stories.values():
                story.finish_writing()
            await_all(told, "it has read all", Story.has_read_all)
        finally:
            for story in told.stories.values():
                story.finish_writing()
                story.end()
            told.spark = "" if spark is None else spark.end()
        for name in told.stories:
            told.logs[name] = log_of(at, name)
    yield told
    told.stories.clear()
    members.collect_what_clients_left()


def await_all(told: Told, what: str, condition: Callable[[Story], bool]) -> None:
    """Wait until something holds for all; who is late is told of by its own test."""
    for story in told.stories.values():

        def is_so(story: Story = story) -> bool:
            return condition(story)

        try:
            members.until(f"{story.topic}: {what}", is_so, LIMIT_S)
        except AssertionError as late:
            story.error = story.error or late


def kill_and_start(cluster: ClusterOfProcesses, broker: int, told: Told) -> None:
    """Kill a broker; when all clients go on with the others, start it again."""
    cluster.kill(broker)
    since = {name: story.written for name, story in told.stories.items()}
    await_all(told, f"it reads on without {broker}", lambda story: story.has_read_on(since[story.topic]))
    cluster.start(broker)


def log_of(at: str, topic: str) -> dict[int, list[str]]:
    """The values of each partition, as they stand in the log."""
    found: dict[int, list[str]] = {p: [] for p in range(PARTITIONS)}
    with Consumer(bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
        parts = [(topic, p) for p in range(PARTITIONS)]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        for record in gathered(
            lambda: consumer.poll(timeout_ms=1000), sum(ends.values()), f"the records of {topic}"
        ):
            found[record.partition].append((record.value or b"").decode())
    return found


@pytest.mark.parametrize("name", CLIENTS)
def test_brokers_are_killed_under_a_client(name: str, told: Told) -> None:
    if name in told.skipped:
        pytest.skip(told.skipped[name])
    story = told.stories[name]
    if story.error is not None:
        raise story.error
    wanted = {p: [f"{p}-{n}" for n in range(story.written)] for p in range(PARTITIONS)}
    assert story.written > 20
    # Idempotent: once each.
    assert told.logs[name] == wanted
    # Read at least once, and for the first time in order.
    first = list(dict.fromkeys(story.read))
    assert {p: [v for v in first if v.startswith(f"{p}-")] for p in range(PARTITIONS)} == wanted
    if name in SPARK:
        # No stream has failed, and no task.
        assert told.spark.split() == ["started", "stopped"]
    if name == "spark-odradek":
        assert len(story.read) == len(first), "written more than once"
