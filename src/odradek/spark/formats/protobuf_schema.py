"""Protobuf's message types: from a descriptor file, a registry's text or bytes; and as Spark's types.

A field that can tell whether it is there (`optional`, a message, a member of a `oneof`) is null where it is
absent; one that cannot has protobuf's zero value. Repeated fields are arrays, empty where absent. Unsigned
numbers go into the next wider type; enums are their names.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from pyspark.sql import types as spark

from odradek.spark.formats.bounds import ColumnCount
from odradek.spark.formats.errors import SchemaError
from odradek.util.extras import install
from odradek.util.protobuf_text import NoCompilerError, ProtobufTextError, compile_text

STAMP = "google.protobuf.Timestamp"
SPAN = "google.protobuf.Duration"
#: Numbers of `FieldDescriptor.TYPE_…`.
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP, MESSAGE, BYTES, UINT32, ENUM = (
    range(1, 15)
)
SFIXED32, SFIXED64, SINT32, SINT64 = range(15, 19)
_WELL_KNOWN = ("any", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
_PLAIN: dict[int, Any] = {
    DOUBLE: spark.DoubleType(),
    FLOAT: spark.FloatType(),
    INT64: spark.LongType(),
    UINT64: spark.DecimalType(20, 0),
    INT32: spark.IntegerType(),
    FIXED64: spark.DecimalType(20, 0),
    FIXED32: spark.LongType(),
    BOOL: spark.BooleanType(),
    STRING: spark.StringType(),
    BYTES: spark.BinaryType(),
    UINT32: spark.LongType(),
    ENUM: spark.StringType(),
    SFIXED32: spark.IntegerType(),
    SFIXED64: spark.LongType(),
    SINT32: spark.IntegerType(),
    SINT64: spark.LongType(),
}


def require_protobuf() -> None:
    """Check that the library that reads descriptors is there.

    Raises:
        SchemaError: it is missing.
    """
    try:
        import google.protobuf.descriptor_pool  # noqa: F401
    except ImportError:
        raise SchemaError(
            f"value.format and key.format 'protobuf' need the package protobuf: {install('protobuf')}"
        ) from None


class Messages:
    """The message types of some files.

    Args:
        files: serialized `FileDescriptorProto`s, in any order.

    Raises:
        SchemaError: they are not that, or lack a file that they import.
    """

    def __init__(self, files: Sequence[bytes]) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError

        self._pool = descriptor_pool.DescriptorPool()
        try:
            waiting = [descriptor_pb2.FileDescriptorProto.FromString(file) for file in files]
        except DecodeError as problem:
            raise SchemaError(f"not a protobuf descriptor: {problem}") from None
        file_names = {file.name for file in waiting}
        self.files = [file.name for file in waiting]
        imports = {name for file in waiting for name in file.dependency} - file_names
        waiting += [_well_known(name) for name in sorted(imports)]
        added: set[str] = set()
        while waiting:
            ready = [file for file in waiting if set(file.dependency) <= added]
            if not ready:
                raise SchemaError(f"the protobuf files import each other in a circle: {sorted(file_names)}")
            for file in ready:
                try:
                    self._pool.Add(file)
                except TypeError as problem:
                    raise SchemaError(f"the protobuf file '{file.name}' is not valid: {problem}") from None
                added.add(file.name)
                waiting.remove(file)

    def named(self, name: str) -> Any:
        """The descriptor of a message, by its name with or without the package.

        Raises:
            SchemaError: there is none of that name, or more than one.
        """
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            pass
        matching = [message for message in self.all() if message.name == name]
        if len(matching) != 1:
            there = ", ".join(
                message.full_name
                for message in self.all()
                if not message.full_name.startswith("google.protobuf.")
            )
            raise SchemaError(
                f"the descriptor has {'no' if not matching else 'more than one'} message type '{name}'; "
                f"there are: {there}"
            )
        return matching[0]

    def at(self, indexes: Sequence[int]) -> Any:
        """The descriptor at a path of indexes in the last file.

        Raises:
            SchemaError: there is none.
        """
        message: Any = None
        types = list(self._pool.FindFileByName(self.files[-1]).message_types_by_name.values())
        for index in indexes:
            # They come out of records, so they may be negative.
            if not 0 <= index < len(types):
                raise SchemaError(f"the protobuf schema has no message at the indexes {list(indexes)}")
            message = types[index]
            types = list(message.nested_types)
        return message

    def all(self) -> list[Any]:
        """All message types of the files, those inside others included."""
        messages: list[Any] = []
        for name in self.files:
            waiting = list(self._pool.FindFileByName(name).message_types_by_name.values())
            while waiting:
                message = waiting.pop(0)
                waiting += message.nested_types
                if not message.GetOptions().map_entry:
                    messages.append(message)
        return messages


def _well_known(name: str) -> Any:
    """One of the files that come with protobuf."""
    from google.protobuf import descriptor_pb2

    for stem in _WELL_KNOWN:
        if name == f"google/protobuf/{stem}.proto":
            file = import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR
            return descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    raise SchemaError(
        f"the protobuf schema imports '{name}', which is not there. Make the descriptor file with "
        "protoc --include_imports --descriptor_set_out=FILE"
    )


def files_of_set(data: bytes) -> list[bytes]:
    """The files of a `FileDescriptorSet`, as `protoc` writes it.

    Raises:
        SchemaError: it is no such set, or has no files.
    """
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError as problem:
        raise SchemaError(f"not a protobuf descriptor set: {problem}") from None
    if not descriptors.file:
        raise SchemaError("the protobuf descriptor set has no files")
    return [file.SerializeToString() for file in descriptors.file]


def file_of_registry(schema: str, name: str, references: Iterable[tuple[str, str]] = ()) -> list[bytes]:
    """The files of a registry's schema, which comes as base64 of its descriptor, or as text.

    Args:
        schema: what the registry has.
        name: of the file, where it has none.
        references: (name by which it is imported, schema), those first that others import.
    """
    sources = [*references, (name, schema)]
    files = [_serialized(text) for _, text in sources]
    if all(file is not None for file in files):
        return [
            _renamed(file, import_name)
            for file, (import_name, _) in zip(files, sources, strict=True)
            if file is not None
        ]
    try:
        return compile_text(sources)
    except NoCompilerError as problem:
        raise SchemaError(f"{problem}. Or give a descriptor file as value.schema") from None
    except ProtobufTextError as problem:
        raise SchemaError(str(problem)) from None


def _serialized(text: str) -> bytes | None:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text, validate=True)
        descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return data


def _renamed(data: bytes, name: str) -> bytes:
    """A registry's descriptors are called "default"; others import them by the reference's name."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    file.name = name
    return file.SerializeToString()


