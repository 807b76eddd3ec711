"""What must be true of the coordinators of any Kafka for exactly-once writes: told without Spark."""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

from interop import topics_of_kafka
from odradek.client import Admin, NewTopic, RawReader, TransactionalWriter
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.spark.errors import FencedDriverError
from odradek.spark.options import SinkOptions, parse_sink
from odradek.spark.writing.coordinators import PLACE, Coordinators
from odradek.spark.writing.decisions import Decision, Participant, Report, to_chunks
from odradek.spark.writing.exactly_once import Batch, abort_batch, commit_batch, write_task
from odradek.spark.writing.task_transaction import begin


class Sink:
    """A topic of two partitions, and a query that writes to it.

    Args:
        options: of the sink.
    """

    def __init__(self, servers: str, name: str, **options: str) -> None:
        self.servers = servers
        self.topic = name
        self.name = f"odradek-spark-{name}"
        self.options: SinkOptions = parse_sink(
            {
                "kafka.bootstrap.servers": servers,
                "topic": name,
                "deliveryGuarantee": "exactly-once",
                **options,
            }
        )
        with Admin(bootstrap_servers=servers) as admin:
            topics_of_kafka.create(admin, NewTopic(name, num_partitions=2, replication_factor=1))

    def batch(self, number: int, run: str = "first") -> Batch:
        return Batch(self.name, number, run)

    def task(self, ledger: Coordinators, batch: Batch, task: int, values: list[str]) -> Report:
        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"value": values})

        return write_task(ledger, batch, task, 0, rows(), partial(begin, self.options, batch))

    def ledger(self) -> Coordinators:
        return Coordinators(self.options.client)

    def committed(self) -> Counter[str]:
        """What read_committed readers see, up to the last stable offset."""
        found: Counter[str] = Counter()
        with RawReader(self.servers, {"isolation.level": "read_committed"}) as reader:
            for (topic, number), end in reader.end_offsets([(self.topic, 0), (self.topic, 1)]).items():
                for rows in reader.fetch_columns(topic, number, 0, end):
                    found.update(value.decode() for value in rows.column("value").to_pylist())
        return found

    def nothing_is_open(self) -> None:
        """Wait until no transaction holds readers up."""
        partitions = [(self.topic, 0), (self.topic, 1)]
        deadline = time.monotonic() + 60
        with (
            RawReader(self.servers) as all_,
            RawReader(self.servers, {"isolation.level": "read_committed"}) as stable,
        ):
            while all_.end_offsets(partitions) != stable.end_offsets(partitions):
                assert time.monotonic() < deadline, "the transaction does not time out"
                time.sleep(0.05)

    def is_decided(self, ledger: Coordinators) -> None:
        """Wait until a decision can be read, which before Kafka 2.5 is some time after it was made."""
        deadline = time.monotonic() + 60
        while ledger.read_decision(self.name) is None:
            assert time.monotonic() < deadline, "the decision is not there"
            time.sleep(0.05)

    def comes_to_be(self, values: list[str]) -> None:
        """These are committed; markers may take a moment."""
        deadline = time.monotonic() + 120
        while self.committed() != Counter(values) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.committed() == Counter(values)


def batches_after_each_other(sink: Sink) -> None:
    ledger = sink.ledger()
    for number in range(3):
        batch = sink.batch(number)
        reports = [sink.task(ledger, batch, task, [f"{number}.{task}"] * 2) for task in (0, 1)]
        commit_batch(ledger, batch, reports)
    ledger.close()
    sink.comes_to_be([f"{number}.{task}" for number in range(3) for task in (0, 1)] * 2)


def a_driver_dies_between_two_commits(sink: Sink) -> None:
    dying = sink.ledger()
    batch = sink.batch(0)
    reports = [sink.task(dying, batch, task, [str(task)]) for task in (0, 1, 2)]
    parts = [Participant(r.task, r.transaction, r.rows) for r in reports if r.transaction is not None]
    dying.take_over(sink.name, anew=False)
    dying.decide(sink.name, Decision(0, "first", 3, tuple(parts)))
    assert dying.end(parts[0].transaction, commit=True)
    dying.close()
    new = sink.ledger()
    sink.is_decided(new)
    again = sink.batch(0, "second")
    reports = [sink.task(new, again, task, [str(task)]) for task in (0, 1)]
    assert [(report.found_decided, report.transaction) for report in reports] == [(True, None)] * 2
    commit_batch(new, again, reports)
    new.close()
    sink.comes_to_be(["0", "1", "2"])


def a_driver_dies_while_it_decides(sink: Sink) -> None:
    """What it has begun is ended by the next one's tasks: long before it times out, and before they do."""
    configs = {**sink.options.client, "default.api.timeout.ms": "20000", "transaction.timeout.ms": "600000"}
    dying = TransactionalWriter(sink.servers, sink.name, {"transaction.timeout.ms": "600000"})
    dying.init_transactions()
    dying.begin_transaction()
    [chunk] = to_chunks(Decision(0, "first", 1), sink.name)
    place = {PLACE: OffsetAndMetadata(chunk.batch, chunk.text)}
    dying.send_offsets_to_transaction(place, ConsumerGroupMetadata(sink.name))
    dying.abandon()
    new = Coordinators(configs)
    batch = sink.batch(0, "second")
    report = sink.task(new, batch, 0, ["second"])
    assert not report.found_decided
    commit_batch(new, batch, [report])
    new.close()
    sink.comes_to_be(["second"])


