"""`df.write.format("odradek")` with formats: read back, by others' libraries and by ourselves."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark.conftest import Topic, started_in_time

pytestmark = pytest.mark.spark

TYPE = (
    "id BIGINT, name STRING, tags ARRAY<STRING>, at TIMESTAMP, price DECIMAL(10,2), day DATE, raw BINARY, "
    "real DOUBLE, yes BOOLEAN, props MAP<STRING, INT>, inside STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>"
)
NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 123456, datetime.UTC)
ROW = (
    7, 'a "quoted" é\n', ["x", None], NOON, Decimal("12.50"), datetime.date(2026, 3, 1), b"\x00\xff", 0.5,
    True,     {"k": 1}, (3, [("z",), None]),
)  # fmt: skip
EMPTY = (None,) * 11


def error(action: Any) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def rows(spark: Any) -> Any:
    return spark.createDataFrame([ROW, EMPTY], TYPE)


def write(frame: Any, topic: Topic, **options: Any) -> None:
    writer = frame.coalesce(1).write.format("odradek").option("kafka.bootstrap.servers", topic.servers)
    writer.options(topic=topic.name, **options).mode("append").save()


def records(topic: Topic) -> list[dict[str, Any]]:
    from odradek.client import RawReader

    found: list[dict[str, Any]] = []
    with RawReader(topic.servers) as reader:
        for batch in reader.fetch_columns(topic.name, 0, 0, topic.ends()[0], with_headers=True):
            found += batch.to_pylist()
    return found


def test_json_as_spark_writes_it(spark: Any, new_topic: Any, read: Any) -> None:
    topic = new_topic()
    frame = rows(spark)
    write(frame, topic, **{"value.format": "json"})
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    theirs = [json.loads(row.j) for row in frame.selectExpr("to_json(struct(*)) AS j").collect()]
    spark.conf.set("spark.sql.session.timeZone", before)
    ours = [json.loads(one["value"]) for one in records(topic)]
    assert ours[0].pop("at") == "2026-01-02T12:00:00.123456Z"
    assert theirs[0].pop("at").startswith("2026-01-02T12:00:00.123")
    assert ours == theirs
    back = read(subscribe=topic.name, **{"value.format": "json", "value.schema": TYPE, "columns": "value.*"})
    assert back.collect() == frame.collect()


def test_avro_and_back(spark: Any, new_topic: Any, read: Any) -> None:
    fastavro = pytest.importorskip("fastavro")
    from odradek.spark.formats.avro_encoding import avro_of
    from odradek.spark.formats.ddl import parse_ddl

    topic = new_topic()
    frame = rows(spark)
    write(frame, topic, **{"value.format": "avro"})
    schema = avro_of(parse_ddl(TYPE))
    found = fastavro.schemaless_reader(io.BytesIO(records(topic)[0]["value"]), fastavro.parse_schema(schema))
    assert (found["at"], found["inside"]["y"]) == (NOON, [{"z": "z"}, None])
    options = {"value.format": "avro", "value.schema": json.dumps(schema), "columns": "value.*"}
    assert read(subscribe=topic.name, **options).collect() == frame.collect()


def test_avro_with_a_registry_and_unions(spark: Any, new_topic: Any, read: Any) -> None:
    pytest.importorskip("fastavro")
    from odradek.testing import SchemaRegistry

    inner = {"type": "record", "name": "In", "fields": [{"name": "a", "type": "string"}]}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "u", "type": ["int", "null", "string", inner]},
            {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
            {"name": "d", "type": "string", "default": "none"},
        ],
    }
    ddl = "u STRUCT<member0: INT, member1: STRING, member2: STRUCT<a: STRING>>, m MAP<STRING, BIGINT>"
    frame = spark.createDataFrame(
        [
            ((1, None, None), {"x": 1}),
            ((None, "s", None), {"y": None}),
            ((None, None, ("a",)), {}),
            (None, {}),
        ],
        ddl,
    )
    topic = new_topic()
    with SchemaRegistry() as registry:
        options = {"value.format": "avro", "value.schema.registry.url": registry.url}
        write(frame, topic, **options, **{"value.schema": json.dumps(schema)})
        assert records(topic)[0]["value"][:5] == b"\x00\x00\x00\x00\x01"
        back = read(subscribe=topic.name, **options, columns="value.*")
        assert [row.d for row in back.collect()] == ["none"] * 4
        assert back.select("u", "m").collect() == frame.collect()
        write(frame, topic, **options, **{"value.schema.register": "false"})
        assert len(records(topic)) == 8
        again = {**options, "value.schema": json.dumps(schema), "value.schema.register": "false"}
        assert "leave value.schema out" in error(lambda: write(frame, topic, **again))


PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message Other { string none = 1; }
message Sale {
  int64 id = 1; string name = 2; repeated string tags = 3; google.protobuf.Timestamp at = 4; uint64 big = 5;
  enum Kind { CASH = 0; CARD = 1; } Kind kind = 6; map<string, int32> props = 7; In inside = 8; repeated In
  all = 9; message In { int32 x = 1; optional string y = 2; } map<int32, In> by = 10;
  google.protobuf.Duration took = 11;
}"""


