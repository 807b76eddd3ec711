"""A protobuf descriptor as text of protobuf's language. Pure.

Types are named in full, with a dot before them, so that a name means the same wherever it stands. Options of
protobuf's own are kept; those that extensions define are not in the text, as nothing says what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_TYPES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "",
    "bytes", "uint32", "", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""By the numbers of FieldDescriptorProto.Type; messages and enums have names of their own."""
_GROUP, _BYTES, _STRING = 10, 12, 9
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_LABELS = {_OPTIONAL: "optional ", _REQUIRED: "required ", _REPEATED: "repeated "}
_END_OF_NUMBERS = {"message": 536_870_912, "enum": 2_147_483_647}


class UnprintableError(ValueError):
    """A descriptor that has no text here; the message says why."""


def print_file(file: Any, *, is_sorted: bool = False) -> str:
    """Return the text of a FileDescriptorProto.

    Args:
        is_sorted: imports by name, fields by number; messages stay in their order, which is written before
            each record.

    Raises:
        UnprintableError: it is of an edition, or has a group.
    """
    return "\n".join(_Printer(file, is_sorted).file()) + "\n"


class _Printer:
    def __init__(self, file: Any, is_sorted: bool) -> None:
        if file.syntax not in ("", "proto2", "proto3"):
            raise UnprintableError(f"a descriptor of {file.syntax} has to be registered as text")
        self._file = file
        self._is_sorted = is_sorted
        self._is_proto3 = file.syntax == "proto3"

    def file(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        imports = list(enumerate(file.dependency))
        for number, name in sorted(imports, key=lambda i: i[1]) if self._is_sorted else imports:
            how = "public " if number in file.public_dependency else ""
            how = "weak " if number in file.weak_dependency else how
            yield f"import {how}{_quoted(name)};"
        yield from (f"option {name} = {value};" for name, value in _options(file))
        for message in file.message_type:
            yield from self._message(message)
        for enum in file.enum_type:
            yield from _enum(enum)
        yield from self._extensions(file.extension)
        for service in file.service:
            yield from _service(service)

    def _message(self, message: Any) -> Iterator[str]:
        entries = {
            f".{n}": nested for nested in message.nested_type for n in [nested.name] if _is_entry(nested)
        }
        yield f"message {message.name} {{"
        yield from _indented(self._body(message, entries))
        yield "}"

    def _body(self, message: Any, entries: dict[str, Any]) -> Iterator[str]:
        yield from (f"option {name} = {value};" for name, value in _options(message))
        yield from _reserved(message, "message")
        fields = sorted(message.field, key=lambda f: f.number) if self._is_sorted else message.field
        # The one oneof of an `optional` of proto3 is not written.
        written: set[int] = set()
        unwritten = list(message.nested_type)
        for field in fields:
            entry = entries.get("." + field.type_name.rpartition(".")[2])
            if entry in unwritten and not self._is_sorted:
                # A map's entry is a message where the map is: records tell their type by its place among all.
                before = unwritten[: unwritten.index(entry)]
                del unwritten[: len(before) + 1]
                yield from self._messages(before)
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield self._field(field, entries)
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                members = [
                    f for f in fields if f.HasField("oneof_index") and f.oneof_index == field.oneof_index
                ]
                yield f"oneof {oneof.name} {{"
                yield from _indented(f"option {name} = {value};" for name, value in _options(oneof))
                yield from _indented(self._field(member, entries) for member in members)
                yield "}"
        for span in message.extension_range:
            yield f"extensions {_range(span.start, span.end - 1, 'message')};"
        yield from self._messages(unwritten)
        for enum in message.enum_type:
            yield from _enum(enum)
        yield from self._extensions(message.extension)

    def _messages(self, messages: Iterable[Any]) -> Iterator[str]:
        for message in messages:
            if not _is_entry(message):
                yield from self._message(message)

    def _field(self, field: Any, entries: dict[str, Any]) -> str:
        if field.type == _GROUP:
            raise UnprintableError(f"the field {field.name} is a group: register the schema as text")
        kind = _TYPES[field.type] or _full(field.type_name)
        label = _LABELS[field.label]
        entry = entries.get("." + field.type_name.rpartition(".")[2])
        if entry is not None and field.label == _REPEATED:
            key, value = entry.field
            kind = f"map<{_TYPES[key.type]}, {_TYPES[value.type] or _full(value.type_name)}>"
            label = ""
        elif not field.proto3_optional and (
            field.HasField("oneof_index") or (self._is_proto3 and field.label == _OPTIONAL)
        ):
            label = ""
        options = list(_options(field))
        if field.HasField("default_value"):
            options.insert(0, ("default", _default(field)))
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options.append(("json_name", _quoted(field.json_name)))
        told = f" [{', '.join(f'{name} = {value}' for name, value in options)}]" if options else ""
        return f"{label}{kind} {field.name} = {field.number}{told};"

    def _extensions(self, fields: Iterable[Any]) -> Iterator[str]:
        for field in fields:
            yield f"extend {_full(field.extendee)} {{"
            yield f"  {self._field(field, {})}"
            yield "}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _is_entry(message: Any) -> bool:
    return bool(message.options.map_entry)


def _full(name: str) -> str:
    return name if name.startswith(".") else f".{name}"


def _enum(enum: Any) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(f"option {name} = {value};" for name, value in _options(enum))
    yield from _indented(_reserved(enum, "enum"))
    for value in enum.value:
        options = ", ".join(f"{name} = {told}" for name, told in _options(value))
        yield f"  {value.name} = {value.number}{f' [{options}]' if options else ''};"
    yield "}"


def _reserved(holder: Any, kind: str) -> Iterator[str]:
    if holder.reserved_range:
        # The end of a message's range is the first number behind it; that of an enum's is in it.
        beyond = 1 if kind == "message" else 0
        spans = (_range(span.start, span.end - beyond, kind) for span in holder.reserved_range)
        yield f"reserved {', '.join(spans)};"
    if holder.reserved_name:
        yield f"reserved {', '.join(map(_quoted, holder.reserved_name))};"


def _range(first: int, last: int, kind: str) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= _END_OF_NUMBERS[kind] - (kind == 'message') else last}"


