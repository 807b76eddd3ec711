"""Avro into columns: against fastavro, by the rules of schema resolution, and the compiled decoder with its
twin.
"""

# ruff: noqa: E402 (what is absent skips the file first)

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")
fastavro = pytest.importorskip("fastavro")

from hypothesis import given
from hypothesis import strategies as st

from odradek.serdes.errors import SchemaError
from odradek.serdes.resolved_schemas import ResolvedSchema
from odradek.serdes.schemas import Schema
from odradek.spark.formats import decoding
from odradek.spark.formats.avro_schema import parse_schema, spark_type
from odradek.spark.formats.errors import ResolutionError

from .decoded import decode, decoder, side


def encode(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    made = []
    for one in fields:
        field, kind, *default = one
        made.append({"name": field, "type": kind, **({"default": default[0]} if default else {})})
    return {"type": "record", "name": name, "fields": made}


def read(schema: Any, *data: bytes) -> tuple[list[Any], list[Any]]:
    return decoder(value_format="avro", value_schema=json.dumps(schema))(data)


PLAIN: dict[str, Any] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
}


def typed(depth: int) -> Any:
    """(schema, value as fastavro takes it, value as it is read)."""
    plain = st.one_of(
        [st.tuples(st.just(name), some).map(lambda x: (*x, x[1])) for name, some in PLAIN.items()]
    )
    if not depth:
        return plain
    inner = typed(depth - 1)

    @st.composite
    def optional(draw: Any) -> Any:
        schema, value, found = draw(plain)
        union = draw(st.sampled_from([["null", schema], [schema, "null"]]))
        return (union, None, None) if draw(st.booleans()) else (union, value, found)

    @st.composite
    def arrays(draw: Any) -> Any:
        schema, value, found = draw(inner)
        count = draw(st.integers(0, 3))
        return {"type": "array", "items": schema}, [value] * count, [found] * count

    @st.composite
    def maps(draw: Any) -> Any:
        schema, value, found = draw(inner)
        keys = draw(st.lists(PLAIN["string"], max_size=3, unique=True))
        return {"type": "map", "values": schema}, dict.fromkeys(keys, value), [(key, found) for key in keys]

    @st.composite
    def records(draw: Any) -> Any:
        fields = draw(st.lists(inner, min_size=1, max_size=4))
        name = f"N{draw(st.integers(0, 2**40))}"
        schema = record(*((f"f{at}", kind) for at, (kind, _, _) in enumerate(fields)), name=name)
        return (
            schema,
            {f"f{at}": value for at, (_, value, _) in enumerate(fields)},
            {f"f{at}": found for at, (_, _, found) in enumerate(fields)},
        )

    return plain | optional() | arrays() | maps() | records()


@pytest.mark.fuzz
@given(typed(2))
def test_what_fastavro_writes_is_read(case: tuple[Any, Any, Any]) -> None:
    schema, value, found = case
    whole = record(("a", schema), ("last", "int"))
    try:
        data = encode(whole, {"a": value, "last": 7})
    except fastavro.schema.SchemaParseException:
        return  # a name twice
    rows, problems = read(whole, data)
    assert problems == []
    assert rows == [{"a": found, "last": 7}]


EVERY = record(
    ("a", "long"),
    ("b", ["null", "string"]),
    ("c", {"type": "array", "items": ["int", "string", "null"]}),
    ("d", {"type": "map", "values": "double"}),
    ("e", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}),
    ("f", {"type": "fixed", "name": "F", "size": 3}),
    ("g", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("h", {"type": "int", "logicalType": "date"}),
    ("i", record(("x", "float"), ("y", "boolean"), name="I")),
    ("j", {"type": "long", "logicalType": "local-timestamp-micros"}),
)
VALUE = {
    "a": -3,
    "b": "é",
    "c": [1, "two", None],
    "d": {"k": 0.5},
    "e": "Y",
    "f": b"abc",
    "g": Decimal("-12.34"),
    "h": datetime.date(1969, 12, 31),
    "i": {"x": 1.5, "y": True},
    "j": datetime.datetime(2026, 1, 1, 0, 0, 0, 5),
}
READ = {
    **VALUE,
    "c": [{"member0": 1, "member1": None}, {"member0": None, "member1": "two"}, None],
    "d": [("k", 0.5)],
    "j": 1_767_225_600_000_005,
}


def test_every_type() -> None:
    rows, problems = read(EVERY, encode(EVERY, VALUE))
    assert (rows, problems) == ([READ], [])


@pytest.mark.fuzz
@given(st.lists(st.tuples(st.integers(0, 70), st.binary(max_size=3)), max_size=3), st.integers(0, 3))
def test_damaged_records(damage: list[tuple[int, bytes]], width: int) -> None:
    good = data = encode(EVERY, VALUE)
    for at, instead in damage:
        data = data[:at] + instead + data[at + width :]
    rows, problems = read(EVERY, data, good)
    assert rows[1] == READ
    assert {one.row for one in problems} <= {0}


