"""A topic deleted and made again under its name: who was told the old id does not read the new one."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from odradek.client import Admin, NewTopic
from odradek.client.errors import TopicRecreatedError
from odradek.client.raw import RawReader, RawWriter
from odradek.testing import Broker

QUICK = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1}


@pytest.fixture(params=["4.3", "2.8"], scope="module")
def at(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kafka 2.8 tells ids, and is read by name."""
    with Broker(kafka_version=request.param) as broker:
        yield broker.bootstrap_servers


def fill(servers: str, topic: str, count: int) -> None:
    with RawWriter(servers) as writer:
        writer.write_columns(pa.table({"value": [str(number) for number in range(count)]}), topic=topic)


def make_again(servers: str, topic: str, count: int) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        admin.create_topics([NewTopic(topic, 1, 1)])
    fill(servers, topic, count)


def test_the_id_tells(at: str) -> None:
    with RawReader(at, QUICK) as reader, RawReader(at, QUICK) as kept:
        fill(at, "told", 10)
        old = reader.look_up_topics(["told"])["told"].topic_id
        assert any(old)
        assert sum(b.num_rows for b in kept.fetch_columns("told", 0, 0, 10, topic_id=old)) == 10
        make_again(at, "told", 20)
        new = reader.look_up_topics(["told"])["told"].topic_id
        assert new != old
        for _ in range(2):
            with pytest.raises(TopicRecreatedError, match=r"told.*made again"):
                list(kept.fetch_columns("told", 0, 5, 10, topic_id=old, fail_on_data_loss=False))
            # And the other way round: what is known of the old does not hide the new.
            assert sum(b.num_rows for b in kept.fetch_columns("told", 0, 0, 20, topic_id=new)) == 20


def test_made_again_while_it_is_read(at: str) -> None:
    with RawReader(at, {**QUICK, "max.partition.fetch.bytes": 1, "fetch.max.bytes": 1}) as reader:
        for _ in range(20):
            fill(at, "during", 10)
        old = reader.look_up_topics(["during"])["during"].topic_id
        reading = reader.fetch_columns("during", 0, 0, 200, batch_rows=5, topic_id=old)
        assert next(reading).num_rows == 5
        make_again(at, "during", 200)
        with pytest.raises(TopicRecreatedError, match=r"during.*made again"):
            list(reading)


def test_a_broker_without_ids_is_read_by_name() -> None:
    with Broker(kafka_version="2.2") as broker, RawReader(broker.bootstrap_servers, QUICK) as reader:
        fill(broker.bootstrap_servers, "t", 3)
        found = reader.look_up_topics(["t", "nowhere"])
        assert not any(found["t"].topic_id)
        assert found["nowhere"].error.name == "UNKNOWN_TOPIC_OR_PARTITION"
        assert sum(b.num_rows for b in reader.fetch_columns("t", 0, 0, 3, topic_id=bytes(range(16)))) == 3
