"""Schemas of a kilobyte that are meant to take all of a driver's memory: refused, by name and bound."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")

from odradek.serdes.errors import SchemaError
from odradek.serdes.protobuf_files import Messages, file_of_registry
from odradek.spark.formats import avro_plan, bounds
from odradek.spark.formats.avro_default import encode_default
from odradek.spark.formats.avro_encoding import converter
from odradek.spark.formats.avro_schema import parse_schema, spark_type
from odradek.spark.formats.columns import typed_read
from odradek.spark.formats.ddl import parse_ddl
from odradek.spark.formats.protobuf_schema import field_type
from odradek.spark.formats.protobuf_schema import spark_type as protobuf_type
from odradek.spark.formats.tree import describe
from odradek.spark.option_values import Given

LEVELS = 40
"""2^40 columns, unfolded."""

MOST = r"more than 10,000 columns.*option columns"


def twice(levels: int, wrap: Any = lambda name: name, *, defaults: bool = False) -> str:
    """Avro records each of which uses the next one twice; with defaults for what is lacking."""
    given: Any = "int"
    for number in range(levels):
        fields = [{"name": "a", "type": given}, {"name": "b", "type": f"T{number - 1}" if number else "int"}]
        for field in fields if defaults else ():
            field["default"] = {} if number else 0
        given = wrap({"type": "record", "name": f"T{number}", "fields": fields})
    return json.dumps(given)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda given: given,
        lambda given: ["null", given],
        lambda given: {"type": "array", "items": given},
        lambda given: {"type": "map", "values": given},
    ],
    ids=["records", "unions", "arrays", "maps"],
)
def test_avro_types_that_use_the_next_one_twice(wrap: Any) -> None:
    schema = parse_schema(twice(LEVELS, wrap))
    with pytest.raises(SchemaError, match=MOST):
        spark_type(schema)


def test_the_schema_is_named() -> None:
    schema = parse_schema(twice(LEVELS))
    with pytest.raises(SchemaError, match=f"the Avro schema 'T{LEVELS - 1}' has more than 10,000"):
        spark_type(schema)
    with pytest.raises(ValueError, match=r"value\.schema: the Avro schema 'T39' has more than 10,000"):
        typed_read(given({"value.format": "avro", "value.schema": twice(LEVELS)}))


def given(options: dict[str, str]) -> Given:
    return Given({"subscribe": "t", **options})


def test_the_columns_of_a_side_are_counted_together() -> None:
    """Each member is within the bound, all of them are not."""
    inner = [{"name": f"f{number}", "type": "int"} for number in range(999)]
    fields = [{"name": "m0", "type": {"type": "record", "name": "Inner", "fields": inner}}]
    fields += [{"name": f"m{number}", "type": "Inner"} for number in range(1, 11)]
    schema = json.dumps({"type": "record", "name": "Outer", "fields": fields})
    options = {"value.format": "avro", "value.schema": schema}
    with pytest.raises(ValueError, match=r"value\.schema: the value's schema has more than 10,000"):
        typed_read(given({**options, "columns": "value.*"}))
    chosen = ", ".join(f"value.m{number}" for number in range(10))
    made = typed_read(given({**options, "columns": chosen}))
    assert made is not None
    assert [len(column.type.fields) for column in made.columns] == [999] * 10


def test_as_many_columns_as_may_be() -> None:
    def wide(count: int) -> str:
        fields = [{"name": f"f{number}", "type": "int"} for number in range(count)]
        return json.dumps({"type": "record", "name": "Wide", "fields": fields})

    assert len(spark_type(parse_schema(wide(bounds.MOST_COLUMNS - 1))).fields) == bounds.MOST_COLUMNS - 1
    with pytest.raises(SchemaError, match=MOST):
        spark_type(parse_schema(wide(bounds.MOST_COLUMNS)))


def test_avro_types_that_are_nested_deep() -> None:
    chain: Any = "int"
    for _ in range(bounds.MOST_LEVELS + 1):
        chain = {"type": "array", "items": chain}
    with pytest.raises(SchemaError, match="more than 100 deep"):
        spark_type(parse_schema(json.dumps(chain)))
    with pytest.raises(SchemaError, match="nested too deep"):
        parse_schema('{"type": "array", "items": ' * 5_000 + '"int"' + "}" * 5_000)


def test_avro_defaults_in_which_others_are_lacking() -> None:
    schema = parse_schema(twice(LEVELS, defaults=True))
    with pytest.raises(SchemaError, match=r"more than 100,000 values"):
        encode_default(schema, {})
    endless = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "R", "default": {}}]}
    )
    with pytest.raises(SchemaError, match="nested too deep"):
        encode_default(parse_schema(endless), {})


def test_avro_unions_each_of_whose_members_has_one() -> None:
    """A writer's few types, each of which may be in each: as many ways as there are, in few columns."""
    names = [f"R{number}" for number in range(20)]
    records: list[Any] = [
        {"type": "record", "name": name, "fields": [{"name": "a", "type": ["null", *names]}]}
        for name in names
    ]
    # Each is defined where it is first used, which is inside the one before.
    nested: Any = None
    for record in reversed(records):
        if nested is not None:
            position = record["fields"][0]["type"].index(nested["name"])
            record["fields"][0]["type"][position] = nested
        above = records[: records.index(record) + 1]
        known = {one["name"] for one in above}
        record["fields"][0]["type"] = [
            one
            for one in record["fields"][0]["type"]
            if not isinstance(one, str) or one == "null" or one in known
        ]
        nested = record
    column = "INT"
    for _ in range(30):
        column = f"STRUCT<a: {column}>"
    with pytest.raises(SchemaError, match=r"more than 100,000 steps"):
        avro_plan.plan(parse_schema(json.dumps(nested)), None, describe(parse_ddl(f"a {column}")))