def _service(service: Any) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _indented(f"option {name} = {value};" for name, value in _options(service))
    for method in service.method:
        asked = f"{'stream ' if method.client_streaming else ''}{_full(method.input_type)}"
        answered = f"{'stream ' if method.server_streaming else ''}{_full(method.output_type)}"
        options = [f"option {name} = {value};" for name, value in _options(method)]
        told = f" {{ {' '.join(options)} }}" if options else ";"
        yield f"  rpc {method.name} ({asked}) returns ({answered}){told}"
    yield "}"


def _options(holder: Any) -> Iterator[tuple[str, str]]:
    """The options of protobuf's own that are set, as text."""
    for field, value in holder.options.ListFields():
        if field.name == "map_entry" or field.message_type is not None:
            continue
        if field.enum_type is not None:
            values = value if not isinstance(value, int) else [value]
            yield from ((field.name, field.enum_type.values_by_number[number].name) for number in values)
        elif isinstance(value, bool):
            yield field.name, str(value).lower()
        else:
            yield field.name, _quoted(value) if isinstance(value, str) else str(value)


def _default(field: Any) -> str:
    if field.type == _STRING:
        return _quoted(field.default_value)
    # Bytes are escaped already.
    return f'"{field.default_value}"' if field.type == _BYTES else str(field.default_value)


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    written = (escapes.get(c) or (f"\\{ord(c):03o}" if ord(c) < 32 or ord(c) == 127 else c) for c in text)
    return f'"{"".join(written)}"'


def _json_name(name: str) -> str:
    """Return the name that protoc gives a field in JSON."""
    first, *more = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in more)
