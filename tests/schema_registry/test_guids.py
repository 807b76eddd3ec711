"""GUIDs of schemas: by their contents alone, and told to clients that know of them."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("fastavro")

from odradek.schema_registry.guids import guid_of
from odradek.schema_registry.schema import AVRO, JSON, Schema, SchemaReference
from schema_registry.asking import Asked

KNOWS: dict[str, Any] = {"confluent_accept_unknown_properties": "true"}


def md5(data: bytes) -> str:
    return str(UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest()))


def with_more(metadata: Any = None, rule_set: Any = None) -> Schema:
    texts = ["" if value is None else json.dumps(value) for value in (metadata, rule_set)]
    return Schema(AVRO, "T", (), *texts)


@pytest.mark.parametrize(
    ("schema", "hashed"),
    [
        (Schema(AVRO, '"int"'), b'"int"'),
        (Schema(JSON, '"int"'), b'"int"'),
        (Schema(AVRO, "T", (SchemaReference("n", "s", 258),)), b"Tns" + struct.pack(">i", 258)),
        (
            with_more({"properties": {"b": "2", "a": "1"}, "tags": {"p": ["y", "x"]}, "sensitive": ["a"]}),
            b"T\x01pxya1b2a",
        ),
        (
            with_more(
                rule_set={
                    "domainRules": [
                        {"name": "r", "type": "CEL", "params": {"k": "v"}, "expr": "e", "disabled": True}
                    ],
                    "migrationRules": [{"name": "m", "kind": "CONDITION", "mode": "UPGRADE", "tags": ["t"]}],
                }
            ),
            b"T\x01mCONDITIONUPGRADEt" + b"rTRANSFORMWRITEREADCELkve\x01",
        ),
    ],
)
def test_what_a_guid_goes_by(schema: Schema, hashed: bytes) -> None:
    assert guid_of(schema) == md5(hashed)


@pytest.mark.parametrize(
    "schema",
    [
        Schema(AVRO, "\ud800"),
        Schema(AVRO, "T", (SchemaReference("\ud800", "\udfff", 1),)),
        Schema(AVRO, "T", (SchemaReference("n", "s", 2**40),)),
        with_more([1], "text"),
    ],
)
def test_whatever_stands_in_the_topic_has_a_guid(schema: Schema) -> None:
    assert guid_of(schema) == guid_of(schema)


def test_a_schema_is_found_by_its_guid_as_long_as_it_is_there() -> None:
    ask = Asked("NONE")
    ask.register("s", '"long"')
    guid = md5(b'"long"')
    registered = ask("POST", "/subjects/t/versions", {"schema": '"long"'}, **KNOWS)
    assert registered == {"version": 1, "id": 1, "guid": guid}
    assert ask("GET", f"/schemas/guids/{guid}", **KNOWS) == {"guid": guid, "schema": '"long"'}
    assert ask("GET", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}]
    ask("DELETE", "/subjects/s")
    ask("DELETE", "/subjects/s?permanent=true")
    assert ask("GET", f"/schemas/guids/{guid}") == {"schema": '"long"'}
    ask("DELETE", "/subjects/t")
    ask("DELETE", "/subjects/t?permanent=true")
    for path in (f"/schemas/guids/{guid}", f"/schemas/guids/{guid}/ids"):
        assert ask("GET", path) == (404, 40403, f"Schema {guid} not found")


def test_a_client_that_does_not_know_of_guids_is_told_none() -> None:
    ask = Asked("NONE")
    assert ask("POST", "/subjects/s/versions", {"schema": '"int"'}) == {"id": 1}
    for path in ("/schemas/ids/1", "/subjects/s/versions/1", "/schemas"):
        assert "guid" not in str(ask("GET", path))
        assert md5(b'"int"') in str(ask("GET", path, **KNOWS))