def test_a_day_of_no_year_of_pythons() -> None:
    """Spark's dates go further than Python's: the number of days is kept whole, as `from_avro` does."""
    date = {"type": "int", "logicalType": "date"}
    rows, problems = read(record(("a", date)), b"\x82\x80\x80\x80\x04")
    assert (rows, problems) == ([{"a": 536_870_913}], [])


@pytest.mark.fuzz
@given(st.binary(max_size=40))
def test_any_bytes(data: bytes) -> None:
    read(EVERY, data)


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ("long", b"\xff" * 11, "the number does not fit the column's type"),
        ("int", b"\x80\x80\x80\x80\x10", "the number does not fit the column's type"),
        ("string", b"\x04\xff\xff", "the characters are not UTF-8"),
        ("string", b"\x01", "it has another length than the type"),
        ("string", b"\x08ab", "it ends too early"),
        ("boolean", b"\x02", "the value is not of the column's type"),
        (["null", "int"], b"\x04", "the writer's union has no such branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "the writer's enum has no such symbol"),
        (
            {"type": "array", "items": record(name="Empty")},
            b"\xfe\xff\xff\xff\x0f",
            "it is too large for a column",
        ),
        ("int", b"\x02\x02", "something follows after its end"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            b"\x02\x64",
            "the number does not fit the column's type",
        ),
    ],
)
def test_malformed(schema: Any, data: bytes, reason: str) -> None:
    whole = record(("a", schema))
    rows, problems = read(whole, data)
    assert rows == [None]
    assert problems[0].reason.endswith(reason)


def test_an_array_in_blocks_with_their_sizes() -> None:
    rows, problems = read(record(("a", {"type": "array", "items": "int"})), b"\x03\x04\x02\x04\x02\x06\x00")
    assert (rows, problems) == ([{"a": [1, 2, 3]}], [])


class Registry:
    """Schemas by their ids, as the client of a registry gives them."""

    def __init__(self, *schemas: Any) -> None:
        self._schemas = {
            number: ResolvedSchema(number, Schema(json.dumps(one))) for number, one in enumerate(schemas, 1)
        }

    def by_id(self, schema_id: int, *, serialized: bool = False) -> ResolvedSchema:
        return self._schemas[schema_id]


def evolved(monkeypatch: pytest.MonkeyPatch, reader: Any, *written: tuple[Any, Any]) -> Any:
    """Rows of a topic where each record has another writer's schema; problems where there are some."""
    monkeypatch.setattr(decoding, "schemas_of", lambda _: Registry(*(schema for schema, _ in written)))
    text = reader if isinstance(reader, str) else json.dumps(reader)
    options = {"value_format": "avro", "value_schema": text, "value_schema_registry_url": "http://none"}
    data = [
        b"\x00" + number.to_bytes(4, "big") + encode(schema, value)
        for number, (schema, value) in enumerate(written, 1)
    ]
    rows, problems = decode(side(**options), [*data, *data])
    assert repr(rows[: len(data)]) == repr(rows[len(data) :])
    return rows[: len(data)], [one.reason for one in problems if one.row < len(data)]


