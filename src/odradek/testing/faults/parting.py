"""A request in two: the part that a fault meets, and the rest; and their answers in one again.

Nothing is lost on the way, and the answer is in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, NamedTuple

from odradek.testing.faults.names import Names, kind_of, kind_of_items, lists_of_parts, named, own_names
from odradek.wire.structs import Struct

Meets = Callable[[Names], bool]
TopicName = Callable[[bytes], str | None]

_BESIDE_AN_ERROR = {
    "aborted_transactions": None,
    "base_offset": -1,
    "committed_leader_epoch": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "leader_id": -1,
    "low_watermark": -1,
    "records": b"",
}
"""The values that Kafka sends beside an error, where they are not the schema's defaults."""


class Halves(NamedTuple):
    """A message in two; None for a half in which nothing is."""

    rest: Any
    met: Any


def part(message: Any, meets: Meets, topic_name: TopicName = lambda _: None) -> Halves:
    """Divide a message by the names of its parts. The message stays as it is.

    Args:
        message: a request or a response.
        meets: tells of the names of a part whether it belongs to the second half.
        topic_name: finds a topic's name by its id.
    """

    def halves(struct: Any, above: Names, container: str) -> Halves:
        names = {**above, **own_names(struct, container)}
        rest, met = copy(struct), copy(struct)
        has_rest = has_met = False
        for field in lists_of_parts(type(struct)):
            items = getattr(struct, field.name)
            if not items:
                continue
            divided: tuple[list[Any], list[Any]] = [], []
            for item in items:
                if isinstance(item, Struct):
                    both = halves(item, names, field.name)
                else:
                    is_met = meets(named({**names, kind_of_items(field): item}, topic_name))
                    both = Halves(None, item) if is_met else Halves(item, None)
                for half, pieces in zip(both, divided, strict=True):
                    if half is not None:
                        pieces.append(half)
            setattr(rest, field.name, divided[0])
            setattr(met, field.name, divided[1])
            has_rest |= bool(divided[0])
            has_met |= bool(divided[1])
        if not has_rest and not has_met:
            return Halves(None, struct) if meets(named(names, topic_name)) else Halves(struct, None)
        return Halves(rest if has_rest else None, met if has_met else None)

    return halves(message, {}, "")


# ---------------------------------------------------------------------- the answer of the met part


def failed(
    response_class: type[Any], version: int, asked: Iterable[Names], code: int, message: str = ""
) -> Any:
    """Return a response that gives each part of a request an error of its own.

    Args:
        response_class, version: of the response.
        asked: the names of the parts.
        code, message: the error.

    Returns:
        None where the response has no place for the error of a part.
    """
    return _failed(response_class, version, list(asked), code, message)


def _failed(cls: type[Any], version: int, asked: list[Names], code: int, message: str) -> Any:
    for field in lists_of_parts(cls):
        inner = field.element.struct if field.element is not None else None
        if inner is None or version not in field.versions:
            continue
        kinds = _own_kinds(inner, version, field.name)
        groups: dict[tuple[Any, ...], list[Names]] = {}
        for names in asked:
            if kinds and any(kind in names for kind in kinds):
                groups.setdefault(tuple(names.get(kind) for kind in kinds), []).append(names)
        items = [_item(inner, version, field.name, group, code, message) for group in groups.values()]
        if items and None not in items:
            response = cls()
            setattr(response, field.name, items)
            return response
    return None


def _item(cls: type[Any], version: int, container: str, asked: list[Names], code: int, message: str) -> Any:
    item = _failed(cls, version, asked, code, message)
    if item is None:
        item = cls()
        errors = [
            field.name
            for field in cls.FIELDS
            if field.name in ("error_code", "partition_error_code") and version in field.versions
        ]
        if not errors:
            return None
        for name in errors:
            setattr(item, name, int(code))
        beside: dict[str, Any] = {**_BESIDE_AN_ERROR, **({"error_message": message} if message else {})}
        for field in cls.FIELDS:
            if field.name in beside and version in field.versions:
                setattr(item, field.name, beside[field.name])
    for field in cls.FIELDS:
        kind = kind_of(field, container) if version in field.versions else None
        if kind is not None and asked[0].get(kind) is not None:
            setattr(item, field.name, asked[0][kind])
    if "resource_name" in cls.__slots__:
        item.resource_type, item.resource_name = asked[0]["resource"]
    return item


