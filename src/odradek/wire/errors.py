"""The error of messages that cannot be written, and the search for the field that is to blame."""

from __future__ import annotations

from odradek.errors.base import OdradekError
from odradek.wire.fields import Field
from odradek.wire.structs import struct_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from odradek.wire.structs import Struct, VersionedStruct


class InvalidMessageError(OdradekError, ValueError):
    """A message (or its JSON form) whose values do not fit the version to write it in: our own fault."""


_MOST_FRAME_BYTES = 2**31 - 1


def frame_size(cls: type[VersionedStruct], size: int) -> int:
    """Check the bytes of a frame, which signed 32 bits have to hold.

    Raises:
        InvalidMessageError: they do not.
    """
    if size > _MOST_FRAME_BYTES:
        raise InvalidMessageError(
            f"a {cls.__name__} of {size} bytes with its header: a frame has at most {_MOST_FRAME_BYTES}"
        )
    return size


_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def explain(message: VersionedStruct, version: int) -> str | None:
    """Find the first field that does not fit.

    Returns:
        ``"topics[0].name: None where null is not allowed"``, or None if nothing is found.
    """
    flexible = message.is_flexible(version)
    return _explain_struct(message, type(message), version, flexible, "")


def _explain_struct(holder: Any, cls: type[Struct], version: int, flexible: bool, path: str) -> str | None:
    if not isinstance(holder, cls):
        return f"{path.rstrip('.')}: {type(holder).__name__} instead of {cls.__name__}"
    inline, tagged, _ = struct_fields(cls, version, flexible=flexible)
    for field in inline + tagged:
        value = getattr(holder, field.name, None)
        problem = _explain_value(
            value, field, version, flexible, f"{path}{field.name}", version in field.nullable
        )
        if problem:
            return problem
    return None


def _explain_value(
    value: Any, field: Field, version: int, flexible: bool, path: str, nullable: bool
) -> str | None:
    if value is None:
        return None if nullable else f"{path}: None where null is not allowed"
    if field.kind == "struct":
        assert field.struct is not None
        return _explain_struct(value, field.struct, version, flexible, f"{path}.")
    if field.kind == "array":
        assert field.element is not None
        if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
            return f"{path}: {type(value).__name__} instead of a list"
        for index, item in enumerate(value):
            problem = _explain_value(item, field.element, version, flexible, f"{path}[{index}]", False)
            if problem:
                return problem
        return None
    return _explain_scalar(value, field.kind, path)


def _explain_scalar(value: Any, kind: str, path: str) -> str | None:
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        if not isinstance(value, int) or not low <= value <= high:
            return f"{path}: {value!r} is not an {kind}"
    elif kind == "string":
        if not isinstance(value, str):
            return f"{path}: {type(value).__name__} instead of a string"
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            return f"{path}: {error}"
        if size > 0x7FFF:
            return f"{path}: a string of {size} bytes, the most is {0x7FFF}"
    elif kind == "uuid" and (not isinstance(value, bytes | bytearray | memoryview) or len(value) != 16):
        return f"{path}: {value!r} is not a uuid of 16 bytes"
    return None
