"""`spark.read.format("odradek")` with formats: batch and stream, modes, dead letters, registries."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from spark.conftest import Topic, started_in_time

pytestmark = pytest.mark.spark

DDL = "id BIGINT, name STRING, tags ARRAY<STRING>, at TIMESTAMP, price DECIMAL(10,2), `in` STRUCT<x: INT>"
GOOD = {"id": 1, "name": "a", "tags": ["x"], "at": "2026-01-01T00:00:00Z", "price": 1.5, "in": {"x": 2}}


def filled(new_topic: Any, *values: Any, key: bytes | None = None, headers: Any = ()) -> Topic:
    topic: Topic = new_topic()
    topic.produce(
        [one if isinstance(one, bytes | str | None) else json.dumps(one) for one in values],
        key=key,
        headers=headers,
    )
    return topic


def error(action: Any) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def test_ddl_is_read_as_spark_reads_it(spark: Any) -> None:
    from pyspark.sql.types import DataType

    from odradek.spark.formats.ddl import parse_ddl

    for text in (
        DDL,
        "a INT NOT NULL COMMENT 'x', `b c` MAP<STRING, ARRAY<DATE>>",
        "array<struct<a decimal(5)>>",
    ):
        assert parse_ddl(text).simpleString() == DataType.fromDDL(text).simpleString()


def test_json_like_from_json(spark: Any, new_topic: Any, read: Any) -> None:
    """The same columns as the untyped read and `from_json` give."""
    from pyspark.sql import functions as fn

    topic = filled(
        new_topic,
        GOOD,
        {"id": None, "tags": None, "in": None},
        {
            "id": -5,
            "name": 'quoted "é" \U0001f600',
            "tags": [None, "y"],
            "in": {"x": None, "z": 1},
            "price": "7.125",
        },
        '{"name":{"not":"text"},"at":1700000000}',
        {},
        None,
    )
    typed = read(subscribe=topic.name, **{"value.format": "json", "value.schema": DDL})
    plain = read(subscribe=topic.name)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    expected = plain.select(fn.from_json(fn.col("value").cast("string"), DDL).alias("value"), "offset")
    assert typed.select("value", "offset").orderBy("offset").collect() == expected.orderBy("offset").collect()
    assert typed.where("_corrupt is not null").count() == 0
    spark.conf.set("spark.sql.session.timeZone", before)


def test_members_and_grouping(new_topic: Any, read: Any) -> None:
    topic = filled(new_topic, *({"id": number, "name": "ab"[number % 2]} for number in range(10)))
    frame = read(
        subscribe=topic.name,
        columns="value.name AS who, value.id",
        **{"value.format": "json", "value.schema": "id BIGINT, name STRING"},
    )
    rows = frame.groupBy("who").sum("id").orderBy("who").collect()
    assert [tuple(row) for row in rows] == [("a", 20), ("b", 25)]


def test_permissive(new_topic: Any, read: Any) -> None:
    topic = filled(new_topic, GOOD, b"not json", None, GOOD, key=b"k")
    rows = (
        read(subscribe=topic.name, **{"value.format": "json", "value.schema": DDL})
        .orderBy("offset")
        .collect()
    )
    assert [row.value is None for row in rows] == [False, True, True, False]
    assert [row._corrupt is None for row in rows] == [True, False, True, True]
    assert rows[1]._corrupt.asDict() == {
        "key": bytearray(b"k"),
        "value": bytearray(b"not json"),
        "reason": "value: at byte 0: it is not JSON",
    }


def test_dropmalformed_and_failfast(new_topic: Any, read: Any) -> None:
    topic = filled(new_topic, GOOD, b"{", GOOD, b"")
    options = {"value.format": "json", "value.schema": DDL, "columns": "offset, value.id"}
    rows = read(subscribe=topic.name, mode="DROPMALFORMED", **options).orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(0, 1), (2, 1)]
    message = error(read(subscribe=topic.name, mode="FAILFAST", **options).collect)
    assert "MalformedRecordError" in message
    assert f"topic {topic.name}, partition 0, offset 1: the value is malformed" in message
    assert read(subscribe=topic.name, mode="DROPMALFORMED", **{**options, "columns": "offset"}).count() == 2


def test_dead_letters(new_topic: Any, read: Any, servers: str) -> None:
    from odradek.client import RawReader

    topic = filled(new_topic, GOOD, b"bad", key=b"short", headers=[("mine", b"1")])
    dead = new_topic()
    options = {
        "key.format": "long", "value.format": "json", "value.schema": DDL, "deadLetterTopic": dead.name,
        "kafka.fetch.max.bytes": "1000000", "columns": "offset", "mode": "DROPMALFORMED",
    }  # fmt: skip
    assert read(subscribe=topic.name, **options).count() == 0
    found = []
    with RawReader(servers) as reader:
        for rows in reader.fetch_columns(dead.name, 0, 0, 2, with_headers=True):
            found += rows.to_pylist()
    assert [(one["key"], one["value"][:3]) for one in found] == [(b"short", b'{"i'), (b"short", b"bad")]
    headers = {one["key"]: one["value"] for one in found[1]["headers"]}
    assert headers == {
        "mine": b"1",
        "__connect.errors.topic": topic.name.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"1",
        "__connect.errors.stage": b"KEY_CONVERTER_AND_VALUE_CONVERTER",
        "__connect.errors.exception.class.name": b"odradek.spark.formats.errors.MalformedRecordError",
        "__connect.errors.exception.message": (
            b"key: a long has 8 bytes, and it has another length; value: at byte 0: it is not JSON"
        ),
    }


def test_single_values_and_headers_as_a_map(new_topic: Any, read: Any) -> None:
    topic = filled(
        new_topic, b"text", key=struct.pack(">q", 7), headers=[("a", b"1"), ("b", None), ("a", b"2")]
    )
    topic.produce(["none"], key=struct.pack(">q", 8), headers=[("c", b"3")])
    rows = (
        read(
            subscribe=topic.name, **{"key.format": "long", "value.format": "string", "headers.format": "map"}
        )
        .orderBy("offset")
        .collect()
    )
    assert [(row.key, row.value, row.headers) for row in rows] == [
        (7, "text", {"a": bytearray(b"2"), "b": None}),
        (8, "none", {"c": bytearray(b"3")}),
    ]


def framed(number: int, schema: Any, value: Any) -> bytes:
    import fastavro

    out = io.BytesIO(b"\x00" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def avro(*fields: Any) -> dict[str, Any]:
    made = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {"type": "record", "name": "R", "fields": made}


def test_avro_of_a_registry_whose_schema_evolves(spark: Any, new_topic: Any, read: Any) -> None:
    pytest.importorskip("fastavro")
    from odradek.testing import SchemaRegistry, Security

    first = avro(("id", "int"), ("name", "string"))
    second = avro(("id", "long"), ("name", "string"), ("city", ["null", "string"], None))
    topic = new_topic()
    with SchemaRegistry("user:secret", Security(client_auth="required")) as registry:
        one = registry.register(f"{topic.name}-value", json.dumps(first))
        # Over TLS, with a certificate of the client's, which comes to the tasks as text.
        asked = registry.options("alice")
        options = {**asked, "value.format": "avro", "columns": "value.*, offset, _corrupt"}
        topic.produce([framed(one, first, {"id": 1, "name": "a"})])
        early = read(subscribe=topic.name, **options)
        assert early.columns == ["id", "name", "offset", "_corrupt"]
        two = registry.register(f"{topic.name}-value", json.dumps(second))
        later = framed(two, second, {"id": 2, "name": "b", "city": "c"})
        topic.produce([later, b"\x00\x00\x00\x03\xe7x", b"\x01no", None])
        rows = read(subscribe=topic.name, **options).orderBy("offset").collect()
        assert [(row.id, row.name, row.city) for row in rows[:2]] == [(1, "a", None), (2, "b", "c")]
        assert "does not have the schema with id 999" in rows[2]._corrupt.reason
        assert "does not begin with the registry's byte 0" in rows[3]._corrupt.reason
        assert (rows[4].id, rows[4]._corrupt) == (None, None)
        # The table that was made before has its columns still; a long is read where it is an int.
        assert early.columns == ["id", "name", "offset", "_corrupt"]
        kept = early.orderBy("offset").collect()
        assert (kept[0].id, kept[0].name) == (1, "a")
        assert "field 'id': long cannot be read as int" in kept[1]._corrupt.reason
    assert "could not be had" in error(lambda: read(subscribe=topic.name, **options).collect())


def test_protobuf_of_a_registry(new_topic: Any, read: Any) -> None:
    pytest.importorskip("grpc_tools")
    from odradek.testing import SchemaRegistry

    text = 'syntax = "proto3"; message A { string a = 1; message In { int64 n = 5; } } '
    text += "message B { int32 b = 1; }"
    topic = new_topic()
    with SchemaRegistry() as registry:
        number = registry.register(f"{topic.name}-value", text, "PROTOBUF").to_bytes(4, "big")
        frame = b"\x00" + number
        topic.produce(
            [frame + b"\x00\x0a\x01x", frame + b"\x02\x02\x08\x05", frame + b"\x04\x00\x00\x28\x07"]
        )
        options = {"value.format": "protobuf", "schema.registry.url": registry.url}
        rows = read(subscribe=topic.name, **options).orderBy("offset").collect()
        assert rows[0].value.a == "x"
        assert "of the message type 'B', not 'A'" in rows[1]._corrupt.reason
        nested = read(
            subscribe=topic.name, **options, **{"value.schema.message": "A.In", "columns": "value.n"}
        )
        assert [row.n for row in nested.orderBy("n").collect()] == [None, None, 7]


def test_a_stream(spark: Any, new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    topic = filled(new_topic, {"id": 1}, b"x", {"id": 2})
    frame = read_stream(
        subscribe=topic.name,
        startingOffsets="earliest",
        mode="DROPMALFORMED",
        **{"value.format": "json", "value.schema": "id BIGINT", "columns": "value.id"},
    )
    seen: list[int] = []

    def run() -> None:
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: seen.extend(row.id for row in batch.collect()))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    started_in_time(run)
    assert seen == [1, 2]
    topic.produce(['{"id": 3}', "{"])
    started_in_time(run)
    assert seen == [1, 2, 3]


def test_wrong_options_say_so(read: Any) -> None:
    assert "value.format 'json' needs value.schema" in error(
        lambda: read(subscribe="t", **{"value.format": "json"}).collect()
    )


def test_a_schema_of_ones_own_is_refused_still(spark: Any, servers: str) -> None:
    reader = spark.read.format("odradek").option("kafka.bootstrap.servers", servers).option("subscribe", "t")
    frame = reader.option("value.format", "string").schema("value int")
    assert "fixed schema" in error(lambda: frame.load().collect())
