# compiled: mypyc
"""The errors that a response tells, by number, for the metrics: found by its declared fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from odradek.wire.structs import Struct

MOST_ELEMENTS: Final = 50
"""Elements of arrays that are looked at, in one stretch: thousands of partitions mostly have one error."""

_NAMES = ("error_code", "partition_error_code")


class ErrorFields:
    """The fields of a struct that have error codes, and those in which there are such structs."""

    __slots__ = ("own", "struct", "within")

    def __init__(self, struct: type[Struct], own: list[str], within: list[tuple[str, ErrorFields]]) -> None:
        self.struct = struct
        self.own = own
        self.within = within


def error_fields(struct: type[Struct]) -> ErrorFields | None:
    """Return where a response of this class tells errors; None where it tells none."""
    own: list[str] = []
    within: list[tuple[str, ErrorFields]] = []
    for field in struct.FIELDS:
        if field.name in _NAMES:
            own.append(field.name)
            continue
        inner = field.struct
        if inner is None and field.element is not None:
            inner = field.element.struct
        if inner is not None:
            inner_fields = error_fields(inner)
            if inner_fields is not None:
                within.append((field.name, inner_fields))
    return ErrorFields(struct, own, within) if own or within else None


def errors_of(fields: ErrorFields, response: Any) -> dict[int, int]:
    """Return how often each error is told in a response, by its code."""
    times: dict[int, int] = {}
    _count(fields, response, times, MOST_ELEMENTS)
    return times


def _count(fields: ErrorFields, struct: Any, times: dict[int, int], most: int) -> int:
    """Count the errors of a struct; returns how many more elements may be looked at."""
    if struct.__class__ is not fields.struct:
        # Put into bytes before, as Metadata's partitions are.
        return most
    for name in fields.own:
        code: int = getattr(struct, name)
        if code:
            times[code] = times.get(code, 0) + 1
    left = most
    for name, inner in fields.within:
        content = getattr(struct, name)
        if content.__class__ is not list:
            if content is not None:
                left = _count(inner, content, times, left)
            continue
        for item in content:
            if left <= 0:
                return 0
            left = _count(inner, item, times, left - 1)
    return left
