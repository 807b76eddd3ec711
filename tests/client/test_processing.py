"""The read-process-write loop: members that lose their place, records that cannot be written, timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from client.conftest import new_topic
from odradek.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, RawReader, TopicPartition
from odradek.client.core.transactions.errors import mark
from odradek.client.errors import ClientTimeoutError, DeliveryTimeoutError, IllegalStateError
from odradek.client.processing import process
from odradek.errors import ProducerFencedError, RecordTooLargeError


@pytest.fixture
def source(admin: Admin, servers: str) -> str:
    """A topic of one partition with the values 0 to 9."""
    name = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send(name, b"%d" % number)
    return name


@pytest.fixture
def sink(admin: Admin) -> str:
    """An empty topic of one partition."""
    return new_topic(admin, 1)


@pytest.fixture
def consumer(servers: str, source: str) -> Iterator[Consumer]:
    """A member of a group with a name of its own."""
    with Consumer(
        source,
        bootstrap_servers=servers,
        group_id=f"of-{source}",
        group_instance_id="one",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    ) as made:
        yield made


@pytest.fixture
def producer(servers: str, source: str) -> Iterator[Producer]:
    """A transactional producer."""
    with Producer(
        bootstrap_servers=servers, transactional_id=f"of-{source}", retry_backoff_ms=1, retry_backoff_max_ms=1
    ) as made:
        yield made


def values(servers: str, topic: str) -> list[bytes]:
    """What is committed in a topic of one partition."""
    with RawReader(servers, {"isolation.level": "read_committed"}) as reader:
        end = reader.end_offsets([(topic, 0)])[(topic, 0)]
        parts = reader.fetch_columns(topic, 0, 0, end)
        return [value for rows in parts for value in rows.column("value").to_pylist()]


TEN = [b"%d" % number for number in range(10)]


def test_who_was_rebalanced_out_processes_again_as_a_member(
    consumer: Consumer, producer: Producer, admin: Admin, servers: str, source: str, sink: str
) -> None:
    calls: list[list[bytes]] = []
    pauses: list[float] = []

    def step(records: list[ConsumerRecord], producer: Producer) -> None:
        calls.append([record.value for record in records])
        if len(calls) == 1:
            # The group goes on without this member, which does not know it yet.
            admin.remove_members(f"of-{source}", ["one"])
        for record in records:
            producer.send(sink, record.value)

    count = process(consumer, producer, step, idle_polls=3, poll_timeout_ms=2_000, pause=pauses.append)
    assert count == 10
    assert calls[0] == calls[1] == TEN
    assert len(pauses) == 1
    assert values(servers, sink) == TEN


def test_a_record_that_cannot_be_written_is_tried_so_often_and_nothing_is_skipped(
    consumer: Consumer, producer: Producer, admin: Admin, servers: str, source: str, sink: str
) -> None:
    small = f"{sink}-small"
    admin.create_topics([NewTopic(small, 1, 1, configs={"max.message.bytes": "300"})])
    tried = 0

    def step(records: list[ConsumerRecord], producer: Producer) -> None:
        nonlocal tried
        tried += 1
        for record in records:
            producer.send(sink, record.value)
        producer.send(small, b"x" * 1_000)

    with pytest.raises(RecordTooLargeError) as problem:
        process(consumer, producer, step, attempts=3, pause=lambda seconds: None)
    assert problem.value.requires_abort
    assert tried == 3
    assert values(servers, sink) == []
    assert consumer.position((source, 0)) == 0
    # Whoever mends it goes on with the same records.
    count = process(
        consumer, producer, lambda records, producer: None, idle_polls=1, initialise=False, max_records=4
    )
    assert count == 10
    assert consumer.committed([(source, 0)])[TopicPartition(source, 0)].offset == 10  # type: ignore[union-attr]


def test_what_the_step_raises_is_raised_and_read_again(
    consumer: Consumer, producer: Producer, servers: str, sink: str
) -> None:
    def fails(records: list[ConsumerRecord], producer: Producer) -> None:
        producer.send(sink, b"in vain").result(60)
        raise LookupError

    with pytest.raises(LookupError):
        process(consumer, producer, fails)

    def copies(records: list[ConsumerRecord], producer: Producer) -> None:
        for record in records:
            producer.send(sink, record.value)

    assert process(consumer, producer, copies, idle_polls=1, initialise=False) == 10
    assert values(servers, sink) == TEN


def test_the_fenced_one_stops_at_once(
    consumer: Consumer, producer: Producer, servers: str, source: str, sink: str
) -> None:
    calls = 0

    def step(records: list[ConsumerRecord], producer: Producer) -> None:
        nonlocal calls
        calls += 1
        with Producer(bootstrap_servers=servers, transactional_id=f"of-{source}") as successor:
            successor.init_transactions()

    with pytest.raises(ProducerFencedError) as fenced:
        process(consumer, producer, step)
    assert fenced.value.fatal
    assert calls == 1


def test_a_commit_that_times_out_is_waited_for_again(
    consumer: Consumer, producer: Producer, servers: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = producer.commit_transaction
    outcomes: list[Any] = [ClientTimeoutError("later"), None, ClientTimeoutError("later"), None, None]

    def commit_late() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        commit()

    monkeypatch.setattr(producer, "commit_transaction", commit_late)

    def step(records: list[ConsumerRecord], producer: Producer) -> None:
        for record in records:
            producer.send(sink, record.value)

    assert process(consumer, producer, step, max_records=5, until=lambda: len(outcomes) == 1) == 10
    assert values(servers, sink) == TEN


def test_how_a_transaction_ended_that_cannot_be_told_is_not_tried_over(
    consumer: Consumer, producer: Producer, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit goes on unheard, so what it may yet commit must not be processed again."""

    def never() -> None:
        raise ClientTimeoutError("commit_transaction was not done")

    def refused() -> None:
        raise IllegalStateError("commit_transaction timed out and has to be called again")

    monkeypatch.setattr(producer, "commit_transaction", never)
    monkeypatch.setattr(producer, "abort_transaction", refused)
    calls = 0

    def step(records: list[ConsumerRecord], producer: Producer) -> None:
        nonlocal calls
        calls += 1

    with pytest.raises(ClientTimeoutError, match="commit_transaction was not done"):
        process(consumer, producer, step, attempts=3, pause=lambda seconds: None)
    assert calls == 1
    monkeypatch.undo()


def test_a_commit_that_asks_for_an_abort_is_not_repeated(
    consumer: Consumer, producer: Producer, servers: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = producer.commit_transaction
    commits = 0

    def commit_late() -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            raise mark(DeliveryTimeoutError("a record was not acknowledged"), fatal=False)
        commit()

    monkeypatch.setattr(producer, "commit_transaction", commit_late)
    steps = 0

    def step(records: list[ConsumerRecord], producer: Producer) -> None:
        nonlocal steps
        steps += 1
        for record in records:
            producer.send(sink, record.value)

    assert process(consumer, producer, step, idle_polls=1, pause=lambda seconds: None) == 10
    assert (commits, steps) == (2, 2)
    assert values(servers, sink) == TEN
