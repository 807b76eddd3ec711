"""The records of `_schemas`, to the byte: compaction and other registries go by them."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.schema_registry.schema import Schema, SchemaReference
from odradek.schema_registry.subjects import Subjects
from odradek.schema_registry.topic_records import (
    Key,
    UnreadableRecordError,
    Version,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

KEYS = [
    (Key("SCHEMA", "s", 1), b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'),
    (Key("CONFIG"), b'{"keytype":"CONFIG","magic":0}'),
    (Key("CONFIG", "s"), b'{"keytype":"CONFIG","subject":"s","magic":0}'),
    (Key("MODE", "s"), b'{"keytype":"MODE","subject":"s","magic":0}'),
    (Key("DELETE_SUBJECT", "s"), b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    (Key("CLEAR_SUBJECT", "s"), b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}'),
    (Key("NOOP"), b'{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("key", "data"), KEYS)
def test_keys(key: Key, data: bytes) -> None:
    assert encode_key(key) == data
    assert decode_key(data) == key


def test_keys_as_others_write_them() -> None:
    assert decode_key(b'{"magic":0,"subject":null,"keytype":"CONFIG"}') == Key("CONFIG")


def test_values() -> None:
    plain = Version("s", 2, 5, Schema("AVRO", '"int"'))
    assert encode_value(plain.record().value) == (
        b'{"subject":"s","version":2,"id":5,"schema":"\\"int\\"","deleted":false}'
    )
    reference = SchemaReference("a.proto", "a", 1)
    full = Version("s", 2, 5, Schema("PROTOBUF", "ü", (reference,), '{"p":1}', '{"r":2}'), is_deleted=True)
    data = encode_value(full.record().value)
    assert data is not None and data.decode() == (
        '{"subject":"s","version":2,"id":5,"schemaType":"PROTOBUF","references":[{"name":"a.proto","subject":"a",'
        '"version":1}],"metadata":{"p":1},"ruleSet":{"r":2},"schema":"ü","deleted":true}'
    )
    subjects = Subjects()
    subjects.replay(Key("SCHEMA", "s", 2), decode_value(data))
    assert subjects.version("s", 2) == full
    assert encode_value(plain.tombstone().value) is None


@pytest.mark.parametrize("data", [None, b"", b"x", b"[]", b'{"keytype":1}', b'{"keytype":"SCHEMA"}', b"\xff"])
def test_what_is_no_key(data: bytes | None) -> None:
    with pytest.raises(UnreadableRecordError):
        decode_key(data)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (Key("SCHEMA", "s", 1), {}),
        (Key("SCHEMA", "s", 1), {"id": "x", "schema": "s"}),
        (Key("SCHEMA", "s", 1), {"id": 2, "schema": '"int"', "references": [5]}),
        (Key("MODE", "s"), {}),
        (Key("DELETE_SUBJECT", "s"), {}),
    ],
)
def test_what_is_no_value_changes_nothing(key: Key, value: Any) -> None:
    subjects = Subjects()
    known = Version("s", 1, 1, Schema("AVRO", '"int"'))
    subjects.replay(*known.record())
    with pytest.raises(UnreadableRecordError):
        subjects.replay(key, value)
    assert subjects.versions("s") == [known]


def test_keys_that_are_not_known_are_passed_over() -> None:
    Subjects().replay(Key("CONTEXT"), {"context": "."})


def test_clearing() -> None:
    subjects = Subjects()
    one = Version("s", 1, 1, Schema("AVRO", '"int"'))
    two = Version("s", 2, 2, Schema("AVRO", '"long"'))
    for version in (one, two):
        subjects.replay(*version.record())
    subjects.replay(Key("DELETE_SUBJECT", "s"), {"subject": "s", "version": 1})
    assert subjects.versions("s") == [two]
    subjects.replay(Key("CLEAR_SUBJECT"), {})
    assert subjects.versions("s", deleted=True) == [two]
    assert subjects.schema(1) is None
    assert subjects.highest_id == 2
