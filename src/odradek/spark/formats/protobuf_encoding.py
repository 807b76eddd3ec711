"""Values of columns as protobuf messages."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.serdes.errors import SchemaError
from odradek.serdes.protobuf_files import message_path
from odradek.serdes.schemas import PROTOBUF, Schema
from odradek.serdes.wire_format import encode_message_indexes, frame_of
from odradek.spark.formats import protobuf_schema as schema
from odradek.spark.formats.errors import UnwritableRowError
from odradek.spark.formats.layouts import ProtobufLayout, layout_of, subject_of
from odradek.spark.formats.options import SideOptions
from odradek.spark.formats.registry import schemas_of

Fill = Callable[[Any, Any], None]
"""Puts a value into a message."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class ProtobufEncoding:
    """A column as messages of a type; `frame`: the bytes before each."""

    layout: ProtobufLayout
    type: Any
    frame: bytes

    def encoder(self) -> Callable[[Any], bytes]:
        from google.protobuf import message_factory

        descriptor = self.layout.descriptor()
        make = message_factory.GetMessageClass(descriptor)
        fill = _message(descriptor, self.type)
        frame = self.frame

        def encode(value: Any) -> bytes:
            message = make()
            try:
                fill(message, value)
                return frame + bytes(message.SerializeToString())
            except (ValueError, TypeError, OverflowError) as problem:
                raise UnwritableRowError(
                    f"a row does not fit '{descriptor.full_name}': {problem}"
                ) from problem
            except Exception as problem:
                if type(problem).__name__ != "EncodeError":
                    raise
                raise UnwritableRowError(
                    f"a row does not fit '{descriptor.full_name}': {problem}"
                ) from problem

        return encode


def encoding(options: SideOptions, data_type: Any, topics: tuple[str, ...]) -> ProtobufEncoding:
    """Return how a column becomes messages.

    Raises:
        SchemaError: the column's values cannot be put into the message.
        ValueError: the options do not go together.
        RegistryError: the registry cannot be asked, or refuses.
    """
    layout = layout_of(options, topics)
    assert isinstance(layout, ProtobufLayout)
    _check(layout.descriptor(), data_type, options.side)
    if options.registry is None:
        return ProtobufEncoding(layout, data_type, b"")
    schemas = schemas_of(options.registry)
    subject = subject_of(options, topics)
    descriptor = layout.descriptor()
    if not options.descriptors:
        number = schemas.version(subject, "latest").schema_id
    elif options.register:
        number = schemas.client.register_schema(
            subject, Schema(_registrable(descriptor, options.side), PROTOBUF)
        )
    else:
        raise ValueError(
            f"{options.side}.schema.register is false: the schema of the registry is used; leave "
            f"{options.side}.schema out"
        )
    return ProtobufEncoding(
        layout, data_type, frame_of(number) + encode_message_indexes(message_path(descriptor))
    )


def _registrable(descriptor: Any, side: str) -> str:
    others = [
        dependency.name
        for dependency in descriptor.file.dependencies
        if not dependency.name.startswith("google/protobuf/")
    ]
    if others:
        raise ValueError(
            f"{side}.schema imports {', '.join(others)}: register it with a tool of the registry, and leave "
            f"{side}.schema out"
        )
    return base64.b64encode(descriptor.file.serialized_pb).decode()


def _check(descriptor: Any, data_type: Any, path: str) -> None:
    """Check that values of a type can be put into a message.

    Raises:
        SchemaError: they cannot.
    """
    names = getattr(data_type, "fieldNames", None)
    if names is None:
        raise SchemaError(f"'{path}' is of type {data_type.simpleString()}; a message needs a struct")
    for name in names():
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise SchemaError(f"'{descriptor.full_name}' has no field '{path}.{name}'; leave the column out")
        given = data_type[name].dataType
        if not schema.is_map(field) and schema.is_repeated(field):
            given = getattr(given, "elementType", None)
        if given is None or (schema.is_map(field) and not hasattr(given, "keyType")):
            raise SchemaError(f"'{path}.{name}' has to be {schema.field_type(field).simpleString()}")
        if field.type == schema.MESSAGE and hasattr(given, "fieldNames"):
            _check(field.message_type, given, f"{path}.{name}")
        elif not schema.is_map(field):
            _check_single(field, given, f"{path}.{name}")


_LIKE = {
    "int": ("tinyint", "smallint", "int"),
    "bigint": ("tinyint", "smallint", "int", "bigint"),
    "decimal(20,0)": ("tinyint", "smallint", "int", "bigint"),
    "double": ("float", "double"),
}


def _check_single(field: Any, given: Any, path: str) -> None:
    field_type = schema.single_type(field).simpleString()
    simple = given.simpleString()
    if simple != field_type and simple not in _LIKE.get(field_type, ()):
        raise SchemaError(f"'{path}' is of type {simple}, and the message wants {field_type}; cast it")


def _message(descriptor: Any, data_type: Any) -> Fill:
    fields = [
        (name, _field(descriptor.fields_by_name[name], data_type[name].dataType))
        for name in data_type.fieldNames()
    ]

    def fill(message: Any, value: Any) -> None:
        for name, put in fields:
            member = value[name]
            if member is not None:
                put(message, member)

    return fill


def _field(field: Any, data_type: Any) -> Fill:
    """Puts a value that is not null into a field of a message."""
    name = field.name
    if schema.is_map(field):
        return _map(field, data_type)
    if field.type == schema.MESSAGE:
        if schema.is_repeated(field):
            inner = _inside(field.message_type, data_type.elementType)

            def put_all(message: Any, value: Any) -> None:
                for item in value:
                    inner(getattr(message, name).add(), item)

            return put_all
        single = _inside(field.message_type, data_type)

        def put(message: Any, value: Any) -> None:
            inside = getattr(message, name)
            inside.SetInParent()
            single(inside, value)

        return put
    convert = _converter(field)
    if schema.is_repeated(field):
        return lambda message, value: getattr(message, name).extend([convert(item) for item in value])
    return lambda message, value: setattr(message, name, convert(value))


def _map(field: Any, data_type: Any) -> Fill:
    name = field.name
    value_field = field.message_type.fields_by_name["value"]
    key_of = _converter(field.message_type.fields_by_name["key"])
    if value_field.type == schema.MESSAGE:
        inner = _inside(value_field.message_type, data_type.valueType)

        def put_messages(message: Any, value: Any) -> None:
            for key, item in dict(value).items():
                inner(getattr(message, name)[key_of(key)], item)

        return put_messages
    convert = _converter(value_field)

    def put(message: Any, value: Any) -> None:
        target = getattr(message, name)
        for key, item in dict(value).items():
            target[key_of(key)] = convert(item)

    return put


def _inside(descriptor: Any, data_type: Any) -> Fill:
    if descriptor.full_name == schema.STAMP:
        return lambda message, value: message.FromMicroseconds((value - _EPOCH) // _MICROSECOND)
    if descriptor.full_name == schema.SPAN:
        return lambda message, value: message.FromMicroseconds(value // _MICROSECOND)
    return _message(descriptor, data_type)


def _converter(field: Any) -> Callable[[Any], Any]:
    if field.type == schema.ENUM:
        numbers = {symbol.name: symbol.number for symbol in field.enum_type.values}

        def number(value: str) -> int:
            known_number = numbers.get(value)
            if known_number is None and not value.lstrip("-").isdigit():
                raise ValueError(f"the enum of '{field.full_name}' has no '{value}'")
            return int(value) if known_number is None else known_number

        return number
    if field.type in (schema.UINT64, schema.FIXED64):
        return int
    return lambda value: value
