"""The GUID of a schema: a UUID that goes by its contents, the same in every registry. Pure.

It is the MD5 of the text, the references, metadata and rules, as Confluent's `Schema.updateHash` takes
them up: values one after the other, sets and maps sorted, a 1 before metadata and before rules if there are
any.
Serializers put it into a record's header, instead of an id into the record.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from odradek.schema_registry.schema import Schema

_SEEN_MAX = 10_000
_IS_THERE = b"\x01"

_RULE_DEFAULTS = {"kind": "TRANSFORM", "mode": "WRITEREAD"}
_RULE_LISTS = ("migrationRules", "domainRules", "encodingRules")


@lru_cache(_SEEN_MAX)
def guid_of(schema: Schema) -> str:
    """Return a schema's GUID, in small letters."""
    digest = hashlib.md5(_bytes(schema.text), usedforsecurity=False)
    for reference in schema.references:
        digest.update(_bytes(reference.name) + _bytes(reference.subject))
        digest.update(struct.pack(">I", reference.version & 0xFFFFFFFF))
    for text, parts in ((schema.metadata, _of_metadata), (schema.rule_set, _of_rule_set)):
        content = json.loads(text) if text else None
        if isinstance(content, dict):
            digest.update(_IS_THERE)
            for part in parts(content):
                digest.update(part)
    return str(UUID(bytes=digest.digest()))


def _of_metadata(metadata: Mapping[str, Any]) -> Iterator[bytes]:
    for key, values in _sorted_items(metadata.get("tags")):
        yield _bytes(key)
        yield from _sorted_values(values)
    for key, value in _sorted_items(metadata.get("properties")):
        yield _bytes(key) + _bytes(value)
    yield from _sorted_values(metadata.get("sensitive"))


def _of_rule_set(rules: Mapping[str, Any]) -> Iterator[bytes]:
    for name in _RULE_LISTS:
        of_name = rules.get(name)
        for rule in of_name if isinstance(of_name, list) else ():
            if isinstance(rule, Mapping):
                yield from _of_rule({**_RULE_DEFAULTS, **{k: v for k, v in rule.items() if v is not None}})
    yield _bytes(rules.get("enableAt"))


def _of_rule(rule: Mapping[str, Any]) -> Iterator[bytes]:
    for name in ("name", "doc", "kind", "mode", "type"):
        yield _bytes(rule.get(name))
    yield from _sorted_values(rule.get("tags"))
    for key, value in _sorted_items(rule.get("params")):
        yield _bytes(key) + _bytes(value)
    for name in ("expr", "onSuccess", "onFailure"):
        yield _bytes(rule.get(name))
    if rule.get("disabled") is True:
        yield _IS_THERE


def _bytes(value: Any) -> bytes:
    if value is None:
        return b""
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")


def _in_javas_order(text: Any) -> bytes:
    """Strings of Java's are compared by UTF-16 units."""
    return str(text).encode("utf-16-be", "surrogatepass")


def _sorted_items(value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return ()
    return sorted(value.items(), key=lambda item: _in_javas_order(item[0]))


def _sorted_values(value: Any) -> Iterator[bytes]:
    if isinstance(value, list):
        for text in sorted({str(v) for v in value}, key=_in_javas_order):
            yield _bytes(text)