def test_writing_avro_types_that_use_the_next_one_twice() -> None:
    """What makes rows of them is made once for each type."""
    assert converter(parse_schema(twice(LEVELS))) is None
    maps = parse_schema(twice(LEVELS, lambda one: {"type": "map", "values": one}))
    convert = converter(maps)
    assert convert is not None
    assert convert([("k", {"a": [("l", None)], "b": None})]) == {"k": {"a": {"l": None}, "b": None}}


def test_writing_an_avro_type_that_contains_itself() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "more", "type": ["null", "Tree"], "default": None},
            {"name": "names", "type": {"type": "map", "values": "int"}},
        ],
    }
    convert = converter(parse_schema(json.dumps(tree)))
    assert convert is not None
    inner = {"names": [("b", 2)], "more": None}
    assert convert({"names": [("a", 1)], "more": inner}) == {
        "names": {"a": 1},
        "more": {"names": {"b": 2}, "more": None},
    }


def protobuf_twice(levels: int, kind: str = "{0}") -> str:
    lines = ['syntax = "proto3";', "message T0 { int32 a = 1; }"]
    for number in range(1, levels):
        inner = kind.format(f"T{number - 1}")
        lines.append(f"message T{number} {{ {inner} a = 1; {inner} b = 2; }}")
    return "\n".join(lines)


@pytest.mark.parametrize("kind", ["{0}", "repeated {0}", "map<string, {0}>"])
def test_protobuf_messages_that_use_the_next_one_twice(kind: str) -> None:
    messages = Messages(file_of_registry(protobuf_twice(LEVELS, kind), "twice.proto"))
    with pytest.raises(SchemaError, match=rf"the protobuf message 'T{LEVELS - 1}' has {MOST}"):
        protobuf_type(messages.named(f"T{LEVELS - 1}"))
    with pytest.raises(SchemaError, match=rf"the protobuf field 'T{LEVELS - 1}.a' has {MOST}"):
        field_type(messages.named(f"T{LEVELS - 1}").fields_by_name["a"])


def test_protobuf_messages_that_are_nested_deep() -> None:
    lines = ['syntax = "proto3";', "message T0 { int32 a = 1; }"]
    lines += [f"message T{n} {{ T{n - 1} a = 1; }}" for n in range(1, bounds.MOST_LEVELS + 2)]
    messages = Messages(file_of_registry("\n".join(lines), "deep.proto"))
    with pytest.raises(SchemaError, match="more than 100 deep"):
        protobuf_type(messages.named(f"T{bounds.MOST_LEVELS + 1}"))


def test_json_columns_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their schema is DDL, which uses nothing twice."""
    monkeypatch.setattr(bounds, "MOST_COLUMNS", 100)
    columns = ", ".join(f"f{number} INT" for number in range(101))
    with pytest.raises(ValueError, match=r"value\.schema: the value's schema has more than 100"):
        typed_read(given({"value.format": "json", "value.schema": columns}))
