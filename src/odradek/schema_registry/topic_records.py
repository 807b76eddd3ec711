"""The records of the topic `_schemas`: keys and values in JSON, as Confluent's registry writes them. Pure.

Compaction compares keys byte by byte, so their attributes stand in a fixed order, without blanks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.schema_registry.schema import AVRO, Schema, SchemaReference
from odradek.util.json_text import compact, load_json

SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP"


class Key(NamedTuple):
    """The key of a record: what it is about.

    Attributes:
        keytype: SCHEMA, CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT or NOOP.
        subject: None for what holds for all.
        version: of a SCHEMA, else 0.
    """

    keytype: str
    subject: str | None = None
    version: int = 0


class Record(NamedTuple):
    """A record to be written; None as value is a tombstone."""

    key: Key
    value: Mapping[str, Any] | None


class UnreadableRecordError(ValueError):
    """A record that no registry writes."""


class Version(NamedTuple):
    """A schema as a version of a subject.

    Attributes:
        is_deleted: whether it was deleted in the soft way, and is there only for those who ask for such.
    """

    subject: str
    version: int
    schema_id: int
    schema: Schema
    is_deleted: bool = False

    def record(self) -> Record:
        """Return the record that says so."""
        schema = self.schema
        value: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.schema_id}
        if schema.schema_type != AVRO:
            value["schemaType"] = schema.schema_type
        if schema.references:
            value["references"] = [reference.as_json() for reference in schema.references]
        if schema.metadata:
            value["metadata"] = json.loads(schema.metadata)
        if schema.rule_set:
            value["ruleSet"] = json.loads(schema.rule_set)
        value |= {"schema": schema.text, "deleted": self.is_deleted}
        return Record(Key(SCHEMA, self.subject, self.version), value)

    def tombstone(self) -> Record:
        """Return the record that removes it for good."""
        return Record(Key(SCHEMA, self.subject, self.version), None)


def encode_key(key: Key) -> bytes:
    """Return the bytes of a key."""
    attributes: dict[str, Any] = {"keytype": key.keytype}
    if key.subject is not None:
        attributes["subject"] = key.subject
    if key.keytype == SCHEMA:
        attributes["version"] = key.version
    attributes["magic"] = 1 if key.keytype == SCHEMA else 0
    return compact(attributes).encode()


def encode_value(value: Mapping[str, Any] | None) -> bytes | None:
    """Return the bytes of a value."""
    return None if value is None else compact(value).encode()


def decode_key(data: bytes | None) -> Key:
    """Return the key of a record.

    Raises:
        UnreadableRecordError: it is none.
    """
    attributes = _decode(data)
    keytype, subject, version = (attributes.get(name) for name in ("keytype", "subject", "version"))
    if not isinstance(keytype, str) or not isinstance(subject, str | None):
        raise UnreadableRecordError(f"not a key: {data!r}")
    if keytype != SCHEMA:
        return Key(keytype, subject)
    if subject is None or not isinstance(version, int) or version < 1:
        raise UnreadableRecordError(f"not the key of a schema: {data!r}")
    return Key(keytype, subject, version)


def decode_value(data: bytes | None) -> dict[str, Any] | None:
    """Return the value of a record.

    Raises:
        UnreadableRecordError: it is no JSON object.
    """
    return None if data is None else _decode(data)


def version_of(key: Key, value: Mapping[str, Any]) -> Version:
    """Return the version that a record of a schema says.

    Raises:
        UnreadableRecordError: the value lacks something.
    """
    assert key.subject is not None
    try:
        references = tuple(
            SchemaReference(str(r["name"]), str(r["subject"]), int(r["version"]))
            for r in value.get("references") or ()
        )
        schema = Schema(
            str(value.get("schemaType") or AVRO),
            str(value["schema"]),
            references,
            _kept(value.get("metadata")),
            _kept(value.get("ruleSet")),
        )
        return Version(key.subject, key.version, int(value["id"]), schema, bool(value.get("deleted", False)))
    except (KeyError, TypeError, ValueError) as problem:
        raise UnreadableRecordError(f"not a schema: {problem!r}") from None


def _kept(value: Any) -> str:
    return "" if value is None else compact(value, is_sorted=True)


def _decode(data: bytes | None) -> dict[str, Any]:
    try:
        decoded = load_json((data or b"").decode())
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise UnreadableRecordError(f"not a JSON object: {data!r}")
    return decoded
