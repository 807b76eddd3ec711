"""The differences by which one protobuf schema cannot read what another has written.

The rules are those of Confluent's registry (its class SchemaDiff).

Fields are compared by number, wherever in the message they stand; messages by name. Names of fields, enums,
and what is new or (outside of a oneof) gone are no difference on the wire. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from odradek.schema_registry.parsed_schema import Difference

_GROUP, _MESSAGE, _ENUM = 10, 11, 14
#: Type of a field → what it is on the wire; those of one sort can be changed into each other.
_SORTS = {
    **dict.fromkeys((3, 4, 5, 8, 13, _ENUM), "GENERAL_NUMBER"),
    **dict.fromkeys((17, 18), "SIGNED_NUMBER"),
    **dict.fromkeys((9, 12), "STRING_OR_BYTES"),
    **dict.fromkeys((7, 15), "FIXED32"),
    **dict.fromkeys((6, 16), "FIXED64"),
    2: "FLOAT",
    1: "DOUBLE",
}
_REQUIRED, _REPEATED = 2, 3
_DESCRIPTIONS = {
    "PACKAGE_CHANGED": "The package differs between the {reader} schema and the {writer} one",
    "MESSAGE_REMOVED": "The {reader} schema lacks the message '{path}' of the {writer} one",
    "FIELD_KIND_CHANGED": "The kind of '{path}' differs between the {reader} schema and the {writer} one",
    "FIELD_SCALAR_KIND_CHANGED": "The {reader} schema's type of '{path}' does not read the {writer} one's",
    "FIELD_NAMED_TYPE_CHANGED": "The message of the field '{path}' in the {reader} schema is not that of the "
    "{writer} one, or does not read it",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of '{path}' differs between {reader} and {writer} schema",
    "REQUIRED_FIELD_ADDED": "The {reader} schema requires the field '{path}', which the {writer} one lacks",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema lacks the field '{path}', which the {writer} one requires",
    "ONEOF_FIELD_REMOVED": "The {reader} schema lacks the field '{path}' of a oneof of the {writer} one",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "The oneof '{path}' of the {reader} schema has several fields that the "
    "{writer} one has in no oneof",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "The oneof '{path}' of the {reader} schema has a field that the "
    "{writer} one has elsewhere",
}
_Difference = tuple[str, tuple[str, ...]]


class ProtobufTypes:
    """The types of a schema and of what it imports.

    Args:
        files: FileDescriptorProtos, the schema's own last.

    Attributes:
        file: the schema's own.
    """

    def __init__(self, files: Sequence[Any]) -> None:
        self.file = files[-1]
        self._types: dict[str, _Type] = {}
        for file in files:
            space = f".{file.package}" if file.package else ""
            for message in file.message_type:
                self._add(message, space, "", file.syntax == "proto3")

    def _add(self, message: Any, space: str, within: str, is_proto3: bool) -> None:
        local = f"{within}{message.name}"
        self._types[f"{space}.{local}"] = _Type(message, local, is_proto3)
        for nested in message.nested_type:
            self._add(nested, space, f"{local}.", is_proto3)

    def named(self, name: str) -> _Type:
        """Return the message of a full name, which begins with a dot."""
        return self._types[name]


class _Type(NamedTuple):
    """A message.

    Attributes:
        local: its name without the package.
    """

    message: Any
    local: str
    is_proto3: bool

    @property
    def is_entry(self) -> bool:
        """True for the entries of a map."""
        return bool(self.message.options.map_entry)


def protobuf_differences(reader: ProtobufTypes, writer: ProtobufTypes) -> list[Difference]:
    """Return why `reader` cannot read what `writer` has written; nothing if it can."""
    comparison = _Comparison(reader, writer)
    return [_told(kind, path) for kind, path in comparison.files()]


def _told(kind: str, path: tuple[str, ...]) -> Difference:
    where = "#/" + "/".join(path)
    return Difference(kind, where, _DESCRIPTIONS[kind].replace("{path}", where))


class _Comparison:
    def __init__(self, new: ProtobufTypes, old: ProtobufTypes) -> None:
        self._new = new
        self._old = old
        self._compared: dict[tuple[int, int], bool] = {}
        """Pairs of messages that were compared, or are being, and whether they are compatible."""

    def files(self) -> Iterator[_Difference]:
        new, old = self._new.file, self._old.file
        if new.package != old.package:
            yield "PACKAGE_CHANGED", ()
        space = f".{new.package}" if new.package else ""
        old_space = f".{old.package}" if old.package else ""
        yield from self._messages(new.message_type, old.message_type, space, old_space, ())

    def _messages(
        self, new: Sequence[Any], old: Sequence[Any], space: str, old_space: str, path: tuple[str, ...]
    ) -> Iterator[_Difference]:
        by_name = {message.name: message for message in new}
        for message in old:
            place = (*path, message.name)
            before = self._old.named(f"{old_space}.{message.name}")
            if before.is_entry:
                continue
            if message.name not in by_name:
                yield "MESSAGE_REMOVED", place
                continue
            after = self._new.named(f"{space}.{message.name}")
            yield from self._message(after, before, place)
            yield from self._messages(
                after.message.nested_type,
                message.nested_type,
                f"{space}.{message.name}",
                f"{old_space}.{message.name}",
                place,
            )

    def _message(self, new: _Type, old: _Type, path: tuple[str, ...]) -> list[_Difference]:
        pair = (id(new.message), id(old.message))
        self._compared[pair] = True
        differences = [*_oneofs(new.message, old.message, path), *self._fields(new, old, path)]
        self._compared[pair] = not differences
        return differences

    def _fields(self, new: _Type, old: _Type, path: tuple[str, ...]) -> Iterator[_Difference]:
        after = {field.number: field for field in new.message.field}
        before = {field.number: field for field in old.message.field}
        deleted = _deleted_oneofs(old.message, after)
        for number in sorted({*after, *before}):
            field, was = after.get(number), before.get(number)
            if field is None:
                was = before[number]
                oneof = _oneof(old.message, was)
                if oneof is None:
                    if was.label == _REQUIRED:
                        yield "REQUIRED_FIELD_REMOVED", (*path, str(number))
                elif oneof not in deleted:
                    yield "ONEOF_FIELD_REMOVED", (*path, oneof, str(number))
                continue
            oneof = _oneof(new.message, field)
            place = (*path, *(() if oneof is None else (oneof,)), str(number))
            if was is not None:
                yield from self._field(field, was, new, old, place)
            elif field.label == _REQUIRED:
                yield "REQUIRED_FIELD_ADDED", place

    def _field(
        self, field: Any, was: Any, new: _Type, old: _Type, path: tuple[str, ...]
    ) -> Iterator[_Difference]:
        kind, entry = _kind(field, self._new)
        old_kind, old_entry = _kind(was, self._old)
        if kind != old_kind:
            yield "FIELD_KIND_CHANGED", path
        elif entry is not None and old_entry is not None:
            for inner, inner_was in zip(entry.field, old_entry.field, strict=True):
                yield from self._field(inner, inner_was, _UNLABELLED, _UNLABELLED, path)
        elif kind == "MESSAGE":
            yield from self._message_field(field, was, path)
        elif _SORTS[field.type] != _SORTS[was.type]:
            yield "FIELD_SCALAR_KIND_CHANGED", path
        elif _SORTS[field.type] != "STRING_OR_BYTES":
            label, old_label = _label(field, new), _label(was, old)
            if label is not None and old_label is not None and label != old_label:
                yield "FIELD_NUMERIC_LABEL_CHANGED", path

    def _message_field(self, field: Any, was: Any, path: tuple[str, ...]) -> Iterator[_Difference]:
        message, old_message = self._new.named(field.type_name), self._old.named(was.type_name)
        if message.local != old_message.local:
            yield "FIELD_NAMED_TYPE_CHANGED", path
            return
        pair = (id(message.message), id(old_message.message))
        if pair in self._compared:
            is_compatible, differences = self._compared[pair], []
        else:
            differences = self._message(message, old_message, tuple(message.local.split(".")))
            is_compatible = not differences
        yield from differences
        if not is_compatible:
            yield "FIELD_NAMED_TYPE_CHANGED", path


_UNLABELLED = _Type(None, "", True)


def _kind(field: Any, types: ProtobufTypes) -> tuple[str, Any]:
    """Return (kind, the entry's message of a map)."""
    if field.type == _MESSAGE:
        message = types.named(field.type_name)
        if message.is_entry:
            return "MAP", message.message
    return ("MESSAGE" if field.type in (_MESSAGE, _GROUP) else "SCALAR"), None


def _label(field: Any, within: _Type) -> int | None:
    """Return the label that is written; None where there is none, as in a oneof."""
    is_in_oneof = field.HasField("oneof_index") and not field.proto3_optional
    is_implicit = within.is_proto3 and field.label not in (_REQUIRED, _REPEATED) and not field.proto3_optional
    return None if within.message is None or is_in_oneof or is_implicit else field.label


def _oneof(message: Any, field: Any) -> str | None:
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    name: str = message.oneof_decl[field.oneof_index].name
    return name


def _members(message: Any) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for field in message.field:
        oneof = _oneof(message, field)
        if oneof is not None:
            members.setdefault(oneof, []).append(field.number)
    return members


def _deleted_oneofs(old: Any, after: dict[int, Any]) -> set[str]:
    """Return the oneofs of which no field is left anywhere: that they are gone is no difference."""
    return {name for name, numbers in _members(old).items() if not any(number in after for number in numbers)}


def _oneofs(new: Any, old: Any, path: tuple[str, ...]) -> Iterator[_Difference]:
    """Fields that could be set together, and no longer can."""
    before = {field.number: _oneof(old, field) for field in old.field}
    for name, numbers in _members(new).items():
        known = [number for number in numbers if number in before]
        alone = [number for number in known if before[number] is None]
        groups = len(alone) + len({before[number] for number in known} - {None})
        if groups > 1:
            several = len(alone) > 1
            yield (
                ("MULTIPLE_FIELDS_MOVED_TO_ONEOF" if several else "FIELD_MOVED_TO_EXISTING_ONEOF"),
                (*path, name),
            )
