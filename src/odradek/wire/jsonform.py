"""Messages in Kafka's JSON form: the one that its own tools print.

Names are Kafka's in camelCase; bytes and records are base64; uuids are Kafka's 22 characters; integers are
JSON numbers over their whole range. Only fields of the version are there, and tagged ones only if they are
not at their default. Unknown tagged fields are not shown.
"""

from __future__ import annotations

import base64
import binascii

from odradek.wire.errors import InvalidMessageError
from odradek.wire.fields import Field
from odradek.wire.primitives import uuid_from_text, uuid_to_text
from odradek.wire.structs import struct_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from odradek.wire.structs import Struct, VersionedStruct

    M = TypeVar("M", bound="VersionedStruct")


def _is_flexible(cls: type[VersionedStruct], version: int) -> bool:
    if version not in cls.VERSIONS:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return cls.is_flexible(version)


def to_json(message: VersionedStruct, version: int) -> dict[str, Any]:
    """See `Message.to_json`."""
    return _struct_to_json(message, version, _is_flexible(type(message), version))


def from_json(cls: type[M], document: dict[str, Any], version: int) -> M:
    """See `Message.from_json`."""
    result: M = _struct_from_json(cls, document, version, _is_flexible(cls, version), cls.__name__)
    return result


def _struct_to_json(holder: Struct, version: int, flexible: bool) -> dict[str, Any]:
    inline, tagged, absent = struct_fields(type(holder), version, flexible=flexible)
    for field in absent:
        if not field.ignorable and not field.is_default(getattr(holder, field.name)):
            name = f"{type(holder).__name__}.{field.name}"
            raise InvalidMessageError(f"{name} is set, which version {version} cannot carry")
    shown = {id(field) for field in inline}
    shown |= {id(field) for field in tagged if not field.is_default(getattr(holder, field.name))}
    return {
        field.json_name: _value_to_json(getattr(holder, field.name), field, version, flexible)
        for field in holder.FIELDS
        if id(field) in shown
    }


def _value_to_json(value: Any, field: Field, version: int, flexible: bool) -> Any:
    if value is None:
        return None
    kind = field.kind
    if kind == "struct":
        return _struct_to_json(value, version, flexible)
    if kind == "array":
        assert field.element is not None
        return [_value_to_json(item, field.element, version, flexible) for item in value]
    if kind == "uuid":
        return uuid_to_text(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "records":
        return base64.b64encode(b"".join(value) if isinstance(value, list) else value).decode()
    return value


def _struct_from_json(cls: type[Any], document: Any, version: int, flexible: bool, path: str) -> Any:
    if not isinstance(document, dict):
        raise InvalidMessageError(f"{path}: an object is expected, not {document!r}")
    inline, tagged, _ = struct_fields(cls, version, flexible=flexible)
    missing = [field.json_name for field in inline if field.json_name not in document]
    if missing:
        raise InvalidMessageError(f"{path}: {', '.join(missing)} missing in version {version}")
    fields = {field.json_name: field for field in inline + tagged}
    unknown = [name for name in document if name not in fields]
    if unknown:
        raise InvalidMessageError(f"{path}: version {version} has no {', '.join(unknown)}")
    values = {}
    for name, value in document.items():
        field = fields[name]
        values[field.name] = _value_from_json(
            value, field, version, flexible, f"{path}.{name}", version in field.nullable
        )
    return cls(**values)


def _is_a(value: Any, expected: type) -> bool:
    return isinstance(value, expected)


_TYPES: dict[str, type] = {"bool": bool, "string": str, "float64": float}


def _value_from_json(
    value: Any, field: Field, version: int, flexible: bool, path: str, nullable: bool
) -> Any:
    if value is None:
        if not nullable:
            raise InvalidMessageError(f"{path} may not be null in version {version}")
        return None
    kind = field.kind
    if kind == "struct":
        assert field.struct is not None
        return _struct_from_json(field.struct, value, version, flexible, path)
    if kind == "array":
        if not isinstance(value, list):
            raise InvalidMessageError(f"{path}: an array is expected, not {value!r}")
        assert field.element is not None
        return [
            _value_from_json(item, field.element, version, flexible, f"{path}/{index}", False)
            for index, item in enumerate(value)
        ]
    expected: type = str if kind in ("uuid", "bytes", "records") else _TYPES.get(kind, int)
    if kind == "float64" and isinstance(value, int):
        value = float(value)
    if not _is_a(value, expected) or (expected is int and isinstance(value, bool)):
        raise InvalidMessageError(f"{path}: {value!r} is not of type {kind}")
    try:
        if kind == "uuid":
            return uuid_from_text(value)
        if kind in ("bytes", "records"):
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidMessageError(f"{path}: {error}") from None
    return value
