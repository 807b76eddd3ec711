"""Records that a test expects, beside those that are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import ndiff
from typing import TYPE_CHECKING, Any

from odradek.testing.looking.records import StoredRecord

if TYPE_CHECKING:
    from odradek.records.batch import Header

RecordLike = bytes | str | None | tuple[Any, Any] | Mapping[str, Any]
"""A record in short: its value; a key and a value; or some of its parts by name. Text is UTF-8."""

_PARTS = frozenset(field.name for field in fields(StoredRecord))


def as_bytes(text: Any) -> Any:
    """Return text in UTF-8; anything else as it is."""
    return text.encode() if isinstance(text, str) else text


def as_headers(headers: Any) -> tuple[Header, ...]:
    """Return headers, given as pairs or as a mapping, as a record has them."""
    pairs: Iterable[tuple[str, Any]] = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, as_bytes(value)) for name, value in pairs)


def parts_of(given: RecordLike, allowed: frozenset[str] = _PARTS) -> dict[str, Any]:
    """Return the parts of a record that is given in short, by name.

    Args:
        given: the record.
        allowed: names of parts.

    Raises:
        TypeError: it is no record, or has a part that there is not.
    """
    if given is None or isinstance(given, bytes | str):
        return {"value": as_bytes(given)}
    if isinstance(given, tuple):
        if len(given) != 2:
            raise TypeError(f"{given!r}: a tuple is a key and a value")
        return {"key": as_bytes(given[0]), "value": as_bytes(given[1])}
    if not isinstance(given, Mapping):
        raise TypeError(f"{given!r}: a record is a value, a key and a value, or a dict of its parts")
    unknown = set(given) - allowed
    if unknown:
        raise TypeError(f"a record has no {min(unknown)!r}: there are {', '.join(sorted(allowed))}")
    parts = {name: as_bytes(part) if name in ("key", "value") else part for name, part in given.items()}
    if "headers" in parts:
        parts["headers"] = as_headers(parts["headers"])
    return parts


def differences(
    stored: Sequence[StoredRecord], wanted: Sequence[Mapping[str, Any]], *, in_any_order: bool
) -> str | None:
    """Return what differs, in lines; None where nothing does.

    A record is compared by the parts that are expected of it alone: of a value the key does not matter.

    Args:
        stored: the records that are there.
        wanted: the parts of each that is expected, as `parts_of` returns them.
        in_any_order: whatever their order.
    """
    if in_any_order:
        stored = _ordered(stored, wanted)
    shapes = [tuple(parts) for parts in wanted]
    rest = shapes[-1] if shapes else ("value",)
    there = [
        _shown({name: getattr(record, name) for name in (shapes[at] if at < len(shapes) else rest)})
        for at, record in enumerate(stored)
    ]
    lines = [_shown(parts) for parts in wanted]
    if there == lines:
        return None
    return "\n".join(line.rstrip("\n") for line in ndiff(lines, there))


def _ordered(stored: Sequence[StoredRecord], wanted: Sequence[Mapping[str, Any]]) -> list[StoredRecord]:
    """Put each record to the place of the first that is expected like it; the others fill the rest."""
    left = list(stored)
    places: list[StoredRecord | None] = []
    for parts in wanted:
        match = next((r for r in left if all(getattr(r, name) == part for name, part in parts.items())), None)
        if match is not None:
            left.remove(match)
        places.append(match)
    filled = [record if record is not None or not left else left.pop(0) for record in places]
    return [record for record in filled if record is not None] + left


def _shown(parts: Mapping[str, Any]) -> str:
    if tuple(parts) == ("value",):
        return repr(parts["value"])
    return ", ".join(f"{name} {part!r}" for name, part in parts.items())


def lines_of(records: Iterable[StoredRecord]) -> list[str]:
    """Return a line about each record."""
    lines = []
    for record in records:
        words = [f"{record.topic}-{record.partition} at {record.offset}:"]
        if not record.is_control:
            words += [] if record.key is None else [f"key {record.key!r},"]
            words.append(repr(record.value))
        words += [] if record.state is None else [f"({record.state})"]
        lines.append(" ".join(words))
    return lines
