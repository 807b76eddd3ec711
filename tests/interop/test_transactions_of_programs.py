"""Transactions of libraries of Go, Node and Python: outcomes, fencing, a killed broker, offsets.

What has come of them is told by a read_committed consumer of the same library. Each partition ends with a
record of a last, committed transaction, so that the consumer has seen all that was before.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import pytest

from interop import compatibility, members, programs, row_names
from interop.conftest import OdradekServer
from interop.row_names import FRANZ, KAFKAJS
from interop.tap import OURS, Tap
from interop.test_program_clients import Library, _needs
from interop.transactors import PARTITIONS, Workbench
from odradek import Admin, Consumer, NewTopic

pytestmark = pytest.mark.interop


def _go(name: str) -> programs.Program:
    _needs("go")
    return programs.go_program(name)


def _node() -> programs.Program:
    _needs("node", "npm")
    return programs.node_program("kafkajstx")


def _python(module: str, name: str) -> programs.Program:
    pytest.importorskip(module)
    return programs.python_program(name)


LIBRARIES = [
    Library("franz-go", FRANZ, "Go", lambda: _go("franztx")),
    Library("sarama", ("go.mod", "github.com/IBM/sarama"), "Go", lambda: _go("saramatx")),
    Library("kafkajs", KAFKAJS, "Node", _node),
    Library("aiokafka", ("", "aiokafka"), "Python", lambda: _python("aiokafka", "aiokafkatx")),
    Library("confluent-kafka", ("", "confluent-kafka"), "Python",
            lambda: _python("confluent_kafka", "confluenttx")),
    Library("kafka-python", ("", "kafka-python"), "Python", lambda: _python("kafka", "kafkapythontx")),
]  # fmt: skip
ENDS = {f"end-{i}" for i in range(PARTITIONS)}
#: How the libraries name INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, and the state that these leave.
FENCED = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "fenced", "Fenced", "epoch")
#: kafka-python 3.0: what ends a transaction waits for ever once it has been refused a connection.
NEVER_ASKS_AGAIN = {"kafka-python"}


@pytest.fixture(scope="module")
def tapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekServer]:
    """One server process for all, behind a tap."""
    running = OdradekServer(tmp_path_factory.mktemp("transactional"), Tap())
    running.start()
    try:
        yield running
    finally:
        running.stop()


class Bench(NamedTuple):
    """A library at the server, with names of its own."""

    work: Workbench
    server: OdradekServer
    row: compatibility.Row
    topic: str

    def end(self, topic: str, transactional_id: str) -> None:
        """Commit the record that ends each partition."""
        producer = self.work.producer(topic, transactional_id)
        producer.do("begin")
        producer.do("send", *sorted(ENDS))
        producer.do("commit")

    def committed(self, topic: str) -> list[str]:
        """What the library's consumer sees, sorted."""
        return sorted(self.work.committed(topic, ENDS, f"look-{topic}"))


NUMBERS = count()


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def bench(
    request: pytest.FixtureRequest,
    tapped: OdradekServer,
    compatibility_row: Callable[..., compatibility.Row],
) -> Iterator[Bench]:
    """Each library, with a fresh topic."""
    library: Library = request.param
    row = compatibility_row(*row_names.library(library.family, library.name, library.released))
    program = library.build()
    assert tapped.tap is not None
    tapped.tap.seen.clear()
    topic = f"t{next(NUMBERS)}-{library.name}"
    with Admin(bootstrap_servers=tapped.bootstrap_servers, client_id=OURS) as admin:
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in (topic, f"{topic}-out")])
    work = Workbench(program, tapped.bootstrap_servers)
    try:
        yield Bench(work, tapped, row, topic)
    finally:
        work.close()


def values(name: str, number: int = 6) -> list[str]:
    """Distinct values."""
    return [f"{name}-{i}" for i in range(number)]


def test_committed_and_aborted(bench: Bench) -> None:
    producer = bench.work.producer(bench.topic, bench.topic)
    for name, outcome in (("a", "commit"), ("b", "abort"), ("c", "commit"), ("d", "abort"), ("e", "commit")):
        producer.do("begin")
        producer.do("send", *values(name))
        producer.do("send", *values(name + "2"))
        producer.do(outcome)
    other = bench.work.producer(bench.topic, f"{bench.topic}-2")
    for one in (producer, other):
        one.do("begin")
    producer.do("send", *values("f"))
    other.do("send", *values("g"))
    producer.do("abort")
    other.do("commit")
    bench.end(bench.topic, bench.topic)
    wanted = [value for name in ("a", "a2", "c", "c2", "e", "e2", "g") for value in values(name)]
    assert bench.committed(bench.topic) == wanted
    bench.row.does("transactions", what="commit, abort")