def spark_type(message: Any) -> Any:
    """The struct of a message type.

    Raises:
        SchemaError: the message contains itself, or is too large.
    """
    return _message_type(message, (), ColumnCount(f"the protobuf message '{message.full_name}'"))


def _message_type(message: Any, inside: tuple[str, ...], count: ColumnCount) -> Any:
    if message.full_name in inside:
        raise SchemaError(
            f"the protobuf message '{message.full_name}' contains itself, which no column can. Leave the "
            "field out: name the ones that you want in the option columns"
        )
    within = (*inside, message.full_name)
    return spark.StructType(
        [
            spark.StructField(field.name, _field_type(field, within, count), nullable=True)
            for field in message.fields
        ]
    )


def field_type(field: Any) -> Any:
    """The type of a field's column.

    Raises:
        SchemaError: as `spark_type`.
    """
    return _field_type(field, (), ColumnCount(f"the protobuf field '{field.full_name}'"))


def _field_type(field: Any, inside: tuple[str, ...], count: ColumnCount) -> Any:
    if is_map(field):
        count.add(len(inside))
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return spark.MapType(
            _single_type(key, inside, count), _single_type(value, inside, count), valueContainsNull=False
        )
    single = _single_type(field, inside, count)
    return spark.ArrayType(single, containsNull=False) if is_repeated(field) else single


def is_repeated(field: Any) -> bool:
    """Return whether a field has any number of values; the attribute's name depends on the release."""
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def is_required(field: Any) -> bool:
    """Return whether a field has to be there (proto2)."""
    required = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if required is None else required)


def is_map(field: Any) -> bool:
    """Return whether a field is a map, which is a repeated message of pairs."""
    return bool(field.type == MESSAGE and is_repeated(field) and field.message_type.GetOptions().map_entry)


def single_type(field: Any) -> Any:
    """The type of one of a field's values.

    Raises:
        SchemaError: as `spark_type`.
    """
    return _single_type(field, (), ColumnCount(f"the protobuf field '{field.full_name}'"))


def _single_type(field: Any, inside: tuple[str, ...], count: ColumnCount) -> Any:
    count.add(len(inside))
    if field.type == GROUP:
        raise SchemaError(f"the protobuf field '{field.full_name}' is a group, which has no column")
    if field.type != MESSAGE:
        return _PLAIN[field.type]
    if field.message_type.full_name == STAMP:
        return spark.TimestampType()
    if field.message_type.full_name == SPAN:
        return spark.DayTimeIntervalType(0, 3)
    return _message_type(field.message_type, inside, count)
