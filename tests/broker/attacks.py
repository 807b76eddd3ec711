"""Requests as an attacker fills them, field by field, from the declarations: what is new is attacked, too.

`many_items` does it with the arrays: many elements. Here are the other ways in which a field may be more than
it seems: `tagged` puts unknown tagged fields into each struct, wherever it is nested, and into the header;
`sized` makes each text and each piece of bytes as long as it may be; `packed` fills each field that may be
compressed with little that unpacks to much; `by_chance` does some of all that at once, in any version.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from odradek.broker.apis.registry import SERVED
from odradek.records.compression import Codec
from odradek.wire.api import request_header_version
from odradek.wire.fields import Field
from odradek.wire.headers import RequestHeader
from odradek.wire.messages import request_class
from odradek.wire.structs import Struct

from .many_items import GROUP, TOPIC, TRANSACTIONAL_ID

LONGEST_TEXT = "x" * 32_767
LONG_BYTES = 1024 * 1024
MOST_FRAME = 4 * 1024 * 1024 - 1024

Attack = tuple[str, bytes]
"""What is attacked, and the frame with its size."""


def frame_of(key: int, version: int, message: Any, header_tags: dict[int, bytes] | None = None) -> bytes:
    """A request as it goes over the wire."""
    header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="attacker")
    header.unknown_tagged_fields = header_tags
    body = header.encode(request_header_version(key, version)) + message.encode(version)
    return len(body).to_bytes(4, "big") + body


def whole(key: int, topic_id: bytes) -> Any:
    """A request with one element in every array and something in every struct, of what exists."""
    return _fill(request_class(key), SERVED[key].versions[-1], topic_id)


def _fill(cls: type[Any], version: int, topic_id: bytes) -> Any:
    made = cls()
    for field in cls.FIELDS:
        if version not in field.versions:
            continue
        if field.kind == "struct":
            setattr(made, field.name, _fill(field.struct, version, topic_id))
        elif field.kind == "array":
            element = field.element
            value = (
                _fill(element.struct, version, topic_id)
                if element.struct
                else _value(element, field.name, topic_id)
            )
            setattr(made, field.name, [value])
        elif field.kind in ("string", "uuid") or field.name in _SET:
            setattr(made, field.name, _value(field, field.name, topic_id))
    return made


_SET = {"acks": 1, "num_partitions": 1, "replication_factor": 1, "count": 1, "timeout_ms": 1_000}
"""Fields whose defaults would have a request refused as a whole, or not answered."""


def _value(field: Field, name: str, topic_id: bytes) -> Any:
    if field.kind == "uuid":
        return topic_id
    if field.kind == "string":
        if "group" in name:
            return GROUP
        return TRANSACTIONAL_ID if "transactional" in name else TOPIC
    return _SET.get(name, 0)


def places(message: Struct, version: int, path: str = "") -> Iterator[tuple[str, Struct]]:
    """All structs of a message that a version has, by their paths."""
    yield path or "/", message
    for field in message.FIELDS:
        if version in field.versions and field.kind in ("struct", "array"):
            value = getattr(message, field.name)
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Struct):
                    yield from places(inner, version, f"{path}/{field.name}")


def _each(key: int, topic_id: bytes, change: Callable[[Struct, int], Iterator[str]]) -> Iterator[Attack]:
    """A whole request for each change of one of its structs, which says what it changed."""
    version = SERVED[key].versions[-1]
    message = whole(key, topic_id)
    for path, holder in places(message, version):
        for what in change(holder, version):
            yield f"{request_class(key).__name__}{path} {what}", frame_of(key, version, message)


def tagged(key: int, topic_id: bytes, count: int) -> Iterator[Attack]:
    """Many unknown tagged fields in each struct; most of a frame's header may have fewer."""
    version = SERVED[key].versions[-1]
    if not request_class(key).is_flexible(version):
        return
    tags = {10_000 + number: b"" for number in range(count)}

    def change(holder: Struct, version: int) -> Iterator[str]:
        holder.unknown_tagged_fields = tags
        yield f"{count} unknown tags"
        holder.unknown_tagged_fields = None

    yield from _each(key, topic_id, change)
    yield f"{request_class(key).__name__} header", frame_of(key, version, whole(key, topic_id), tags)


def sized(key: int, topic_id: bytes) -> Iterator[Attack]:
    """Each text, and each piece of bytes, as long as may be."""

    def change(holder: Any, version: int) -> Iterator[str]:
        for field in holder.FIELDS:
            if version not in field.versions:
                continue
            before = getattr(holder, field.name)
            inner = field.element if field.kind == "array" else field
            if inner.kind == "string":
                value: Any = LONGEST_TEXT
            elif inner.kind in ("bytes", "records"):
                value = bytes(LONG_BYTES)
            else:
                continue
            setattr(holder, field.name, [value] if field.kind == "array" else value)
            yield f"{field.name} of {len(value)}"
            setattr(holder, field.name, before)

    yield from _each(key, topic_id, change)


def packed(key: int, topic_id: bytes, batch: Callable[[Codec], bytes]) -> Iterator[Attack]:
    """Each field of records, and each piece of bytes, with what `batch` has packed, in each codec."""

    def change(holder: Any, version: int) -> Iterator[str]:
        for field in holder.FIELDS:
            if version not in field.versions or field.kind not in ("bytes", "records"):
                continue
            before = getattr(holder, field.name)
            for codec in Codec:
                setattr(holder, field.name, batch(codec))
                yield f"{field.name} in {codec.name.lower()}"
            setattr(holder, field.name, before)

    yield from _each(key, topic_id, change)


def by_chance(
    key: int, topic_id: bytes, chance: random.Random, items: int, batch: Callable[[Codec], bytes]
) -> Attack:
    """A request of which some structs are many, have tags that nobody knows, or large fields.

    Args:
        chance: which, and of which version.
        items: how many elements and tags more than a whole request has, all of them together.
        batch: what may be in a field of bytes or records.
    """
    version = chance.choice(list(SERVED[key].versions))
    message = _fill(request_class(key), version, topic_id)
    done = []
    if request_class(key).is_flexible(version):
        for path, holder in places(message, version):
            if chance.random() < 0.3:
                count = chance.randint(0, items)
                items -= count
                holder.unknown_tagged_fields = {10_000 + 3 * number: b"" for number in range(count)}
                done.append(f"{path} {count} tags")
    for path, holder in list(places(message, version)):
        for field in holder.FIELDS:
            if version not in field.versions or chance.random() < 0.5:
                continue
            one = field.element if field.kind == "array" else field
            value: Any = getattr(holder, field.name)
            if one.kind == "string":
                value = "x" * chance.choice([0, 1, 255, 256, 32_767])
            elif one.kind in ("bytes", "records"):
                value = chance.choice([batch(chance.choice(list(Codec))), bytes(LONG_BYTES), b""])
            if field.kind == "array":
                count = chance.randint(0, items)
                items -= count
                if one.kind in ("string", "bytes", "records"):
                    value = [value] if count else []
                elif value:
                    value = [value[0]] * (count + 1)
            elif value is getattr(holder, field.name):
                continue
            setattr(holder, field.name, value)
            done.append(f"{path}/{field.name} {len(value)}")
    return f"{request_class(key).__name__} v{version}: {', '.join(done)}", frame_of(key, version, message)