def test_protobuf_and_back(spark: Any, new_topic: Any, read: Any, tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    from odradek.testing import SchemaRegistry

    (tmp_path / "sale.proto").write_text(PROTO, encoding="utf-8")
    include, out = Path(protoc.__file__).parent / "_proto", tmp_path / "sale.desc"
    words = [
        f"-I{tmp_path}",
        f"-I{include}",
        "--include_imports",
        f"--descriptor_set_out={out}",
        "sale.proto",
    ]
    assert not protoc.main(["protoc", *words])
    kind = (
        "id BIGINT, name STRING, tags ARRAY<STRING>, at TIMESTAMP, big DECIMAL(20,0), kind STRING, "
        "props MAP<STRING, INT>, inside STRUCT<x: INT, y: STRING>, all ARRAY<STRUCT<x: INT, y: STRING>>, "
        "by MAP<INT, STRUCT<x: INT, y: STRING>>, took INTERVAL DAY TO SECOND"
    )
    row = (
        1, "n", ["t"], NOON, Decimal(2**64 - 1), "CARD", {"k": 2}, (3, None),
        [(4, "y"), (0, None)], {5: (6, "z")},
        datetime.timedelta(days=-1, microseconds=5),
    )  # fmt: skip
    frame = spark.createDataFrame([row], kind)
    options = {"value.format": "protobuf", "value.schema": str(out), "value.schema.message": "Sale"}
    topic = new_topic()
    write(frame, topic, **options)
    assert read(subscribe=topic.name, **options, columns="value.*").collect() == frame.collect()
    with SchemaRegistry() as registry:
        framed = new_topic()
        address = {"schema.registry.url": registry.url}
        write(frame, framed, **options, **address)
        assert records(framed)[0]["value"][:7] == b"\x00\x00\x00\x00\x01\x02\x02"
        given = {"value.format": "protobuf", "value.schema.message": "Sale", "columns": "value.*", **address}
        assert read(subscribe=framed.name, **given).collect() == frame.collect()


def test_keys_single_values_and_headers(spark: Any, new_topic: Any, read: Any) -> None:
    topic = new_topic()
    frame = spark.createDataFrame(
        [(1, 2.5, {"h": bytearray(b"1"), "n": None}, 0), (None, None, {}, 0)],
        "key BIGINT, value DOUBLE, headers MAP<STRING, BINARY>, partition INT",
    )
    options = {"key.format": "long", "value.format": "double"}
    write(frame, topic, **options)
    assert records(topic)[0]["key"] == b"\x00" * 7 + b"\x01"
    back = read(subscribe=topic.name, **options, **{"headers.format": "map", "columns": "key,value,headers"})
    assert [tuple(row) for row in back.collect()] == [
        (1, 2.5, {"h": bytearray(b"1"), "n": None}),
        (None, None, {}),
    ]


def test_a_stream(spark: Any, new_topic: Any, read: Any, read_stream: Any, tmp_path: Path) -> None:
    """Typed on both sides, and exactly once."""
    source, sink = new_topic(), new_topic()
    source.produce([json.dumps({"id": number}) for number in range(5)])
    frame = read_stream(
        subscribe=source.name,
        startingOffsets="earliest",
        **{"value.format": "json", "value.schema": "id BIGINT", "columns": "value.id"},
    )

    def run() -> None:
        query = (
            frame.selectExpr("id", "id * 2 AS twice")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", sink.servers)
            .options(topic=sink.name, deliveryGuarantee="exactly-once", **{"value.format": "json"})
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    started_in_time(run)
    assert sink.values() == [f'{{"id":{number},"twice":{2 * number}}}' for number in range(5)]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id AS value", {"value.format": "string"}, "it is of type bigint, not string; cast it"),
        ("id", {"value.format": "long"}, "value.format 'long' needs a column 'value'"),
        ("id", {"value.format": "json", "key.format": "long"}, "key.format 'long' needs a column 'key'"),
        ("'k' AS key", {"value.format": "json"}, "needs a column 'value', or columns to make it of"),
        ("map(id, 1) AS m", {"value.format": "json"}, "the keys of a JSON object are strings"),
        ("id", {"value.format": "json", "value.schema": "id INT"}, "leave the option out"),
        (
            "id",
            {"value.format": "json", "value.timestamp.unit": "s"},
            "Unknown option 'value.timestamp.unit'",
        ),
        (
            "id",
            {"value.format": "avro", "value.schema": '{"type":"record","name":"R","fields":[]}'},
            "the schema has no field 'value.id'; leave the column out",
        ),
        (
            "id",
            {
                "value.format": "avro",
                "value.schema": '{"type":"record","name":"R","fields":[{"name":"id","type":"string"}]}',
            },
            "'value.id' is of type bigint, and the schema wants string; cast it",
        ),
        ("id", {"value.format": "protobuf"}, "needs value.schema (the path of a descriptor file)"),
        ("id; array(1) AS headers", {"value.format": "json"}, "headers attribute unsupported type"),
    ],
)
def test_what_cannot_be_written_says_why(
    spark: Any, servers: str, columns: str, options: dict[str, str], message: str
) -> None:
    frame = spark.range(1).selectExpr(*columns.split("; "))
    assert message in error(lambda: write(frame, Topic(servers, "t"), **options))


def test_a_row_that_does_not_fit(spark: Any, new_topic: Any) -> None:
    pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    topic = new_topic()
    frame = spark.createDataFrame([(1,), (None,)], "id BIGINT")
    message = error(
        lambda: write(frame, topic, **{"value.format": "avro", "value.schema": json.dumps(schema)})
    )
    assert "a row does not fit the Avro schema" in message
