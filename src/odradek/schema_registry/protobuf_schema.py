"""Protobuf's schemas: compiled by protoc (`grpcio-tools`), from text or from a descriptor in base64.

A text stays as it was given, with its comments; a descriptor is kept as the text that says the same. Two are
the same schema if they compile to the same descriptor.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from odradek.schema_registry.errors import InvalidSchemaError
from odradek.schema_registry.parsed_schema import SERIALIZED, Difference, ParsedSchema
from odradek.schema_registry.protobuf_compatibility import ProtobufTypes, protobuf_differences
from odradek.schema_registry.protobuf_printing import UnprintableError, print_file
from odradek.util.extras import install
from odradek.util.protobuf_text import ProtobufTextError, compile_text

_NAME = "default.proto"
"""The name of a schema's own file: nobody imports it by that."""


class ProtobufSchema:
    """A schema of protobuf's.

    Attributes:
        text: in protobuf's language.
        types: its messages and enums, and those that it imports.
    """

    def __init__(self, text: str, files: Sequence[Any]) -> None:
        self.text = text
        self._file = files[-1]
        self.types = ProtobufTypes(files)

    @property
    def identity(self) -> str:
        """See `ParsedSchema.identity`: the descriptor."""
        return self.formatted(SERIALIZED)

    def normalized(self) -> str:
        """See `ParsedSchema.normalized`: printed anew, fields by number, imports by name."""
        return print_file(self._file, is_sorted=True)

    def formatted(self, format_name: str) -> str:
        """See `ParsedSchema.formatted`: the descriptor is the format `serialized`."""
        if format_name != SERIALIZED:
            return self.text
        return base64.b64encode(self._file.SerializeToString(deterministic=True)).decode()

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        """See `ParsedSchema.differences`."""
        assert isinstance(writer, ProtobufSchema)
        return protobuf_differences(self.types, writer.types)


def parse_protobuf(text: str, references: Sequence[tuple[str, str]]) -> ProtobufSchema:
    """Return the schema of a text, or of a descriptor in base64.

    Args:
        references: (name by which it is imported, schema) of what it uses, those first that others use.

    Raises:
        InvalidSchemaError: it is none, or the package that compiles it is missing.
    """
    try:
        from google.protobuf import descriptor_pb2
        from google.protobuf.message import DecodeError
    except ImportError:
        raise InvalidSchemaError(f"protobuf's schemas need more packages: {install('registry')}") from None
    try:
        descriptor = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        descriptor = b""
    try:
        if descriptor:
            text = print_file(descriptor_pb2.FileDescriptorProto.FromString(descriptor))
        # Who refers to a file by this name means another one.
        sources = [(name, source) for name, source in references if name != _NAME]
        compiled = compile_text([*sources, (_NAME, text)], with_reason=True)
        files = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in compiled]
    except DecodeError:
        raise InvalidSchemaError("neither protobuf's language nor a descriptor in base64") from None
    except (ProtobufTextError, UnprintableError) as problem:
        raise InvalidSchemaError(str(problem)) from None
    return ProtobufSchema(text, files)
