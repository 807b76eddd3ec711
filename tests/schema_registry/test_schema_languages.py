"""What schemas are kept as: Avro and JSON without blanks, protobuf's descriptors as text; what is refused."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools.protoc")

from odradek.schema_registry.avro_schema import parse_avro
from odradek.schema_registry.errors import InvalidSchemaError
from odradek.schema_registry.json_schema import parse_json_schema
from odradek.schema_registry.protobuf_schema import parse_protobuf

AVRO_TEXTS = [
    ('{"type": "long"}', '"long"'),
    ('{"type": {"type": "long"}}', '"long"'),
    ('{"type": "int", "logicalType": "date"}', '{"type":"int","logicalType":"date"}'),
    (
        '{"fields": [], "doc": "d", "name": "n.s.R", "type": "record", "x": {"b": 1, "a": 2}}',
        '{"type":"record","name":"R","namespace":"n.s","doc":"d","fields":[],"x":{"b":1,"a":2}}',
    ),
    (
        '{"type":"record","name":"R","namespace":"n","fields":[{"type":{"type":"enum","name":"E","symbols":["A"],'
        '"default":"A"},"name":"e","order":"ascending","aliases":["f"],"default":"A"},{"name":"g","type":"n.E"},'
        '{"name":"h","type":{"type":"fixed","name":"m.F","size":1}}]}',
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"e","type":{"type":"enum","name":"E",'
        '"symbols":["A"],"default":"A"},"default":"A","aliases":["f"]},{"name":"g","type":"E"},'
        '{"name":"h","type":{"type":"fixed","name":"F","namespace":"m","size":1}}]}',
    ),
    (
        '{"type":"array","items":["null",{"type":"map","values":"bytes"}]}',
        '{"type":"array","items":["null",{"type":"map","values":"bytes"}]}',
    ),
]


@pytest.mark.parametrize(("given", "kept"), AVRO_TEXTS)
def test_avros_texts(given: str, kept: str) -> None:
    parsed = parse_avro(given, [])
    assert parsed.text == kept
    assert parse_avro(kept, []).text == kept


def test_avros_normal_form_sorts_properties() -> None:
    assert json.loads(parse_avro(AVRO_TEXTS[3][0], []).normalized()) == json.loads(AVRO_TEXTS[3][1])
    assert parse_avro(AVRO_TEXTS[3][0], []).normalized().endswith('"x":{"a":2,"b":1}}')


def test_avros_names_of_references() -> None:
    references = [
        ("n.I", '{"type":"fixed","name":"n.I","size":1}'),
        ("n.O", '{"type":"record","name":"n.O","fields":[{"name":"i","type":"I"}]}'),
    ]
    assert parse_avro('["n.O","n.I"]', references).text == '["n.O","n.I"]'
    with pytest.raises(InvalidSchemaError, match=r"n\.O"):
        parse_avro('"n.O"', references[:1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "5",
        "{}",
        '"strin"',
        '{"type":"record","name":"R"}',
        '{"type":"record","name":"R","fields":[{"name":"a"}]}',
        '{"type":"enum","name":"E","symbols":["A","A"]}',
        '{"type":"fixed","name":"F"}',
        '{"type":"array"}',
        "[" * 5000,
        '{"type":"int","x":NaN}',
    ],
)
def test_what_is_not_avro(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_avro(text, [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a JSON schema"),
        ("5", "neither an object"),
        ('{"type":"strin"}', r"\$\.type"),
        ('{"$ref":"#/none"}', r"leads to nothing"),
        ('{"properties":{"a":{"$ref":"http://example.org/x.json"}}}', r"http://example\.org/x\.json"),
        ('{"x":' * 5000, "JSON"),
    ],
)
def test_what_is_not_json_schema(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        parse_json_schema(text, [])


def test_json_without_blanks() -> None:
    parsed = parse_json_schema('{ "type" : "object", "properties": {"ü": {}, "a": true} }', [])
    assert parsed.text == '{"type":"object","properties":{"ü":{},"a":true}}'
    assert parsed.normalized() == '{"properties":{"a":true,"ü":{}},"type":"object"}'


INNER = (
    "x.proto",
    'syntax = "proto3"; package x; message X { optional int32 a_b = 1; repeated int32 d = 3; }',
)
EVERYTHING = r"""
syntax = "proto2"; package a.b;
import "google/protobuf/timestamp.proto"; import public "x.proto";
option java_package = "j\"q"; option optimize_for = SPEED; option java_multiple_files = true;
message M {
  option deprecated = true;
  reserved 5, 10 to 20, 1000 to max; reserved "foo";
  required int32 a = 1 [default = 5, deprecated = true];
  optional string s = 2 [default = "q\n\"", json_name = "ess"];
  repeated int64 p = 3 [packed = true];
  map<string, In> m = 4;
  oneof o { int32 x = 6; In y = 7; }
  message In {
    optional bytes b = 1 [default = "\001\"z"];
    enum E { A = 0; B = 1 [deprecated = true]; reserved 5 to 7, 9 to max; }
    optional E e = 2 [default = B];
    map<int32, double> inner = 3;
  }
  optional In.E e = 8; optional google.protobuf.Timestamp t = 9; optional double d = 22 [default = inf];
  extensions 100 to 199; optional M self = 21; optional x.X other = 23;
}
enum F { option allow_alias = true; Z = 0; Y = 0; }
extend M { optional int32 ext = 100; }
service S {
  option deprecated = true;
  rpc R (M) returns (stream M) { option deprecated = true; option idempotency_level = IDEMPOTENT; }
  rpc Q (stream M) returns (M);
}
"""


@pytest.mark.parametrize(
    "text",
    [
        EVERYTHING,
        INNER[1],
        'syntax = "proto3"; message A { oneof o { int32 a = 1; bytes b = 2; } bool c = 3; A d = 4; }',
        'syntax = "proto3"; message A { message B { message C {} } B.C c = 1; repeated B b = 2; }',
    ],
)
def test_a_descriptor_is_kept_as_text_that_says_the_same(text: str) -> None:
    parsed = parse_protobuf(text, [INNER])
    assert parsed.text == text
    printed = parse_protobuf(parsed.identity, [INNER])
    assert printed.text.startswith("syntax =")
    assert printed.identity == parsed.identity == printed.formatted("serialized")
    assert printed.formatted("other") == printed.text


def test_protobufs_normal_form_is_in_the_order_of_numbers() -> None:
    one = parse_protobuf('syntax = "proto3"; message A { int32 b = 2; int32 a = 1; }', [])
    two = parse_protobuf('syntax = "proto3"; message A { int32 a = 1; int32 b = 2; } // and a remark', [])
    assert one.identity != two.identity
    assert one.normalized() == two.normalized() == (
        'syntax = "proto3";\nmessage A {\n  int32 a = 1;\n  int32 b = 2;\n}\n'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A {", r"default\.proto:1:12: Reached end of input"),
        ('syntax = "proto3"; message A { Nope n = 1; }', '"Nope" is not defined'),
        (
            'syntax = "proto3"; import "none.proto";',
            r"imports 'none\.proto', which is not among its references",
        ),
        ("aGVsbG8=", "neither protobuf's language nor a descriptor"),
    ],
)
def test_what_is_not_protobuf(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        parse_protobuf(text, [])


def test_a_message_keeps_its_place_among_the_entries_of_maps() -> None:
    """Records tell their type by it."""
    body = "map<string, int32> a = 1; message N {} map<string, int32> b = 2; message O {} int32 c = 3;"
    parsed = parse_protobuf(f'syntax = "proto3"; message M {{ {body} }}', [])
    from_descriptor = parse_protobuf(parsed.formatted("serialized"), [])
    assert from_descriptor.identity == parsed.identity
    assert from_descriptor.text.index("message N") < from_descriptor.text.index("map<string, int32> b")
