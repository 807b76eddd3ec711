"""A reader of many topics asks for the metadata of those that it lacks, and not for all others again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odradek.client import Admin
from odradek.client.blocking import BlockingConnection
from odradek.client.raw import RawReader, RawWriter
from odradek.wire.messages.metadata import MetadataRequest

from .conftest import new_topic


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str] | None]:
    """The topics of each Metadata request that is sent from here on; None: all."""
    found: list[list[str] | None] = []
    send = BlockingConnection.send

    def noted(connection: BlockingConnection, request: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(request, MetadataRequest):
            found.append(None if request.topics is None else [one.name for one in request.topics])
        return send(connection, request, *rest, **options)

    monkeypatch.setattr(BlockingConnection, "send", noted)
    return found


@pytest.fixture
def topics(servers: str, admin: Admin) -> list[str]:
    """Three topics with a record in each."""
    names = sorted(new_topic(admin, 1) for _ in range(3))
    with RawWriter(servers) as writer:
        for name in names:
            writer.write_columns(pa.table({"value": [name]}), topic=name)
    return names


def read(reader: RawReader, topic: str) -> list[bytes]:
    return [
        value for rows in reader.fetch_columns(topic, 0, 0, 1) for value in rows.column("value").to_pylist()
    ]


def test_one_after_the_other_each_is_asked_for_alone(
    servers: str, topics: list[str], asked: list[list[str] | None]
) -> None:
    with RawReader(servers) as reader:
        for topic in topics:
            assert read(reader, topic) == [topic.encode()]
        assert reader.end_offsets([(topics[0], 0)]) == {(topics[0], 0): 1}
    assert asked == [[topic] for topic in topics]


def test_learned_together_none_is_asked_for_again(
    servers: str, topics: list[str], asked: list[list[str] | None]
) -> None:
    with RawReader(servers) as reader:
        read(reader, topics[0])
        reader.learn_topics(topics)
        reader.learn_topics(topics)
        for topic in topics:
            assert read(reader, topic) == [topic.encode()]
    assert asked == [[topics[0]], topics[1:]]


def test_one_that_is_not_there_is_told_where_it_is_read(servers: str, topics: list[str]) -> None:
    from odradek.errors import UnknownTopicOrPartitionError

    with RawReader(servers) as reader:
        reader.learn_topics([*topics, "not-there"])
        assert read(reader, topics[1]) == [topics[1].encode()]
        with pytest.raises(UnknownTopicOrPartitionError, match="not-there"):
            read(reader, "not-there")
