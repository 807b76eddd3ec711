"""The names that a request or a response carries, found by the names of its schema's fields.

A message is a tree: topics, and in each its partitions. Its parts are the leaves; each has the names that
stand above it and in it. A message in which nothing is listed is one part: a Heartbeat has the group's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odradek.wire.fields import Field
from odradek.wire.primitives import ZERO_UUID
from odradek.wire.structs import Struct

Names = dict[str, Any]
"""By kind: `topic`, `topic_id`, `partition`, `group`, `transactional_id`; and what tells parts apart beside
these: `key` (of FindCoordinator), `resource` (a type and a name), `producer`."""

_KINDS = {
    "topic": "topic",
    "topic_name": "topic",
    "topic_names": "topic",
    "topic_id": "topic_id",
    "partition": "partition",
    "partition_index": "partition",
    "partition_id": "partition",
    "partitions": "partition",
    "partition_indexes": "partition",
    "index": "partition",
    "group_id": "group",
    "group_ids": "group",
    "groups": "group",
    "groups_names": "group",
    "transactional_id": "transactional_id",
    "transactional_ids": "transactional_id",
    "v3_and_below_transactional_id": "transactional_id",
    "key": "key",
    "coordinator_keys": "key",
    "producer_id": "producer",
}
"""By a field's name, of which kind of name it is. A list of integers or strings is one of such names."""

_LISTS_OF_TOPICS = frozenset(
    {
        "topics",
        "topic_data",
        "v3_and_below_topics",
        "responses",
        "results",
        "results_by_topic_v3_and_below",
        "topic_results",
    }
)
"""Lists in whose elements `name` is a topic's; elsewhere it is a config's, a protocol's or a user's."""

_NOT_PARTS = frozenset({"forgotten_topics_data", "assignments", "configs", "matching_acls", "node_endpoints"})
"""Lists that say something of a part, or of none."""

_RESOURCES = {2: "topic", 3: "group", 5: "transactional_id", 32: "group"}
"""By a type of resource, of which kind its name is: Kafka's `ConfigResource.Type` and `ResourceType`, which
agree in topics. (A group is 3 to an ACL, 32 to a config.)"""

_KEY_TYPES = {0: "group", 1: "transactional_id"}
"""By the type of a coordinator's key (`FindCoordinatorRequest.CoordinatorType`)."""


def kind_of(field: Field, container: str) -> str | None:
    """Return of which kind of name a field is.

    Args:
        field: of a struct.
        container: the list that the struct is an element of; empty for a message itself.
    """
    if field.name == "name":
        return "topic" if container in _LISTS_OF_TOPICS else None
    if field.name == "key" and container not in ("", "coordinators"):
        return None  # a quota's
    if field.kind in ("array", "struct"):
        return None
    return _KINDS.get(field.name)


def kind_of_items(field: Field) -> str:
    """Return of which kind of names a list of integers or strings is."""
    return _KINDS[field.name]


_lists: dict[Any, tuple[Field, ...]] = {}


def lists_of_parts(cls: type[Struct]) -> tuple[Field, ...]:
    """Return the lists of a struct in whose elements, or in elements of these, there are names."""
    lists = _lists.get(cls)
    if lists is None:
        lists = tuple(field for field in cls.FIELDS if field.kind == "array" and _is_of_parts(field))
        _lists[cls] = lists
    return lists


def _is_of_parts(field: Field) -> bool:
    assert field.element is not None
    if field.name in _NOT_PARTS:
        return False
    if field.element.struct is None:
        return field.element.kind in ("int32", "string", "uuid") and field.name in _KINDS
    return _names_something(field.element.struct, field.name)


def _names_something(cls: type[Struct], container: str) -> bool:
    return (
        any(kind_of(field, container) not in (None, "producer") for field in cls.FIELDS)
        or "resource_name" in cls.__slots__
        or bool(lists_of_parts(cls))
    )


def own_names(struct: Any, container: str) -> Names:
    """Return the names in a struct itself; what is empty names nothing."""
    names: Names = {}
    for field in struct.FIELDS:
        kind = kind_of(field, container)
        if kind is not None:
            value = getattr(struct, field.name)
            if value not in (None, "", ZERO_UUID):
                names[kind] = value
    if "resource_name" in struct.__slots__:
        names["resource"] = (struct.resource_type, struct.resource_name)
    if "key_type" in struct.__slots__:
        names["key_type"] = struct.key_type
    return names


def parts(message: Struct, topic_name: Callable[[bytes], str | None] = lambda _: None) -> Iterator[Names]:
    """Yield the names of each part of a message.

    Args:
        message: a request or a response.
        topic_name: finds a topic's name by its id.
    """
    for names in _parts(message, {}, ""):
        yield named(names, topic_name)


def _parts(struct: Any, above: Names, container: str) -> Iterator[Names]:
    names = {**above, **own_names(struct, container)}
    is_leaf = True
    for field in lists_of_parts(type(struct)):
        for item in getattr(struct, field.name) or ():
            is_leaf = False
            if isinstance(item, Struct):
                yield from _parts(item, names, field.name)
            else:
                yield {**names, _KINDS[field.name]: item}
    if is_leaf:
        yield names


def named(names: Names, topic_name: Callable[[bytes], str | None]) -> Names:
    """Return a part's names with those that stand for others: a topic's id, a resource, a coordinator's
    key."""
    if "topic_id" in names and "topic" not in names:
        names = {**names, "topic": topic_name(names["topic_id"])}
    if "key" in names:
        kind = _KEY_TYPES.get(names.get("key_type", 0))
        names = names if kind is None else {**names, kind: names["key"]}
    if "resource" in names:
        resource_type, name = names["resource"]
        kind = _RESOURCES.get(resource_type)
        names = names if kind is None else {**names, kind: name}
    return names


def kinds_in(cls: type[Struct], version: int, container: str = "") -> frozenset[str]:
    """Return which kinds of names a message of a version may carry."""
    kinds: set[str] = set()
    for field in cls.FIELDS:
        if version not in field.versions:
            continue
        kind = kind_of(field, container)
        if kind is not None:
            kinds.add(kind)
        if field.name == "resource_name":
            kinds |= {"topic", "group", "transactional_id"}
    for field in lists_of_parts(cls):
        if version in field.versions:
            assert field.element is not None
            inner = field.element.struct
            kinds |= {_KINDS[field.name]} if inner is None else kinds_in(inner, version, field.name)
    if "topic_id" in kinds:
        kinds.add("topic")
    if "key" in kinds:
        kinds |= {"group", "transactional_id"}
    return frozenset(kinds)
