"""What the options of typed columns mean, and how they complain: by the option's name and with what to do."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.spark.formats.columns import typed_read
from odradek.spark.option_values import Given
from odradek.spark.options import parse_sink, parse_source

SERVERS = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
DDL = "id bigint, user string, partition int"


def schema(**options: str) -> str:
    given = Given({**SERVERS, **{name.replace("_", "."): text for name, text in options.items()}})
    read = typed_read(given)
    assert read is not None
    return read.schema.simpleString()[len("struct<") : -1]


def test_the_table() -> None:
    others = "topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    corrupt = "_corrupt:struct<key:binary,value:binary,reason:string>"
    assert schema(value_format="json", value_schema="id int") == (
        f"key:binary,value:struct<id:int>,{others},{corrupt}"
    )
    assert (
        schema(key_format="long", value_format="string", mode="failfast")
        == f"key:bigint,value:string,{others}"
    )
    assert schema(headers_format="map") == f"key:binary,value:binary,{others},headers:map<string,binary>"
    assert schema(value_format="string", headers_format="array", mode="dropmalformed").endswith(
        "headers:array<struct<key:string,value:binary>>"
    )


def test_members() -> None:
    json = {"value_format": "json", "value_schema": DDL}
    assert schema(**json, columns="value.*") == "id:bigint,user:string,partition:int"
    assert schema(**json, columns="timestamp, VALUE.user as `a name`,_corrupt").startswith(
        "timestamp:timestamp,a name:string,_corrupt"
    )
    assert schema(**json, columns="partition, value.partition AS p") == "partition:int,p:int"
    assert schema(**json, columns="value, value.id") == (
        "value:struct<id:bigint,user:string,partition:int>,id:bigint"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value.format": "xml"}, "value.format must be one of binary, bytes, string"),
        ({"value.format": "json"}, "value.format 'json' needs value.schema: the columns"),
        ({"value.format": "json", "value.schema": "id in"}, "value.schema: the DDL has the type 'in'"),
        ({"value.format": "json", "value.schema": "m map<int, int>"}, "say map<string"),
        ({"value.format": "avro"}, "needs value.schema (the schema as JSON) or value.schema.registry.url"),
        (
            {"value.format": "avro", "value.schema": "id int"},
            "value.schema is DDL; records of value.format 'avro'",
        ),
        ({"value.format": "avro", "value.schema": "{"}, "value.schema: the Avro schema is not JSON"),
        ({"value.format": "protobuf"}, "value.schema (the path of a descriptor file)"),
        ({"value.schema": "id int"}, "value.schema needs value.format: say which format"),
        ({"key.format": "long", "key.schema": "id int"}, "key.schema has no meaning with key.format 'long'"),
        (
            {"value.format": "json", "value.schema": DDL, "value.schema.message": "M"},
            "names a protobuf message",
        ),
        ({"value.format": "json", "value.schema": DDL, "value.schema.subject": "s"}, "say where it is with"),
        (
            {"value.format": "json", "value.schema": DDL, "value.schema.registry.url": "host:8081"},
            "value.schema.registry.url must begin with http:// or https://, got 'host:8081'",
        ),
        (
            {
                "value.format": "avro",
                "schema.registry.url": "http://h",
                "schema.registry.basic.auth.user.info": "me",
            },
            "value.schema.registry.basic.auth.user.info must be user:password",
        ),
        (
            {
                "value.format": "avro",
                "schema.registry.url": "http://h",
                "schema.registry.ssl.truststore.type": "PEM",
            },
            "schema.registry.ssl.truststore.type is for TLS: value.schema.registry.url must begin with https",
        ),
        (
            {"value.format": "avro", "value.schema": "x", "value.schema.registry.ssl.keystore.key": "k"},
            "value.schema.registry.ssl.keystore.key is for schemas of a registry: say where it is",
        ),
        (
            {"value.format": "avro", "schema.registry.url": "http://h", "value.schema.version": "new"},
            "value.schema.version must be a number or 'latest', got 'new'",
        ),
        (
            {"value.format": "json", "value.schema": DDL, "value.timestamp.unit": "ns"},
            "must be one of s, ms, us",
        ),
        ({"mode": "permissive"}, "mode is for malformed records: it needs value.format or key.format"),
        (
            {"value.format": "string", "mode": "skip"},
            "mode must be one of permissive, dropmalformed, failfast",
        ),
        (
            {"value.format": "string", "mode": "failfast", "deadLetterTopic": "d"},
            "mode FAILFAST stops at the first",
        ),
        ({"value.format": "string", "deadLetterTopic": ""}, "deadLetterTopic must name a topic"),
        ({"headers.format": "list"}, "headers.format must be one of array, map"),
        (
            {"value.format": "string", "columns": "value.x"},
            "the value is a single value, it has no member 'x'",
        ),
        ({"value.format": "string", "columns": "key.x"}, "'key.x' needs key.format"),
        (
            {"value.format": "json", "value.schema": DDL, "columns": "value.name"},
            "the value has no member 'name'; there are id, user, partition",
        ),
        (
            {"value.format": "json", "value.schema": DDL, "columns": "value.*, partition"},
            "two columns are called 'partition'; give one another name, as in 'value.partition AS other_",
        ),
        ({"value.format": "json", "value.schema": DDL, "columns": "value.* AS x"}, "cannot be called 'x'"),
        (
            {"value.format": "json", "value.schema": DDL, "columns": "value .. id"},
            "cannot read 'value .. id'",
        ),
        (
            {"value.format": "json", "value.schema": DDL, "columns": "id"},
            "no column 'id'; there are key, value",
        ),
        ({"valueformat": "json"}, "did you mean 'value.format'?"),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        given = {**SERVERS, **options}
        parse_source(given, streaming=False)
        typed_read(Given(given))
    assert message in str(caught.value)


def test_a_subject_for_several_topics() -> None:
    options: dict[str, Any] = {
        **SERVERS,
        "subscribe": "a,b",
        "value.format": "avro",
        "schema.registry.url": "http://h",
    }
    with pytest.raises(ValueError, match=r"value.schema.subject must say under which subject"):
        typed_read(Given(options))


def test_without_formats_nothing_changes() -> None:
    assert typed_read(Given(SERVERS)) is None
    assert parse_source(SERVERS, streaming=False).typed is None
    parse_sink({"kafka.bootstrap.servers": "h:1", "topic": "t"})
