"""Comparing the codec with golden data: messages as Kafka's JSON beside the bytes that Kafka wrote.

A golden file has one JSON object per line: `key` and `name`, `kind`, `version`, `case`, `json`, `hex`, and
where they apply `prefix` (the two bytes in front, hex) and `unknown_tags` (a list of `path`, `tag`, `hex`).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from odradek.errors.base import OdradekError
from odradek.wire import headers
from odradek.wire.message import Data
from odradek.wire.messages import request_class, response_class
from odradek.wire.schemas import schema_class
from odradek.wire.structs import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from odradek.wire.message import Message


def message_class(key: int | None, name: str, kind: str) -> type[Message]:
    """The class that a golden line is about.

    Args:
        key: the API key, None for headers and schemas.
        name: Kafka's name.
        kind: "request", "response", "header", "record-key", "record-value" or "data".

    Raises:
        ValueError: there is no such message.
    """
    if kind == "request" and key is not None:
        return request_class(key)
    if kind == "response" and key is not None:
        return response_class(key)
    if kind != "header":
        return schema_class(name)
    cls: type[Message] | None = getattr(headers, name, None)
    if cls is None:
        raise ValueError(f"there is no header called {name}")
    return cls


def read_golden(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a golden file, plain or gzip."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def check_line(line: dict[str, Any]) -> list[str]:
    """Compare one golden line in both directions.

    Returns:
        The differences in words; none if all is well.
    """
    cls = message_class(line.get("key"), line["name"], line["kind"])
    version, golden = line["version"], bytes.fromhex(line["hex"])
    differences = []
    flexible = cls.is_flexible(version)
    if flexible != line.get("flexible", flexible):
        differences.append(f"flexible is {flexible}")
    try:
        decoded = cls.decode(golden, version)
        shown = decoded.to_json(version)
        if shown != line["json"]:
            differences.append(f"decoded to {json.dumps(shown)[:400]}")
        if cls.decode(memoryview(golden), version) != decoded:
            differences.append("a memoryview decodes to something else")
        if b"".join(decoded.encode_parts(version)) != golden:
            differences.append("the parts are not the whole")
        if decoded.encode(version) != golden:
            differences.append(f"decoded and encoded again to {decoded.encode(version).hex()[:400]}")
        built = cls.from_json(line["json"], version)
        for tag in line.get("unknown_tags", ()):
            put_unknown_tag(built, tag["path"], tag["tag"], bytes.fromhex(tag["hex"]))
        if built.encode(version) != golden:
            differences.append(f"encoded from JSON to {built.encode(version).hex()[:400]}")
        if built != decoded:
            differences.append("the object from JSON differs from the one from bytes")
        if "prefix" in line:
            differences += _check_prefix(cls, decoded, version, bytes.fromhex(line["prefix"]) + golden)
    except OdradekError as error:
        differences.append(f"{type(error).__name__}: {error}")
    return differences


def _check_prefix(cls: type[Message], decoded: Message, version: int, stored: bytes) -> list[str]:
    if not issubclass(cls, Data):
        return ["has a prefix, but is not stored data"]
    differences = []
    if decoded.encode_prefixed(version) != stored:  # type: ignore[attr-defined]
        differences.append(f"prefix {decoded.encode_prefixed(version)[:2].hex()}")  # type: ignore[attr-defined]
    if cls.decode_prefixed(stored) != decoded:
        differences.append("the prefixed form decodes to something else")
    return differences


def put_unknown_tag(message: Message, path: str, tag: int, content: bytes) -> None:
    """Add an unknown tagged field to a struct inside a message.

    Args:
        path: where, as in ``/topics/0/partitions/1`` with JSON names; empty for the message itself.
    """
    place: Any = message
    for step in path.split("/")[1:]:
        if isinstance(place, list):
            place = place[int(step)]
        else:
            field = next(field for field in place.FIELDS if field.json_name == step)
            place = getattr(place, field.name)
    place.unknown_tagged_fields = {**(place.unknown_tagged_fields or {}), tag: content}


def unknown_tags(message: Message) -> list[dict[str, Any]]:
    """The unknown tagged fields of a message and of all structs inside it.

    Returns:
        For each its `path`, `tag` and content in `hex`, as golden lines have them.
    """
    tags: list[dict[str, Any]] = []

    def walk(holder: Any, path: str) -> None:
        if isinstance(holder, list):
            for index, item in enumerate(holder):
                walk(item, f"{path}/{index}")
        elif isinstance(holder, Struct):
            for tag, content in (holder.unknown_tagged_fields or {}).items():
                tags.append({"path": path, "tag": tag, "hex": content.hex()})
            for field in holder.FIELDS:
                if field.kind in ("array", "struct"):
                    walk(getattr(holder, field.name), f"{path}/{field.json_name}")

    walk(message, "")
    return tags
