"""Protobuf's message types: from a descriptor file, or a registry's text or bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from odradek.serdes.errors import SchemaError
from odradek.util.protobuf_text import NoCompilerError, ProtobufTextError, compile_text

_WELL_KNOWN = ("any", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


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

    def at(self, indexes: Sequence[int]) -> list[Any]:
        """The descriptors that a path of indexes in the last file may mean: one, or two.

        Confluent's serializers count messages as the registered schema has them. One in protobuf's language
        has none for the entries of maps; a descriptor has, and they are counted.

        Raises:
            SchemaError: there is none.
        """
        messages = [
            message
            for counts_entries in (False, True)
            if (message := self._at(indexes, counts_entries)) is not None and not _is_entry(message)
        ]
        if not messages:
            raise SchemaError(f"the protobuf schema has no message at the indexes {list(indexes)}")
        return messages if messages[0] is not messages[-1] else messages[:1]

    def _at(self, indexes: Sequence[int], counts_entries: bool) -> Any:
        message: Any = None
        types = list(self._pool.FindFileByName(self.files[-1]).message_types_by_name.values())
        for index in indexes:
            counted = types if counts_entries else [kind for kind in types if not _is_entry(kind)]
            # They come out of records, so they may be negative.
            if not 0 <= index < len(counted):
                return None
            message = counted[index]
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
                if not _is_entry(message):
                    messages.append(message)
        return messages


def _is_entry(message: Any) -> bool:
    """Return whether a message is what a map is made of."""
    return bool(message.GetOptions().map_entry)


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
    return bytes(file.SerializeToString())


def message_path(descriptor: Any) -> list[int]:
    """Return where a message type is in its file: the indexes from the outermost message to it."""
    path: list[int] = []
    while descriptor is not None:
        above = descriptor.containing_type
        beside = above.nested_types if above is not None else descriptor.file.message_types_by_name.values()
        path.insert(0, [sibling.full_name for sibling in beside].index(descriptor.full_name))
        descriptor = above
    return path
