"""What transactional clients can rely on, on any Kafka and on ours: imported by the modules that have a
broker.

Those define the fixture `servers`.
"""

from __future__ import annotations

import contextlib
import uuid

import pytest

import odradek
from interop import topics_of_kafka
from odradek.client import RawReader, TransactionalWriter
from odradek.client.processing import process
from odradek.errors import ProducerFencedError, RecordTooLargeError
from waiting import gathered

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def topic(servers: str) -> str:
    """A topic of its own, with two partitions."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with odradek.Admin(bootstrap_servers=servers) as admin:
        topics_of_kafka.create(admin, odradek.NewTopic(name, 2, 1))
    return name


def read_when_ended(servers: str, topic: str, transactional_id: str) -> list[bytes]:
    """What is committed once the last transaction of an id has ended, sorted.

    A commit is answered when it is decided; its markers, up to which committed records are read, may be
    written later. A producer gets the id only after that.
    """
    with odradek.Producer(bootstrap_servers=servers, transactional_id=transactional_id) as producer:
        producer.init_transactions()
    return read(servers, topic)


def read(servers: str, topic: str, isolation_level: str = "read_committed") -> list[bytes]:
    """What a consumer of that level finds up to the end that it is told, sorted."""
    partitions = [odradek.TopicPartition(topic, 0), odradek.TopicPartition(topic, 1)]
    with odradek.Consumer(bootstrap_servers=servers, isolation_level=isolation_level) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found = gathered(
            lambda: consumer.poll(500),
            lambda: all(consumer.position(tp) >= end for tp, end in ends.items()),
            f"the records of {topic} up to {ends}",
        )
        assert all(consumer.lag(tp) == 0 for tp in partitions if ends[tp])
    return sorted(record.value for record in found)


def read_tables(servers: str, topic: str) -> list[bytes]:
    """The same by `poll_arrow`."""
    partitions = [odradek.TopicPartition(topic, 0), odradek.TopicPartition(topic, 1)]
    with odradek.Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        found: list[bytes] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found += consumer.poll_arrow(500).column("value").to_pylist()
    return sorted(found)


def read_arrow(servers: str, topic: str, isolation_level: str) -> list[bytes]:
    """The same through the reader that Spark's source uses."""
    with RawReader(servers, {"isolation.level": isolation_level}) as reader:
        found: list[bytes] = []
        for (name, partition), end in reader.end_offsets([(topic, 0), (topic, 1)]).items():
            for rows in reader.fetch_columns(name, partition, 0, end):
                found += rows.column("value").to_pylist()
    return sorted(found)


def test_committed_aborted_and_open(servers: str, topic: str) -> None:
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.begin_transaction():
            for number in range(20):
                producer.send(topic, b"committed-%02d" % number, partition=number % 2)
        with pytest.raises(ZeroDivisionError), producer.begin_transaction():
            for number in range(20):
                producer.send(topic, b"aborted-%02d" % number, partition=number % 2)
            producer.flush()
            raise ZeroDivisionError
        with producer.begin_transaction():
            producer.send(topic, b"last", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=1).result(60)
        expected = sorted([*(b"committed-%02d" % number for number in range(20)), b"last"])
        assert read(servers, topic) == expected
        assert read_tables(servers, topic) == expected
        assert read_arrow(servers, topic, "read_committed") == expected
        every = read(servers, topic, "read_uncommitted")
        assert len(every) == 42 and every == read_arrow(servers, topic, "read_uncommitted")
        producer.abort_transaction()
    assert read_when_ended(servers, topic, topic) == expected


def test_offsets_in_a_transaction(servers: str, topic: str) -> None:
    group = f"g-{topic}"
    with (
        odradek.Admin(bootstrap_servers=servers) as admin,
        odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer,
    ):
        producer.init_transactions()
        with producer.begin_transaction():
            producer.send_offsets_to_transaction({(topic, 0): 5, (topic, 1): 6}, group)
        with pytest.raises(ZeroDivisionError), producer.begin_transaction():
            producer.send_offsets_to_transaction({(topic, 0): 50}, group)
            raise ZeroDivisionError
        with odradek.Consumer(bootstrap_servers=servers, group_id=group) as consumer:
            found = consumer.committed([(topic, 0), (topic, 1)])
        assert [entry and entry.offset for entry in found.values()] == [5, 6]
        del admin


