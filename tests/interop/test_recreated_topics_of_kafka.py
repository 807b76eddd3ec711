"""A topic anew on real Kafkas: without ids, with ids that Fetch does without, with ids that it compares."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from interop import kafka_peer, members
from interop.conftest import needs_java_for
from odradek import Admin, NewTopic
from odradek.client.errors import TopicRecreatedError
from odradek.client.raw import RawReader, RawWriter
from odradek.errors import TopicExistsError

pytestmark = pytest.mark.interop

SETTINGS = {"offsets.topic.num.partitions": "1", "delete.topic.enable": "true"}
NO_ID = bytes(16)


@pytest.fixture(scope="module", params=("2.2.2", "2.8.2", "3.9.1", kafka_peer.NEWEST))
def kafka(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.RealKafka]:
    needs_java_for(request.param)
    with kafka_peer.RealKafka(request.param, tmp_path_factory.mktemp("kafka"), SETTINGS) as running:
        yield running


def fill(servers: str, topic: str, count: int) -> None:
    with RawWriter(servers) as writer:
        writer.write_columns(pa.table({"value": [str(number) for number in range(count)]}), topic=topic)


def test_a_kept_reader_meets_more_partitions_and_another_topic(kafka: kafka_peer.RealKafka) -> None:
    at = kafka.bootstrap_servers
    with Admin(bootstrap_servers=at) as admin, RawReader(at) as reader, RawReader(at) as kept:

        def there(topic_id: bytes, partitions: int) -> bytes:
            """The id, once the broker has heard of the change."""

            def changed() -> bool:
                found = reader.look_up_topics(["t"])["t"]
                return len(found.partitions) == partitions and found.topic_id != (topic_id or None)

            members.until("the topic has changed", changed)
            return reader.look_up_topics(["t"])["t"].topic_id

        admin.create_topics([NewTopic("t", 1, 1)])
        old = there(b"", 1)
        assert any(old) == (kafka_peer.version_tuple(kafka.version) >= (2, 8))
        fill(at, "t", 10)
        assert sum(rows.num_rows for rows in kept.fetch_columns("t", 0, 0, 10, topic_id=old)) == 10
        # At once, whatever the broker has heard of by then.
        admin.create_partitions({"t": 2})
        assert kept.end_offsets([("t", 1)]) == {("t", 1): 0}
        admin.delete_topics(["t"])

        def made() -> bool:
            try:
                admin.create_topics([NewTopic("t", 1, 1)])
            except TopicExistsError:
                return False
            return True

        members.until("the topic is gone, and can be made", made)
        new = there(old if any(old) else b"", 1)
        fill(at, "t", 20)
        if any(old):
            with pytest.raises(TopicRecreatedError, match="made again"):
                list(kept.fetch_columns("t", 0, 5, 10, topic_id=old))
        assert sum(rows.num_rows for rows in kept.fetch_columns("t", 0, 0, 20, topic_id=new)) == 20
