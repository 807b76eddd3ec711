"""A topic that changes while readers and writers are kept: nothing is decided from what they knew before."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odradek.client import Admin, Producer, TransactionalWriter
from odradek.client.raw import PartitionRange, RawReader, RawWriter
from odradek.errors import UnknownTopicOrPartitionError

from .conftest import new_topic


def grow(servers: str, admin: Admin, topic: str, partitions: int) -> None:
    """More partitions, and one record in the last of them."""
    admin.create_partitions({topic: partitions})
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"new", partition=partitions - 1).result(60)


def values(reader: RawReader, topic: str, partition: int, end: int) -> list[bytes]:
    return [
        value
        for rows in reader.fetch_columns(topic, partition, 0, end)
        for value in rows.column("value").to_pylist()
    ]


def to_partition(partition: int, value: str) -> pa.Table:
    return pa.table({"value": [value], "partition": pa.array([partition], pa.int32())})


def test_a_kept_reader_reads_partitions_that_came_later(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers) as writer:
        writer.write_columns(to_partition(0, "old"), topic=topic)
    with RawReader(servers) as reader:
        assert values(reader, topic, 0, 1) == [b"old"]
        grow(servers, admin, topic, 2)
        assert values(reader, topic, 1, 1) == [b"new"]
        grow(servers, admin, topic, 3)
        both = [PartitionRange(topic, 2, 0, 1), PartitionRange(topic, 0, 0, 1)]
        found = {
            number: rows.column("value").to_pylist() for _, number, rows in reader.fetch_columns_many(both)
        }
        assert found == {0: [b"old"], 2: [b"new"]}


@pytest.mark.parametrize("question", ["beginning_offsets", "end_offsets", "offsets_for_times"])
def test_a_kept_reader_is_asked_for_offsets_of_partitions_that_came_later(
    question: str, servers: str, admin: Admin
) -> None:
    topic = new_topic(admin, 1)
    with RawReader(servers) as reader:
        assert reader.end_offsets([(topic, 0)]) == {(topic, 0): 0}
        grow(servers, admin, topic, 2)
        new = (topic, 1)
        if question == "offsets_for_times":
            assert reader.offsets_for_times({new: 0}) == {new: 0}
        else:
            assert getattr(reader, question)([new]) == {new: int(question == "end_offsets")}


def test_a_kept_writer_writes_to_partitions_that_came_later(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers) as writer:
        writer.write_columns(to_partition(0, "a"), topic=topic)
        writer.flush()
        grow(servers, admin, topic, 2)
        writer.write_columns(to_partition(1, "b"), topic=topic)
    with RawReader(servers) as reader:
        assert values(reader, topic, 1, 2) == [b"new", b"b"]


def test_a_transaction_writes_to_partitions_that_came_after_its_first_rows(
    servers: str, admin: Admin
) -> None:
    topic = new_topic(admin, 1)
    with TransactionalWriter(servers, f"{topic}-writer") as writer:
        writer.init_transactions()
        writer.begin_transaction()
        writer.write_columns(to_partition(0, "a"), topic=topic)
        grow(servers, admin, topic, 2)
        writer.write_columns(to_partition(1, "b"), topic=topic)
        writer.commit_transaction()
    with RawReader(servers, {"isolation.level": "read_committed"}) as reader:
        assert values(reader, topic, 0, 1) == [b"a"]
        assert values(reader, topic, 1, 2) == [b"new", b"b"]


def test_a_partition_that_no_answer_names_is_missing(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawReader(servers, {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1}) as reader:
        reader.partitions_for(topic)
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 1"):
            list(reader.fetch_columns(topic, 1, 0, 1))
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 1"):
            reader.end_offsets([(topic, 1)])
    quick = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1}
    with RawWriter(servers, quick) as writer, pytest.raises(ValueError, match="it has 1"):
        writer.write_columns(to_partition(1, "x"), topic=topic)


def test_a_topic_that_is_deleted_between_two_questions_is_missing(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers) as writer:
        writer.write_columns(to_partition(0, "a"), topic=topic)
    with RawReader(servers, {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1}) as reader:
        assert values(reader, topic, 0, 1) == [b"a"]
        admin.delete_topics([topic])
        # Not after the minute for which brokers are asked again, since it is known to be gone.
        with pytest.raises(UnknownTopicOrPartitionError, match=topic):
            values(reader, topic, 0, 1)
        with pytest.raises(UnknownTopicOrPartitionError, match=topic):
            reader.end_offsets([(topic, 0)])