def test_evolution(monkeypatch: pytest.MonkeyPatch) -> None:
    first = record(("id", "int"), ("name", "string"), ("gone", {"type": "array", "items": "int"}))
    second = record(("name", "bytes"), ("id", "long"), ("extra", ["null", "float"], None))
    reader = record(
        ("id", "long"),
        ("name", "string"),
        ("extra", ["null", "double"], None),
        ("tags", {"type": "array", "items": "string"}, ["none"]),
        ("more", {"type": "map", "values": "int"}, {}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001\u0002"),
    )
    rows, problems = evolved(
        monkeypatch,
        reader,
        (first, {"id": 1, "name": "a", "gone": [1, 2]}),
        (second, {"id": 2**40, "name": b"b", "extra": 0.5}),
    )
    assert problems == []
    filled = {"tags": ["none"], "more": [], "price": Decimal("2.58")}
    assert rows == [
        {"id": 1, "name": "a", "extra": None, **filled},
        {"id": 2**40, "name": "b", "extra": 0.5, **filled},
    ]


def test_aliases_enums_and_unions(monkeypatch: pytest.MonkeyPatch) -> None:
    colours = {"type": "enum", "name": "C", "symbols": ["RED", "BLUE", "PINK"]}
    fewer = {"type": "enum", "name": "C", "symbols": ["RED", "OTHER"], "default": "OTHER"}
    writer = record(("old", "string"), ("c", colours), ("u", ["int", "string"]), ("v", "int"))
    reader = record(
        ("new", "string"), ("c", fewer), ("u", ["string", "long", "null"]), ("v", ["null", "long"])
    )
    reader["fields"][0]["aliases"] = ["older", "old"]
    rows, problems = evolved(
        monkeypatch,
        reader,
        (writer, {"old": "x", "c": "PINK", "u": 5, "v": 1}),
        (writer, {"old": "y", "c": "RED", "u": "s", "v": 2}),
    )
    assert problems == []
    assert rows == [
        {"new": "x", "c": "OTHER", "u": {"member0": None, "member1": 5}, "v": 1},
        {"new": "y", "c": "RED", "u": {"member0": "s", "member1": None}, "v": 2},
    ]


def test_what_does_not_resolve_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = record(("id", "int"), ("must", "string"))
    rows, problems = evolved(
        monkeypatch,
        reader,
        (record(("id", "string"), ("must", "string")), {"id": "1", "must": "x"}),
        (record(("id", "int")), {"id": 1}),
        (record(("id", ["int", "string"]), ("must", "string")), {"id": "1", "must": "x"}),
        (record(("id", ["int", "string"]), ("must", "string")), {"id": 4, "must": "x"}),
    )
    assert rows == [None, None, None, {"id": 4, "must": "x"}]
    assert "id 1, cannot be read: field 'id': string cannot be read as int" in problems[0]
    assert "id 2, cannot be read: field 'must' has no default" in problems[1]
    assert problems[2].endswith("the writer's schema does not resolve to the reader's")


def test_ddl_is_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fields by name, null where the writer has none; numbers into narrower columns where they fit."""
    writer = record(
        ("id", "long"), ("at", "long"), ("in", record(("x", "int"), name="In")), ("u", ["null", "int"])
    )
    rows, problems = evolved(
        monkeypatch,
        "id int, at timestamp, `in` struct<x: bigint, y: string>, u double, other array<string>",
        (writer, {"id": 3, "at": 2, "in": {"x": 4}, "u": None}),
        (writer, {"id": 2**40, "at": 2, "in": {"x": 4}, "u": 1}),
    )
    assert rows == [{"id": 3, "at": 2_000_000, "in": {"x": 4, "y": None}, "u": None, "other": None}, None]
    assert problems[0].endswith("the number does not fit the column's type")


@pytest.mark.parametrize(("unit", "micros"), [("millis", 5_000), ("micros", 5), ("nanos", 0)])
def test_each_writer_has_its_unit(monkeypatch: pytest.MonkeyPatch, unit: str, micros: int) -> None:
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    writer = record(("t", {"type": "long", "logicalType": f"timestamp-{unit}"}))
    rows, _ = evolved(monkeypatch, record(("t", stamp)), (writer, {"t": 5}))
    assert rows == [{"t": micros}]


def test_a_type_that_contains_itself_can_be_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = record(("v", "int"), ("next", ["null", "Node"]), name="Node")
    writer = record(("id", "int"), ("list", node), ("end", "string"))
    value = {"id": 1, "list": {"v": 1, "next": {"v": 2, "next": None}}, "end": "e"}
    rows, problems = evolved(monkeypatch, record(("end", "string"), ("id", "int")), (writer, value))
    assert (rows, problems) == ([{"end": "e", "id": 1}], [])
    with pytest.raises(SchemaError, match="contains itself"):
        spark_type(parse_schema(json.dumps(writer)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ('{"type": "record", "name": "R"}', "lacks 'fields'"),
        ('{"type": "array", "items": "Unknown"}', "uses a type 'Unknown'"),
        ('["null", ["int"]]', "a union cannot be directly in a union"),
        ("7", "not an Avro type"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"R","size":1}}]}',
            "twice",
        ),
    ],
)
def test_wrong_schemas(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        parse_schema(text)


def test_resolution_error_is_a_schema_error() -> None:
    assert issubclass(ResolutionError, SchemaError)


def test_references_and_namespaces() -> None:
    address = (
        '{"type": "record", "name": "Address", "namespace": "a.b", "fields": [{"name": "x", "type": "int"}]}'
    )
    person = '{"type": "record", "name": "a.b.Person", "fields": [{"name": "home", "type": "Address"}]}'
    assert spark_type(parse_schema(person, [address])).simpleString() == "struct<home:struct<x:int>>"


@pytest.mark.parametrize("size", [-1, "8", None, True, 2**31])
def test_a_fixed_has_a_length(size: Any) -> None:
    with pytest.raises(SchemaError, match=r"size of the Avro fixed 'f'"):
        parse_schema(json.dumps({"type": "fixed", "name": "f", "size": size}))


def test_elements_of_no_bytes_are_counted_over_all_arrays_of_a_record() -> None:
    """A record of some bytes must not become rows without end."""
    nothing = {"type": "fixed", "name": "Nothing", "size": 0}
    schema = record(("a", {"type": "array", "items": {"type": "array", "items": nothing}}))

    def nested(arrays: int, elements: int) -> bytes:
        return encode(schema, {"a": [[b""] * elements] * arrays})

    assert read(schema, nested(64, 1024))[1] == []
    found, problems = read(schema, nested(65, 1024))
    assert found == [None]
    assert "too large" in problems[0].reason
