"""Requests with as many items as one wants, of every API, made from the declarations.

An item of a request is an element of one of its arrays. `paths` finds these arrays; `request` fills one of
them, with what exists on a broker (`TOPIC`, `GROUP`, …: named again and again) or with what does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.broker.apis.registry import SERVED
from odradek.wire.fields import Field
from odradek.wire.message import Message
from odradek.wire.messages import request_class
from odradek.wire.structs import Struct

TOPIC = "t"
GROUP = "g"
TRANSACTIONAL_ID = "x"
PARTITIONS = 10

_SET = {"acks": 1, "num_partitions": 1, "replication_factor": 1, "count": 1, "timeout_ms": 1_000}
"""Fields whose defaults would have a request refused as a whole, or not answered."""

Path = tuple[str, ...]

NOT_FOR_CLIENTS = {4, 5, 6, 7, 27}
"""APIs of brokers among themselves."""


def apis() -> list[int]:
    """API keys that a broker serves to clients."""
    return sorted(SERVED.keys() - NOT_FOR_CLIENTS)


def paths(cls: type[Struct], version: int) -> Iterator[Path]:
    """The arrays of a message, by the names of the fields that lead there."""
    for field in cls.FIELDS:
        if version not in field.versions or field.kind != "array":
            continue
        yield (field.name,)
        assert field.element is not None
        if field.element.struct is not None:
            for inner in paths(field.element.struct, version):
                yield (field.name, *inner)


def request(key: int, version: int, path: Path, count: int, *, present: bool, topic_id: bytes) -> Any:
    """A request with `count` elements in one of its arrays, and one in each array on the way there.

    Args:
        key, version: the API.
        path: which array.
        count: how many elements.
        present: name what exists, again and again; else every name is another one.
        topic_id: of `TOPIC`.
    """
    cls: type[Message] = request_class(key)
    return _fill(cls, version, path, count, 0, _Names(present, topic_id))


class _Names:
    def __init__(self, present: bool, topic_id: bytes) -> None:
        self.present, self.topic_id = present, topic_id

    def value(self, cls: type, field: Field, number: int) -> Any:
        name = field.name
        match field.kind:
            case "string":
                return self.text(cls.__name__, name, number)
            case "uuid":
                return self.topic_id if self.present else number.to_bytes(16, "big")
            case "int8" if name == "resource_type":
                return 2
            case "int32" if name in ("partition", "partition_index", "index", "partition_id"):
                return number % PARTITIONS if self.present else number
            case _:
                return _SET.get(name, field.default)

    def text(self, cls: str, name: str, number: int) -> str:
        if not self.present:
            return f"none-{number}"
        if "group" in name or "Group" in cls:
            return GROUP
        if "transactional" in name:
            return TRANSACTIONAL_ID
        return TOPIC


def _fill(cls: type[Any], version: int, path: Path, count: int, number: int, names: _Names) -> Any:
    made = cls()
    for field in cls.FIELDS:
        if version not in field.versions:
            continue
        if field.kind == "array":
            if path and field.name == path[0]:
                size = count if len(path) == 1 else 1
                items = [_element(field, version, path[1:], count, n, names) for n in range(size)]
            else:
                items = []
            setattr(made, field.name, items)
        elif field.kind == "struct":
            continue
        else:
            setattr(made, field.name, names.value(cls, field, number))
    return made


def _element(field: Field, version: int, path: Path, count: int, number: int, names: _Names) -> Any:
    element = field.element
    assert element is not None
    if element.struct is not None:
        return _fill(element.struct, version, path, count, number, names)
    if element.kind == "string":
        return names.text("Group" if "group" in field.name else "", field.name, number)
    if element.kind == "uuid":
        return names.topic_id if names.present else number.to_bytes(16, "big")
    if element.kind == "int8":
        return number % 100
    return number % PARTITIONS if names.present else number