def test_a_zombie_is_fenced(bench: Bench) -> None:
    zombie = bench.work.producer(bench.topic, bench.topic)
    zombie.do("begin")
    zombie.do("send", *values("zombie"))
    heir = bench.work.producer(bench.topic, bench.topic)
    heir.do("begin")
    heir.do("send", *values("heir"))
    refused = [zombie.attempt("send", *values("late")), zombie.attempt("commit")]
    assert all(refused)
    assert any(word in " ".join(refused) for word in FENCED), refused
    heir.do("commit")
    bench.end(bench.topic, bench.topic)
    assert bench.committed(bench.topic) == values("heir")
    bench.row.does("transactions", what="fencing")


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_the_broker_is_killed_within_a_transaction(bench: Bench, outcome: str) -> None:
    producer = bench.work.producer(bench.topic, bench.topic)
    producer.do("begin")
    producer.do("send", *values("before"))
    bench.server.restart(signal.SIGKILL)
    producer.do("send", *values("after"))
    producer.do(outcome)
    producer.do("begin")
    producer.do("send", *values("next"))
    bench.server.stop(signal.SIGKILL)
    if bench.row.client in NEVER_ASKS_AGAIN:
        bench.server.start()
        producer.start(outcome)
    else:
        producer.start(outcome)
        bench.server.start()
    unknown = producer.answer(outcome)
    # A library that does not ask again leaves it to the next producer of the id to end what may be open.
    bench.end(bench.topic, bench.topic)
    seen = bench.committed(bench.topic)
    sure = [*values("after"), *values("before")] if outcome == "commit" else []
    last = values("next") if outcome == "commit" else []
    assert seen == [*sure, *last] or (unknown and seen == sure)
    bench.row.does("transactions", "broker restart")


def test_a_crashed_producer_leaves_nothing(bench: Bench) -> None:
    producer = bench.work.producer(bench.topic, bench.topic)
    producer.do("begin")
    producer.do("send", *values("lost"))
    producer.kill()
    bench.server.restart(signal.SIGKILL)
    heir = bench.work.producer(bench.topic, bench.topic)
    heir.do("begin")
    heir.do("send", *values("kept"))
    heir.do("commit")
    bench.end(bench.topic, bench.topic)
    assert bench.committed(bench.topic) == values("kept")


def test_consume_transform_produce(bench: Bench) -> None:
    source, target = bench.topic, f"{bench.topic}-out"
    group = f"g-{bench.topic}"
    feeder = bench.work.producer(source, f"{source}-feeder")

    def feed(name: str, outcome: str) -> None:
        feeder.do("begin")
        feeder.do("send", *values(name, 40))
        feeder.do(outcome)

    feed("a", "commit")
    feed("b", "abort")
    copier = bench.work.transform(source, target, group, f"{source}-copier")

    def ended(how: str) -> int:
        assert copier.child.poll() is None, "the copier has ended"
        return copier.count(lambda line: line["how"] == how)

    members.until("some is committed, some aborted", lambda: ended("committed") > 0 and ended("aborted") > 0)
    bench.server.restart(signal.SIGKILL)
    before = ended("committed")
    feed("c", "commit")
    members.until("it goes on after the kill", lambda: ended("committed") > before)
    bench.end(source, f"{source}-end")
    assert bench.committed(target) == sorted([*values("a", 40), *values("c", 40)])
    copier.leave()
    at = bench.server.bootstrap_servers
    with Consumer(
        bootstrap_servers=at, client_id=OURS, group_id=group, isolation_level="read_committed"
    ) as consumer:
        stored = consumer.committed([(source, i) for i in range(PARTITIONS)])
        assert len(stored) == PARTITIONS
        consumer.assign(list(stored))
        for partition, found in stored.items():
            assert found is not None
            consumer.seek(partition, found.offset)
        # Nothing but markers and what was aborted is behind the group's offsets.
        assert list(consumer.poll(timeout_ms=300)) == []
    bench.row.does("transactions", what="with offsets")
