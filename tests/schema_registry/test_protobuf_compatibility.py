"""Protobuf: what a schema can read of what an earlier one has written; the changes, one by one."""

from __future__ import annotations

import pytest

pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools.protoc")

from odradek.schema_registry.protobuf_schema import parse_protobuf


def found(new: str, old: str, syntax: str = "proto3") -> list[tuple[str, str]]:
    heads = [text if text.startswith("syntax") else f'syntax = "{syntax}"; {text}' for text in (new, old)]
    parsed = [parse_protobuf(text, []) for text in heads]
    return [(difference.error_type, difference.path) for difference in parsed[0].differences(parsed[1])]


A = "message A {{ {} }}"
#: (what changes, new, old, differences); of proto3.
CASES: list[tuple[str, str, str, list[tuple[str, str]]]] = [
    ("a field is added", "message A { int32 a = 1; int32 b = 2; }", "message A { int32 a = 1; }", []),
    ("a field is removed", "message A { int32 a = 1; }", "message A { int32 a = 1; int32 b = 2; }", []),
    ("a field is renamed", "message A { int32 b = 1; }", "message A { int32 a = 1; }", []),
    ("a message is added", "message A {} message B {}", "message A {}", []),
    ("a message is removed", "message A {}", "message A {} message B {}", [("MESSAGE_REMOVED", "#/B")]),
    ("messages change places", "message B {} message A {}", "message A {} message B {}", []),
    ("a nested message is removed", "message A {}", "message A { message B {} }",
     [("MESSAGE_REMOVED", "#/A/B")]),
    ("a map goes, and with it its entries", "message A {}", "message A { map<string, int32> m = 1; }", []),
    ("the package changes", "package p; message A {}", "package q; message A {}",
     [("PACKAGE_CHANGED", "#/")]),
    ("an enum is removed", "message A {}", "message A {} enum E { Z = 0; }", []),
    ("an enum's value is removed", "enum E { Z = 0; } message A {}",
     "enum E { Z = 0; Y = 1; } message A {}", []),
    ("a number and a message", "message A { B a = 1; } message B {}",
     "message A { int32 a = 1; } message B {}",
     [("FIELD_KIND_CHANGED", "#/A/1")]),
    ("a number and a map", "message A { map<int32, int32> a = 1; }", "message A { int32 a = 1; }",
     [("FIELD_KIND_CHANGED", "#/A/1")]),
    ("a map's values", "message A { map<int32, string> a = 1; }", "message A { map<int32, int32> a = 1; }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/A/1")]),
    ("a map's keys", "message A { map<int64, int32> a = 1; }", "message A { map<int32, int32> a = 1; }", []),
    ("an enum and a number", "message A { int32 a = 1; } enum E { Z = 0; }",
     "message A { E a = 1; } enum E { Z = 0; }", []),
    ("a oneof is made of one field", "message A { oneof o { int32 a = 1; } }", "message A { int32 a = 1; }",
     []),
    ("a oneof is made of one field and a new one", "message A { oneof o { int32 a = 1; int32 n = 9; } }",
     "message A { int32 a = 1; }", []),
    ("a oneof is made of two fields", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
     "message A { int32 a = 1; int32 b = 2; }", [("MULTIPLE_FIELDS_MOVED_TO_ONEOF", "#/A/o")]),
    ("a field goes into a oneof", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; } int32 b = 2; }", [("FIELD_MOVED_TO_EXISTING_ONEOF", "#/A/o")]),
    ("two oneofs become one", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; } oneof p { int32 b = 2; } }",
     [("FIELD_MOVED_TO_EXISTING_ONEOF", "#/A/o")]),
    ("a oneof is renamed", "message A { oneof p { int32 a = 1; int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; int32 b = 2; } }", []),
    ("a oneof gets a field", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; } }", []),
    ("a oneof loses a field", "message A { oneof o { int32 a = 1; } }",
     "message A { oneof o { int32 a = 1; int32 b = 2; } }", [("ONEOF_FIELD_REMOVED", "#/A/o/2")]),
    ("a oneof is removed", "message A {}", "message A { oneof o { int32 a = 1; int32 b = 2; } }", []),
    ("a field leaves a oneof", "message A { int32 a = 1; oneof o { int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; int32 b = 2; } }", []),
    ("a field in a oneof changes", "message A { oneof o { string a = 1; } }",
     "message A { oneof o { int32 a = 1; } }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/A/o/1")]),
    ("an optional number becomes several", "message A { repeated int32 a = 1; }",
     "message A { optional int32 a = 1; }", [("FIELD_NUMERIC_LABEL_CHANGED", "#/A/1")]),
    ("optional text becomes several", "message A { repeated string a = 1; }",
     "message A { optional string a = 1; }", []),
    ("a field has another message", "message A { B a = 1; } message B {} message C {}",
     "message A { C a = 1; } message B {} message C {}", [("FIELD_NAMED_TYPE_CHANGED", "#/A/1")]),
    ("a field's message changes", "message A { B a = 1; } message B { string x = 1; }",
     "message A { B a = 1; } message B { int32 x = 1; }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/B/1"), ("FIELD_NAMED_TYPE_CHANGED", "#/A/1"),
      ("FIELD_SCALAR_KIND_CHANGED", "#/B/1")]),
    ("a message that contains itself", "message A { A a = 1; int64 b = 2; }",
     "message A { A a = 1; int32 b = 2; }", []),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_rules(new: str, old: str, expected: list[tuple[str, str]]) -> None:
    assert found(new, old) == expected


