"""Avro's rules of schema resolution: what a reader's schema can read of what a writer's has written."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastavro")

from odradek.schema_registry.avro_schema import parse_avro


def found(reader: Any, writer: Any) -> list[tuple[str, str]]:
    differences = parse_avro(json.dumps(reader), []).differences(parse_avro(json.dumps(writer), []))
    return [(difference.error_type, difference.path) for difference in differences]


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
#: (writer, reader), as the specification lists them.
PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_promotions(reader: str, writer: str) -> None:
    reads = reader == writer or (writer, reader) in PROMOTED
    assert found(reader, writer) == ([] if reads else [("TYPE_MISMATCH", "/")])


TREE = record(field("next", ["null", "R"]), field("v", "int"))
TREE_OF_LONGS = record(field("next", ["null", "R"]), field("v", "long"))

CASES: list[tuple[str, Any, Any, list[tuple[str, str]]]] = [
    ("a field with a default is added", record(field("a"), field("b", default=1)), record(field("a")), []),
    (
        "a field without a default is added",
        record(field("a"), field("b")),
        record(field("a")),
        [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")],
    ),
    ("a field is removed", record(field("a")), record(field("a"), field("b")), []),
    ("fields change places", record(field("a"), field("b")), record(field("b"), field("a")), []),
    ("a field is renamed by an alias", record(field("b", aliases=["a"])), record(field("a")), []),
    (
        "a field's type changes",
        record(field("a", "int")),
        record(field("a", "string")),
        [("TYPE_MISMATCH", "/fields/0/type")],
    ),
    ("a field's type is promoted", record(field("a", "long")), record(field("a", "int")), []),
    ("a record is renamed", record(name="S"), record(), [("NAME_MISMATCH", "/name")]),
    ("a record is renamed by an alias", record(name="S", aliases=["R"]), record(), []),
    (
        "an alias is in the namespace",
        record(name="S", namespace="n", aliases=["R"]),
        record(name="n.R"),
        [],
    ),
    ("a record changes its namespace", record(name="a.R"), record(name="b.R"), []),
    ("a record and something else", record(), "int", [("TYPE_MISMATCH", "/")]),
    ("an enum gets a symbol", enum("A", "B"), enum("A"), []),
    ("an enum loses a symbol", enum("A"), enum("A", "B"), [("MISSING_ENUM_SYMBOLS", "/symbols")]),
    ("an enum loses a symbol and has a default", enum("A", default="A"), enum("A", "B"), []),
    (
        "a fixed type changes its size",
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "fixed", "name": "F", "size": 1},
        [("FIXED_SIZE_MISMATCH", "/size")],
    ),
    (
        "a fixed type is renamed",
        {"type": "fixed", "name": "G", "size": 1},
        {"type": "fixed", "name": "F", "size": 1},
        [("NAME_MISMATCH", "/name")],
    ),
    ("an array's items are promoted", {"type": "array", "items": "long"}, {"type": "array", "items": "int"},
     []),
    (
        "an array's items change",
        {"type": "array", "items": "int"},
        {"type": "array", "items": "long"},
        [("TYPE_MISMATCH", "/items")],
    ),
    (
        "a map's values change",
        {"type": "map", "values": "int"},
        {"type": "map", "values": "long"},
        [("TYPE_MISMATCH", "/values")],
    ),
    ("an array and a map", {"type": "map", "values": "int"}, {"type": "array", "items": "int"},
     [("TYPE_MISMATCH", "/")]),
    ("a type becomes a union with it", ["null", "int"], "int", []),
    ("a type becomes a union that reads it", ["null", "long"], "int", []),
    ("a type becomes a union without it", ["null", "string"], "int", [("MISSING_UNION_BRANCH", "/")]),
    ("a union gets a branch", ["null", "int", "string"], ["null", "int"], []),
    ("a union loses a branch", ["null"], ["null", "int"], [("MISSING_UNION_BRANCH", "/1")]),
    ("a union becomes one of its types", "int", ["null", "int"], [("TYPE_MISMATCH", "/")]),
    ("a union becomes a type that reads all", "long", ["int", "long"], []),
    (
        "within a union",
        [record(field("a"), field("b"))],
        [record(field("a"))],
        [("MISSING_UNION_BRANCH", "/0")],
    ),
    ("a type that contains itself", TREE_OF_LONGS, TREE, []),
    ("a type that contains itself, and changes", TREE, TREE_OF_LONGS,
     [("TYPE_MISMATCH", "/fields/1/type")]),
    ("a logical type is a property", {"type": "int", "logicalType": "date"}, "int", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "writer", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_rules(reader: Any, writer: Any, expected: list[tuple[str, str]]) -> None:
    assert found(reader, writer) == expected


#: Avro's library for Python compares aliases as they stand; Java's, as the specification has it, in full.
SHARED = [case for case in CASES if case[0] != "an alias is in the namespace"]


@pytest.mark.parametrize(("reader", "writer"), [case[1:3] for case in SHARED], ids=[c[0] for c in SHARED])
def test_as_avros_own_library(reader: Any, writer: Any) -> None:
    """The library says whether two schemas go together, without saying where each difference is."""
    pytest.importorskip("avro")
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
    from avro.schema import parse

    result = ReaderWriterCompatibilityChecker().get_compatibility(
        parse(json.dumps(reader)), parse(json.dumps(writer))
    )
    assert (result.compatibility is SchemaCompatibilityType.compatible) == (not found(reader, writer))


def test_a_type_that_many_use_is_not_told_for_each() -> None:
    """Thirty levels that each use the next twice would be a billion differences."""

    def levels(leaf: str) -> Any:
        schema: Any = record(field("v", leaf), name="T0")
        for level in range(1, 30):
            schema = record(field("a", schema), field("b", f"T{level - 1}"), name=f"T{level}")
        return schema

    assert 0 < len(found(levels("int"), levels("string"))) < 100
