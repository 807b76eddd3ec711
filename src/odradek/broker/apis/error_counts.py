# compiled: mypyc
"""The errors that a response tells, by number, for the metrics: found by its declared fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from odradek.wire.structs import Struct

MOST_ELEMENTS: Final = 500
"""Elements of arrays that are looked at: what thousands of partitions are told is mostly one thing."""

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


def errors_of(fields: ErrorFields, response: Any) -> list[int]:
    """Return the codes of all errors in a response, as often as each is told."""
    codes: list[int] = []
    _collect(fields, response, codes, MOST_ELEMENTS)
    return codes


def _collect(fields: ErrorFields, struct: Any, codes: list[int], most: int) -> int:
    """Collect the codes of a struct; returns how many more elements may be looked at."""
    if struct.__class__ is not fields.struct:
        # Put into bytes before, as Metadata's partitions are.
        return most
    for name in fields.own:
        code: int = getattr(struct, name)
        if code:
            codes.append(code)
    left = most
    for name, inner in fields.within:
        content = getattr(struct, name)
        if content.__class__ is not list:
            if content is not None:
                left = _collect(inner, content, codes, left)
            continue
        for item in content:
            if left <= 0:
                return 0
            left = _collect(inner, item, codes, left - 1)
    return left
