"""Schemas in a topic of a broker: kept over restarts, taken over from others, written by one at a time."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro")

from odradek import Admin, Consumer, NewTopic, Producer
from odradek.schema_registry.errors import RestException
from odradek.schema_registry.kafka_store import KafkaStore, SchemasTopicError
from odradek.schema_registry.registry import Registry
from odradek.schema_registry.service import Service
from odradek.testing import Broker, SchemaRegistry
from odradek.util.http_routes import Request

LONG, STRING, INT = '"long"', '"string"', '"int"'


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def ask(registry: SchemaRegistry, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(registry.url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())["error_code"]


def started(broker: Broker, **more: Any) -> SchemaRegistry:
    return SchemaRegistry(store=broker.client_configs(), **more)


def test_what_was_registered_is_there_after_a_restart(broker: Broker) -> None:
    with started(broker) as registry:
        assert [registry.register("s", schema) for schema in (LONG, STRING, INT)] == [1, 2, 3]
        assert ask(registry, "DELETE", "/subjects/s/versions/2") == 2
        assert ask(registry, "PUT", "/config/s", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
        assert ask(registry, "PUT", "/mode/t", {"mode": "READONLY"}) == {"mode": "READONLY"}
    with started(broker) as registry:
        assert ask(registry, "GET", "/subjects/s/versions") == [1, 3]
        assert ask(registry, "GET", "/subjects/s/versions?deleted=true") == [1, 2, 3]
        assert ask(registry, "GET", "/config/s") == {"compatibilityLevel": "FULL"}
        assert ask(registry, "POST", "/subjects/t/versions", {"schema": INT}) == (422, 42205)
        assert registry.register("u", INT) == 3
        assert registry.register("u", '"bytes"') == 4


def test_the_topic_is_one_that_keeps_schemas(broker: Broker) -> None:
    with started(broker), Admin(broker.client_configs()) as admin:
        assert len(admin.describe_topics(["_schemas"])["_schemas"].partitions) == 1
        configs = admin.describe_configs([("topic", "_schemas")])["topic", "_schemas"]
        assert configs["cleanup.policy"].value == "compact"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (NewTopic("_schemas", 2, 1, configs={"cleanup.policy": "compact"}), "2 partitions"),
        (NewTopic("_schemas", 1, 1), "cleanup.policy=delete"),
    ],
)
def test_a_topic_that_would_lose_schemas_is_refused(broker: Broker, topic: NewTopic, reason: str) -> None:
    with Admin(broker.client_configs()) as admin:
        admin.create_topics([topic])
    with pytest.raises(SchemasTopicError, match=reason):
        started(broker)


def test_the_one_that_was_started_last_writes(broker: Broker) -> None:
    with started(broker) as first:
        first.register("s", LONG)
        with started(broker) as second:
            assert ask(second, "GET", "/subjects/s/versions") == [1]
            assert second.register("s", STRING) == 2
            for _ in range(2):
                with pytest.raises(
                    RestException, match="Another registry writes the topic _schemas"
                ) as caught:
                    first.register("s", INT)
                assert (caught.value.status, caught.value.error_code) == (500, 50004)
            # Reading it goes on.
            assert ask(first, "GET", "/schemas/ids/1") == {"schema": LONG}
            assert second.register("s", INT) == 3
            assert ask(second, "GET", "/subjects/s/versions") == [1, 2, 3]


def test_a_topic_that_another_registry_has_written_is_taken_over(broker: Broker) -> None:
    """Also its way of writing keys: compaction takes others for other keys."""
    theirs = b'{"keytype":"CONFIG","subject":null,"magic":0}'
    records = [
        (b'{"keytype":"NOOP","magic":0}', None),
        (theirs, b'{"compatibilityLevel":"NONE"}'),
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":7,"md5":"x","schemaType":"AVRO","schema":"\\"long\\"","deleted":false}',
        ),
        (b"what is this", b"?"),
        (b'{"keytype":"CONTEXT","tenant":"default","context":".c"}', b'{"tenant":"default","context":".c"}'),
        (
            b'{"keytype":"SCHEMA","subject":":.c:s","version":1,"magic":1}',
            b'{"subject":":.c:s","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
        ),
        (b'{"keytype":"DELETE_SUBJECT","subject":"t","magic":0}', b'{"subject":"t","version":1}'),
    ]
    with Admin(broker.client_configs()) as admin:
        admin.create_topics([NewTopic("_schemas", 1, 1, configs={"cleanup.policy": "compact"})])
    with Producer(broker.client_configs()) as producer:
        for key, value in records:
            producer.send("_schemas", value, key=key)
    with started(broker, compatibility="FULL") as registry:
        assert ask(registry, "GET", "/subjects") == ["s"]
        assert ask(registry, "GET", "/config") == {"compatibilityLevel": "NONE"}
        assert registry.register("s", LONG) == 7
        assert registry.register("s", STRING) == 8
        ask(registry, "PUT", "/config", {"compatibility": "FULL"})
    configs = {**broker.client_configs(), "auto.offset.reset": "earliest"}
    with Consumer(configs) as consumer:
        consumer.assign([("_schemas", 0)])
        consumer.seek_to_beginning(("_schemas", 0))
        end = consumer.end_offsets([("_schemas", 0)])["_schemas", 0]
        found: list[Any] = []
        while consumer.position(("_schemas", 0)) < end:
            found += consumer.poll()
    assert [record.value for record in found if record.key == theirs][1:] == [
        b'{"compatibilityLevel":"FULL"}'
    ]


def test_brokers_that_are_gone_are_told() -> None:
    """Nothing counts that the topic has not."""
    service: Service
    with Broker() as broker:
        service = Service(
            Registry("NONE"), lambda replay: KafkaStore(replay, broker.client_configs(), timeout_s=2)
        )
        register = Request("POST", "/subjects/s/versions", b'{"schema":"\\"int\\""}')
        assert service.answer(register) == {"id": 1}
    try:
        other = Request("POST", "/subjects/t/versions", b'{"schema":"\\"long\\""}')
        with pytest.raises(RestException) as caught:
            service.answer(other)
        assert caught.value.status == 500
        assert caught.value.error_code in (50001, 50002)
        assert service.answer(Request("GET", "/subjects")) == ["s"]
    finally:
        service.close()


def test_what_is_too_large_is_told_and_the_next_goes_on(broker: Broker) -> None:
    with started(broker) as registry:
        with pytest.raises(RestException) as caught:
            registry.register(
                "s", json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 2_000_000})
            )
        assert caught.value.error_code == 42209
        assert registry.register("s", LONG) == 1