def two_processes_of_a_driver_take_turns(sink: Sink) -> None:
    one, other = sink.ledger(), sink.ledger()
    for number, ledger in enumerate((one, other, one, other)):
        batch = sink.batch(number)
        commit_batch(ledger, batch, [sink.task(ledger, batch, 0, [str(number)])])
    one.close()
    other.close()
    sink.comes_to_be(["0", "1", "2", "3"])


def an_older_driver_decides_nothing(sink: Sink) -> None:
    older, newer = sink.ledger(), sink.ledger()
    batch = sink.batch(0)
    lost = [sink.task(older, batch, 0, ["older"])]
    won = [sink.task(newer, batch, 0, ["newer"])]
    older.take_over(sink.name, anew=False)
    commit_batch(newer, batch, won)
    with pytest.raises(FencedDriverError):
        older.decide(sink.name, Decision(0, "older", 1))
    older.take_over(sink.name, anew=False)
    newer.take_over(sink.name, anew=True)
    commit_batch(older, batch, lost)
    commit_batch(newer, sink.batch(1), [])
    abort_batch(older, batch, lost)
    older.close()
    newer.close()
    sink.comes_to_be(["newer"])


def what_dead_tasks_left_is_aborted(sink: Sink) -> None:
    """Needs ListTransactions (Kafka 3.0)."""
    ledger = sink.ledger()
    left = sink.task(ledger, sink.batch(0), 0, ["left"])
    assert ledger.open_transactions(sink.name) == [left.transaction]
    commit_batch(ledger, sink.batch(0), [sink.task(ledger, sink.batch(0), 0, ["right"])])
    assert ledger.open_transactions(sink.name) == []
    ledger.close()
    sink.comes_to_be(["right"])


def an_attempt_that_lost_is_aborted(sink: Sink) -> None:
    """A speculative attempt that Spark ended when the first one was done: no report tells of it.

    Needs ListTransactions (Kafka 3.0).
    """
    now = [0.0]
    ledger = Coordinators(sink.options.client, clock=lambda: now[0])
    for number in range(2):
        batch = sink.batch(number)
        commit_batch(ledger, batch, [sink.task(ledger, batch, 0, [str(number)])])
    batch = sink.batch(2)
    lost = sink.task(ledger, batch, 0, ["lost"])
    commit_batch(ledger, batch, [sink.task(ledger, batch, 0, ["2"])])
    assert ledger.open_transactions(sink.name) == [lost.transaction]
    now[0] += 60
    commit_batch(ledger, sink.batch(3), [sink.task(ledger, sink.batch(3), 0, ["3"])])
    assert ledger.open_transactions(sink.name) == []
    ledger.close()
    sink.comes_to_be(["0", "1", "2", "3"])


def an_attempt_that_lost_a_write_without_a_name_is_aborted(sink: Sink) -> None:
    """Nobody else would, but the timeout. Needs ListTransactions (Kafka 3.0)."""
    ledger = sink.ledger()
    batch = Batch(sink.name, 0, "first", remembered=False)
    sink.task(ledger, batch, 0, ["lost"])
    commit_batch(ledger, batch, [sink.task(ledger, batch, 0, ["won"])])
    assert ledger.open_transactions(sink.name) == []
    ledger.close()
    sink.comes_to_be(["won"])


def what_timed_out_is_written_again(sink: Sink) -> None:
    """Needs a sink with a short transaction timeout, a broker that looks often, and no two-phase commit."""
    ledger = sink.ledger()
    batch = sink.batch(0)
    reports = [sink.task(ledger, batch, task, [str(task)]) for task in (0, 1)]
    parts = [Participant(r.task, r.transaction, r.rows) for r in reports if r.transaction is not None]
    ledger.take_over(sink.name, anew=False)
    ledger.decide(sink.name, Decision(0, "first", 2, tuple(parts)))
    assert ledger.end(parts[0].transaction, commit=True)
    sink.nothing_is_open()
    sink.is_decided(ledger)
    again = sink.batch(0, "second")
    reports = [sink.task(ledger, again, task, [str(task)]) for task in (0, 1)]
    assert [report.replaces for report in reports] == [None, parts[1].transaction]
    commit_batch(ledger, again, reports)
    ledger.close()
    sink.comes_to_be(["0", "1"])


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        batches_after_each_other,
        a_driver_dies_between_two_commits,
        a_driver_dies_while_it_decides,
        two_processes_of_a_driver_take_turns,
        an_older_driver_decides_nothing,
        what_dead_tasks_left_is_aborted,
        an_attempt_that_lost_is_aborted,
        an_attempt_that_lost_a_write_without_a_name_is_aborted,
    )
}
"""Beside `what_timed_out_is_written_again`, for which broker and sink are to be configured."""
