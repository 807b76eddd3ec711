"""Records read and written by the schemas of a registry."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from odradek import Consumer, Producer
from odradek.serdes import (
    AvroSerializer,
    JSONSerializer,
    ProtobufSerializer,
    Schema,
    SchemaRegistryClient,
)
from odradek.testing import Broker, SchemaRegistry
from ports import free_port
from waiting import WITHIN_S

from .conftest import Visitor

AVRO = """{"type": "record", "name": "A", "fields": [
    {"name": "who", "type": "string"}, {"name": "b", "type": "bytes"}]}"""
JSON = '{"title": "J", "type": "object", "properties": {"who": {"type": "string"}}}'


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


def _message() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="seen.proto", package="seen", syntax="proto3")
    message = file.message_type.add(name="P")
    message.field.add(name="who_is", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("seen.P"))(who_is="<b>protobuf")


def test_records_are_read_by_their_schemas(
    broker: Broker, registry: SchemaRegistry, visit: Callable[..., Visitor]
) -> None:
    client = SchemaRegistryClient(url=registry.url)
    message = _message()
    values = [
        (AvroSerializer(client, AVRO), {"who": "<b>avro", "b": b"\x00\xff"}),
        (JSONSerializer(JSON, client), {"who": "<b>json"}),
        (ProtobufSerializer(type(message), client), message),
    ]
    for n, (serializer, value) in enumerate(values):
        with Producer(bootstrap_servers=broker.bootstrap_servers, value_serializer=serializer) as producer:
            producer.send(f"by-schema-{n}", value).result(WITHIN_S)
    visitor = visit(broker.bootstrap_servers, schema_registry={"url": registry.url})
    visitor.log_in()
    pages = [visitor.get(f"/topics/by-schema-{n}/messages") for n in range(3)]
    for page, told in zip(
        pages, ('"who": "<b>avro"', '"who": "<b>json"', '"who_is": "<b>protobuf"'), strict=True
    ):
        assert told in html.unescape(page)
        assert "<b>" not in page
        assert ", schema " in page
    assert '"b": "00 ff"' in html.unescape(pages[0])


def test_what_no_schema_tells_is_shown_as_it_is(
    broker: Broker, registry: SchemaRegistry, visit: Callable[..., Visitor]
) -> None:
    client = SchemaRegistryClient(url=registry.url)
    known = client.register_schema("damaged-value", Schema(AVRO))
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("damaged", b"\x00" + known.to_bytes(4, "big") + b"\x63\x01").result(WITHIN_S)
        producer.send("damaged", b"\x00\x7f\x00\x00\x00\x01", b"text").result(WITHIN_S)
    visitor = visit(broker.bootstrap_servers, schema_registry={"url": registry.url})
    visitor.log_in()
    page = visitor.get("/topics/damaged/messages")
    assert "63 01" in page
    assert f"avro, schema {known}: it cannot be read" in html.unescape(page)
    assert "00 7f 00 00 00 01" in page
    gone = visit(broker.bootstrap_servers, schema_registry={"url": f"http://127.0.0.1:{free_port()}"})
    gone.log_in()
    page = gone.get("/topics/damaged/messages")
    assert "63 01" in page
    assert "refused" in page


def test_a_record_is_written_by_the_newest_schema(
    broker: Broker, registry: SchemaRegistry, visit: Callable[..., Visitor]
) -> None:
    client = SchemaRegistryClient(url=registry.url)
    broker.create_topic("to-write")
    client.register_schema("to-write-value", Schema(JSON, "JSON"))
    visitor = visit(broker.bootstrap_servers, schema_registry={"url": registry.url})
    visitor.log_in()
    path = "/topics/to-write/produce"
    fields = {"key_form": "null", "value_form": "schema"}
    assert "offset 0" in visitor.post(path, path, value='{"who": "me"}', **fields)
    refused = visitor.post(path, path, 400, value='{"who": 7}', **fields)
    assert "7 is not of type" in html.unescape(refused)
    assert "me" in visitor.get("/topics/to-write/messages")


def test_producing(broker: Broker, visit: Callable[..., Visitor], visitor: Visitor) -> None:
    broker.create_topic("written", 2)
    path = "/topics/written/produce"
    fields = {"key": "00 ff", "key_form": "hex", "value": "<b>é\r\n", "value_form": "text"}
    page = visitor.post(path, path, **fields, headers="a=b=c\n\nx=", partition="1")
    assert "Produced: partition 1, offset 0." in page
    assert "<b>" not in page
    with Consumer(
        "written",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="reads-what-was-written",
        auto_offset_reset="earliest",
    ) as consumer:
        record = next(iter(consumer))
    assert (record.partition, record.key, record.value) == (1, b"\x00\xff", "<b>é\n".encode())
    assert record.headers == (("a", b"b=c"), ("x", b""))
    for told, wrong in (
        ("not in hex", {"value": "xx", "value_form": "hex"}),
        ("it is not JSON", {"value": "{", "value_form": "json"}),
        ("none of text", {"value": "", "value_form": "xml"}),
        ("without --schema-registry", {"value": "1", "value_form": "schema"}),
        ("is not name=value", {"value": "", "value_form": "text", "headers": "x"}),
    ):
        assert told in html.unescape(visitor.post(path, path, 400, key_form="null", **wrong)), told
    reader = visit(broker.bootstrap_servers, read_only=True)
    reader.log_in()
    assert "--read-only" in reader.post("/topics", path, 403, **fields)
    assert "/produce" not in reader.get("/topics/written")