def _own_kinds(cls: type[Any], version: int, container: str) -> list[str]:
    kinds = [
        kind
        for field in cls.FIELDS
        if version in field.versions and (kind := kind_of(field, container)) not in (None, "producer")
    ]
    if "resource_name" in cls.__slots__:
        kinds.append("resource")
    return kinds or ["producer"] * ("producer_id" in cls.__slots__)


# ---------------------------------------------------------------------- two answers in one


def merge(response: Any, other: Any) -> None:
    """Put the parts of another response into a response.

    Args:
        response: gets them.
        other: has them; it is not used any more.
    """
    for field in lists_of_parts(type(response)):
        ours, theirs = getattr(response, field.name), getattr(other, field.name)
        if not theirs:
            continue
        if not isinstance(theirs[0], Struct):
            setattr(response, field.name, [*(ours or ()), *theirs])
            continue
        merged = list(ours or ())
        first_of: dict[Any, Any] = {}
        for item in merged:
            first_of.setdefault(_identity(item, field.name), item)
        for item in theirs:
            same = first_of.get(_identity(item, field.name))
            if same is not None and _has_parts(item):
                merge(same, item)
            else:
                merged.append(item)
        setattr(response, field.name, merged)


def order(response: Any, request: Any) -> None:
    """Put a response's parts into the order of the request's; others go behind them, as they are."""
    ranks: dict[Any, int] = {}
    _rank(request, (), ranks)

    def sort(struct: Any, path: tuple[Any, ...]) -> None:
        for field in lists_of_parts(type(struct)):
            items = getattr(struct, field.name)
            if not items or not isinstance(items[0], Struct):
                continue
            paths = {id(item): _path_of(item, path, field.name, ranks) for item in items}
            items = sorted(items, key=lambda item: ranks.get(paths[id(item)], len(ranks)))
            setattr(struct, field.name, items)
            for item in items:
                sort(item, paths[id(item)])

    sort(response, ())


def speaks_of(response: Any, request: Any) -> bool:
    """Return whether the last that a response tells parts by is in a request too: a group, where the request
    has other topics of it."""
    ranks: dict[Any, int] = {}
    _rank(request, (), ranks)
    return any(path in ranks for path in _leaves(response, (), ranks))


def _leaves(struct: Any, path: tuple[Any, ...], ranks: dict[Any, int]) -> Iterator[tuple[Any, ...]]:
    is_leaf = True
    for field in lists_of_parts(type(struct)):
        for item in getattr(struct, field.name) or ():
            if isinstance(item, Struct):
                is_leaf = False
                yield from _leaves(item, _path_of(item, path, field.name, ranks), ranks)
    if is_leaf:
        yield path


def _path_of(item: Any, above: tuple[Any, ...], container: str, ranks: dict[Any, int]) -> tuple[Any, ...]:
    """Return the names from the top down to an element, as the request has them: a topic's id or its name."""
    by_id = above + _identity(item, container)
    by_name = above + _identity(item, container, by_id=False)
    return by_id if by_id in ranks else by_name


def _rank(struct: Any, path: tuple[Any, ...], ranks: dict[Any, int]) -> None:
    for field in lists_of_parts(type(struct)):
        for item in getattr(struct, field.name) or ():
            if isinstance(item, Struct):
                inner = path + _identity(item, field.name)
            else:
                inner = (*path, (kind_of_items(field), item))
            ranks.setdefault(inner, len(ranks))
            if isinstance(item, Struct):
                _rank(item, inner, ranks)


def _has_parts(struct: Any) -> bool:
    return any(getattr(struct, field.name) for field in lists_of_parts(type(struct)))


def _identity(struct: Any, container: str, *, by_id: bool = True) -> tuple[Any, ...]:
    """Return what tells an element of a list from the others, as pairs of kind and value."""
    names = own_names(struct, container)
    names.pop("key_type", None)
    if "topic_id" in names:
        # A request may have both, and its response one, or the other way round.
        names.pop("topic" if by_id else "topic_id", None)
    if len(names) > 1:
        names.pop("producer", None)  # a transaction's producer, which its answer does not name
    # A topic before its partition, as they stand one in the other: some responses have both side by side.
    return tuple(sorted(names.items(), key=lambda pair: pair[0] == "partition"))