def test_a_zombie_is_fenced(servers: str, topic: str) -> None:
    zombie = odradek.Producer(bootstrap_servers=servers, transactional_id=topic)
    successor = odradek.Producer(bootstrap_servers=servers, transactional_id=topic)
    try:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"zombie", partition=0).result(60)
        successor.init_transactions()
        with pytest.raises(ProducerFencedError) as fenced:
            zombie.commit_transaction()
        assert fenced.value.fatal
        with pytest.raises(ProducerFencedError):
            zombie.send(topic, b"zombie", partition=0)
        with successor.begin_transaction():
            successor.send(topic, b"successor", partition=0)
    finally:
        zombie.close()
        successor.close()
    assert read_when_ended(servers, topic, topic) == [b"successor"]


def test_a_refused_record_costs_the_transaction_not_the_producer(servers: str, topic: str) -> None:
    with odradek.Admin(bootstrap_servers=servers) as admin:
        small = odradek.NewTopic(f"{topic}-small", 1, 1, configs={"max.message.bytes": "500"})
        topics_of_kafka.create(admin, small)
    with odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for _ in range(2):
            producer.begin_transaction()
            producer.send(topic, b"in vain", partition=0)
            producer.send(f"{topic}-small", b"x" * 2_000)
            with pytest.raises(RecordTooLargeError) as refused:
                producer.commit_transaction()
            assert refused.value.requires_abort
            producer.abort_transaction()
        with producer.begin_transaction():
            producer.send(topic, b"good", partition=0)
    assert read_when_ended(servers, topic, topic) == [b"good"]


def rows(count: int, what: bytes) -> pa.RecordBatch:
    """Rows with keys."""
    keys = [b"%d" % number for number in range(count)]
    return pa.record_batch({"key": keys, "value": [what + key for key in keys]})


def test_arrow_rows_prepared_by_one_and_ended_by_another(servers: str, topic: str) -> None:
    for commit in (True, False):
        with TransactionalWriter(servers, topic) as task:
            task.init_transactions()
            task.begin_transaction()
            for _ in range(3):
                task.write_columns(rows(500, b"%d-" % commit), topic)
            state = task.prepare_transaction()
        for _ in range(2):  # whoever does not know whether it was done does it again
            with TransactionalWriter(servers, topic) as driver:
                driver.resume_transaction(state)
                driver.commit_transaction() if commit else driver.abort_transaction()
    expected = sorted(b"1-%d" % number for number in range(500) for _ in range(3))
    assert read_arrow(servers, topic, "read_committed") == expected
    assert len(read_arrow(servers, topic, "read_uncommitted")) == 3_000


def test_read_process_write_with_aborts(servers: str, topic: str) -> None:
    source = f"{topic}-in"
    with odradek.Admin(bootstrap_servers=servers) as admin:
        topics_of_kafka.create(admin, odradek.NewTopic(source, 2, 1))
    with odradek.Producer(bootstrap_servers=servers) as producer:
        for number in range(300):
            producer.send(source, b"%03d" % number, partition=number % 2)
    attempts = 0
    parts = [(source, 0), (source, 1)]

    def step(records: list[odradek.ConsumerRecord], producer: odradek.Producer) -> None:
        nonlocal attempts
        attempts += 1
        for record in records:
            producer.send(topic, record.value, partition=record.partition)
        if attempts % 3 == 1:
            producer.flush()
            raise InterruptedError

    consumer = odradek.Consumer(
        source,
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    with consumer, odradek.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        ends = [150, 150]
        while ends != [entry and entry.offset for entry in consumer.committed(parts).values()]:
            with contextlib.suppress(InterruptedError):
                process(consumer, producer, step, max_records=50, idle_polls=1, initialise=False)
    assert read_when_ended(servers, topic, topic) == [b"%03d" % number for number in range(300)]
