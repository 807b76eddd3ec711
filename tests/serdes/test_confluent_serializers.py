"""Our serializers beside confluent-kafka's: the same bytes, and each reads what the other has written."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools.protoc")
with warnings.catch_warnings():
    # Its own imports warn of what they import.
    warnings.simplefilter("ignore")
    for name in ("", ".avro", ".json_schema", ".protobuf"):
        pytest.importorskip(
            f"confluent_kafka.schema_registry{name}",
            reason="needs pip install 'confluent-kafka[avro,json,protobuf]'",
        )

from confluent_kafka import schema_registry as confluent
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext

from odradek import serdes
from odradek.testing import SchemaRegistry

from .messages import message_class

pytestmark = pytest.mark.filterwarnings("ignore")
R1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"s","type":["null","string"]}]}'
R2 = R1.replace('"a","type":"int"', '"b","type":"int","default":7')
ORDER = '{"title":"Order","type":"object","properties":{"x":{"type":"integer"},"s":{}}}'
VALUE = SerializationContext("t", MessageField.VALUE)
KEY = SerializationContext("t", MessageField.KEY)
STRATEGIES = ["TOPIC", "RECORD", "TOPIC_RECORD"]


class Clients(NamedTuple):
    """Both clients of one registry."""

    theirs: Any
    ours: serdes.SchemaRegistryClient


@pytest.fixture
def clients() -> Iterator[Clients]:
    with (
        SchemaRegistry("me:secret") as registry,
        confluent.SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "me:secret"}) as theirs,
    ):
        yield Clients(theirs, serdes.SchemaRegistryClient(url=registry.url, basic_auth_user_info="me:secret"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("schema", "value"),
    [(R1, {"a": 5, "s": "ü"}), ('"long"', 1 << 40), ('"bytes"', b"raw"), ('["null","string"]', "s")],
)
def test_avro(clients: Clients, schema: str, value: Any, strategy: str) -> None:
    if schema.startswith("["):
        strategy = "TOPIC"  # a union has no name
    conf = {"subject.name.strategy.type": strategy}
    for ctx in (VALUE, KEY):
        theirs = confluent_avro.AvroSerializer(clients.theirs, schema, conf=conf)(value, ctx)
        ours = serdes.AvroSerializer(clients.ours, schema, conf=conf)(value, ctx)
        assert ours == theirs
        assert serdes.AvroDeserializer(clients.ours)(theirs, ctx) == value
        assert confluent_avro.AvroDeserializer(clients.theirs)(ours, ctx) == value
    assert len(clients.ours.get_subjects()) == (1 if strategy.startswith(("RECORD", "TOPIC_R")) else 2)


def test_avro_projected(clients: Clients) -> None:
    data = serdes.AvroSerializer(clients.ours, R1)({"a": 5, "s": None}, VALUE)
    read = serdes.AvroDeserializer(clients.ours, R2)(data, VALUE)
    assert read == confluent_avro.AvroDeserializer(clients.theirs, R2)(data, VALUE) == {"b": 7, "s": None}


def test_avro_with_references(clients: Clients) -> None:
    clients.ours.register_schema("r", serdes.Schema(R1))
    text = '{"type":"array","items":"R"}'
    theirs = confluent.Schema(text, "AVRO", [confluent.SchemaReference("R", "r", 1)])
    ours = serdes.Schema(text, references=[serdes.SchemaReference("R", "r", 1)])
    value = [{"a": 1, "s": None}]
    by_them = confluent_avro.AvroSerializer(clients.theirs, theirs)(value, VALUE)
    by_us = serdes.AvroSerializer(clients.ours, ours)(value, VALUE)
    assert by_us == by_them
    assert serdes.AvroDeserializer(clients.ours)(by_them, VALUE) == value
    assert confluent_avro.AvroDeserializer(clients.theirs)(by_us, VALUE) == value


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_json(clients: Clients, strategy: str) -> None:
    conf = {"subject.name.strategy.type": strategy}
    value = {"x": 5, "s": ["ü", None, 1.5]}
    theirs = confluent_json.JSONSerializer(ORDER, clients.theirs, conf=conf)(value, VALUE)
    ours = serdes.JSONSerializer(ORDER, clients.ours, conf=conf)(value, VALUE)
    assert ours == theirs
    assert len(clients.ours.get_subjects()) == 1
    for schema in (None, ORDER):
        assert serdes.JSONDeserializer(schema, None, clients.ours)(theirs, VALUE) == value
        reader = confluent_json.JSONDeserializer(schema, schema_registry_client=clients.theirs)
        assert reader(ours, VALUE) == value


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["serdes.Sale", "serdes.Sale.Line", "serdes.Other", "serdes.inner.Inner"])
def test_protobuf(clients: Clients, name: str, strategy: str) -> None:
    kind = message_class(name)
    message = kind()
    if name == "serdes.Sale":
        message.x, message.inside.s = 5, "ü"
    conf = {"subject.name.strategy.type": strategy, "use.deprecated.format": False}
    theirs = confluent_protobuf.ProtobufSerializer(kind, clients.theirs, conf)(message, VALUE)
    ours = serdes.ProtobufSerializer(kind, clients.ours, conf)(message, VALUE)
    assert ours == theirs
    assert serdes.ProtobufDeserializer(kind, None, clients.ours)(theirs, VALUE) == message
    reader = confluent_protobuf.ProtobufDeserializer(kind, {"use.deprecated.format": False}, clients.theirs)
    assert reader(ours, VALUE) == message


@pytest.mark.parametrize("conf", [{"use.latest.version": True}, {"use.schema.id": 2}])
def test_what_the_registry_has(clients: Clients, conf: dict[str, Any]) -> None:
    clients.ours.register_schema("t-value", serdes.Schema(R1))
    clients.ours.register_schema("t-value", serdes.Schema(R2))
    given = {**conf, "auto.register.schemas": False}
    theirs = confluent_avro.AvroSerializer(clients.theirs, None, conf=given)({"b": 1, "s": None}, VALUE)
    ours = serdes.AvroSerializer(clients.ours, conf=given)({"b": 1, "s": None}, VALUE)
    assert ours == theirs


def test_a_tombstone_is_one_for_both(clients: Clients) -> None:
    assert confluent_avro.AvroSerializer(clients.theirs, R1)(None, VALUE) is None
    assert serdes.AvroSerializer(clients.ours, R1)(None, VALUE) is None