OLD_CASES = [
    ("a required field is added", "required int32 a = 1;", "", [("REQUIRED_FIELD_ADDED", "#/A/1")]),
    ("a required field is removed", "", "required int32 a = 1;", [("REQUIRED_FIELD_REMOVED", "#/A/1")]),
    ("an optional field is required", "required int32 a = 1;", "optional int32 a = 1;",
     [("FIELD_NUMERIC_LABEL_CHANGED", "#/A/1")]),
    ("a group and a message", "optional group G = 1 {}", "optional group G = 1 {}", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("new", "old", "expected"), [c[1:] for c in OLD_CASES], ids=[c[0] for c in OLD_CASES]
)
def test_rules_of_proto2(new: str, old: str, expected: list[tuple[str, str]]) -> None:
    assert found(A.format(new), A.format(old), "proto2") == expected


#: Types that the wire does not tell apart, as Confluent's registry groups them.
GROUPS = (
    ("int32", "int64", "uint32", "uint64", "bool", "E"),
    ("sint32", "sint64"),
    ("string", "bytes"),
    ("fixed32", "sfixed32"),
    ("fixed64", "sfixed64"),
    ("float",),
    ("double",),
)


def test_types_that_can_be_changed_into_each_other() -> None:
    kinds = [kind for group in GROUPS for kind in group]
    group_of = {kind: number for number, group in enumerate(GROUPS) for kind in group}
    old = "\n".join(f"{kind} f{n} = {n + 1};" for n, kind in enumerate(kinds))
    for kind in kinds:
        new = "\n".join(f"{kind} f{n} = {n + 1};" for n in range(len(kinds)))
        enum = "enum E { Z = 0; }"
        expected = [
            ("FIELD_SCALAR_KIND_CHANGED", f"#/A/{n + 1}")
            for n, other in enumerate(kinds)
            if group_of[other] != group_of[kind]
        ]
        assert found(A.format(new) + enum, A.format(old) + enum) == expected


def test_a_message_that_came_from_elsewhere() -> None:
    """The package does not matter to a field's message, what is in it does."""
    inner = 'syntax = "proto3"; package {}; message In {{ {} x = 1; }}'
    outer = 'syntax = "proto3"; import "in.proto"; message A {{ {}.In a = 1; }}'
    old = parse_protobuf(outer.format("p"), [("in.proto", inner.format("p", "int32"))])
    same = parse_protobuf(outer.format("q"), [("in.proto", inner.format("q", "int64"))])
    other = parse_protobuf(outer.format("q"), [("in.proto", inner.format("q", "string"))])
    assert same.differences(old) == []
    assert {difference.error_type for difference in other.differences(old)} == {
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_NAMED_TYPE_CHANGED",
    }
