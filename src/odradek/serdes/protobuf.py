"""`ProtobufSerializer` and `ProtobufDeserializer`: messages of protobuf, by the schemas of a registry."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serialization import Serialize
from odradek.serdes.errors import SchemaError
from odradek.serdes.protobuf_files import Messages, file_of_registry, message_path
from odradek.serdes.record_schemas import RecordSchemas
from odradek.serdes.resolved_schemas import ResolvedSchema, ResolvedSchemas
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.serdes.schemas import PROTOBUF, Schema, SchemaReference
from odradek.serdes.serde import Serde
from odradek.serdes.serde_configs import serde_configs
from odradek.serdes.subject_names import SerializationContext
from odradek.serdes.wire_format import HEADER_SIZE, encode_message_indexes, message_indexes, schema_id_of
from odradek.util.extras import install

_KNOWN = ("google/protobuf/", "google/type/", "confluent/")
"""The beginnings of the names of files that every reader has."""


class ProtobufSerializer:
    """Makes bytes of messages, with the id of their schema and the place of their type in it before them.

        Producer(value_serializer=ProtobufSerializer(Order, client), …)

    Files that the message's file imports are registered as subjects under their names.

    Args:
        msg_type: the class that protoc has made of the message type.
        schema_registry_client: the registry.
        conf: configs under confluent-kafka's names; `docs/serdes.md` has the table.

    Raises:
        ConfigError: a config cannot be used.
        SchemaError: protobuf is missing.
        SerializationError: when it is called, for what is no such message, or lacks a required field.
    """

    def __init__(
        self,
        msg_type: Any,
        schema_registry_client: SchemaRegistryClient,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        _require_protobuf()
        self._configs = serde_configs("ProtobufSerializer", conf)
        self._type = msg_type
        self._client = schema_registry_client
        schemas = ResolvedSchemas(schema_registry_client)
        self._schemas = RecordSchemas(schemas, PROTOBUF, self._configs, self._indexes, self._own)
        self._serde = Serde(self._serialize, "serialized")

    def __call__(self, message: Any, ctx: Any = None) -> bytes | None:
        """Return a message's bytes; None, a tombstone, stays None."""
        return self._serde.called(message, ctx)  # type: ignore[no-any-return]

    def for_field(self, field: str) -> Serialize:
        """Return it for the keys or the values of a producer."""
        return self._serde.for_field(field)

    def _serialize(self, message: Any, ctx: SerializationContext) -> bytes:
        name = self._type.DESCRIPTOR.full_name
        if not isinstance(message, self._type):
            raise SerializationError(f"it is {type(message).__name__}, not a message of the type '{name}'")
        schema = self._schemas.of_topic(ctx, name)
        try:
            return schema.frame + schema.parsed + bytes(message.SerializeToString())
        except Exception as problem:
            # An EncodeError, which has no module of its own in every release.
            raise SerializationError(f"it is no whole message of the type '{name}': {problem}") from problem

    def _indexes(self, resolved: ResolvedSchema) -> bytes:
        """Return where the type is in a schema: another order of the same messages is another schema."""
        own = self._type.DESCRIPTOR
        if resolved.schema_id == 0:
            return encode_message_indexes(message_path(own))
        return encode_message_indexes(message_path(_messages(resolved).named(own.full_name)))

    def _own(self, ctx: SerializationContext) -> Schema:  # noqa: ARG002
        """Return the schema of the message's file, whose imports are registered by then, or were before."""
        return self._schema_of(self._type.DESCRIPTOR.file)

    def _schema_of(self, file: Any) -> Schema:
        references = []
        for imported in file.dependencies:
            if self._configs.skip_known_types and imported.name.startswith(_KNOWN):
                continue
            schema, subject = self._schema_of(imported), imported.name
            normalize = self._configs.normalize_schemas
            if self._configs.auto_register_schemas:
                self._client.register_schema(subject, schema, normalize)
            version = self._client.lookup_schema(subject, schema, normalize).version
            references.append(SchemaReference(imported.name, subject, version))
        return Schema(base64.b64encode(file.serialized_pb).decode(), PROTOBUF, tuple(references))


class ProtobufDeserializer:
    """Reads messages of one type.

    Args:
        message_type: the class that protoc has made of the message type.
        conf: none are known; `{"use.deprecated.format": False}` is passed over.
        schema_registry_client: the registry, by which records of other message types are refused; None: the
            fields are taken for those of `message_type`.

    Raises:
        ConfigError: a config cannot be used.
        SchemaError: protobuf is missing.
        SerializationError: when it is called, for bytes that are no such message.
    """

    def __init__(
        self,
        message_type: Any,
        conf: Mapping[str, Any] | None = None,
        schema_registry_client: SchemaRegistryClient | None = None,
    ) -> None:
        _require_protobuf()
        configs = serde_configs("ProtobufDeserializer", conf)
        self._type = message_type
        self._schemas = None
        if schema_registry_client is not None:
            schemas = ResolvedSchemas(schema_registry_client)
            self._schemas = RecordSchemas(schemas, PROTOBUF, configs, _messages)
        self._serde = Serde(self._deserialize, "deserialized")

    def __call__(self, data: bytes | None, ctx: Any = None) -> Any:
        """Return the message; None, a tombstone, stays None."""
        return self._serde.called(data, ctx)

    def for_field(self, field: str) -> Serialize:
        """Return it for the keys or the values of a consumer."""
        return self._serde.for_field(field)

    def _deserialize(self, data: bytes, ctx: SerializationContext) -> Any:  # noqa: ARG002
        schema_id = schema_id_of(data)
        path, at = message_indexes(data, HEADER_SIZE)
        name = self._type.DESCRIPTOR.full_name
        if self._schemas is not None:
            names = [written.full_name for written in self._schemas.by_id(schema_id).at(path)]
            if name not in names:
                raise SerializationError(f"it is of the message type '{names[0]}', not '{name}'")
        message = self._type()
        try:
            message.ParseFromString(bytes(data[at:]))
        except Exception as problem:
            raise SerializationError(f"it is no message of the type '{name}': {problem}") from problem
        return message


def _messages(resolved: ResolvedSchema) -> Messages:
    return Messages(file_of_registry(resolved.text, f"{resolved.schema_id}.proto", resolved.references))


def _require_protobuf() -> None:
    try:
        import google.protobuf.descriptor_pb2  # noqa: F401
    except ImportError:
        raise SchemaError(f"protobuf's messages need the package protobuf: {install('protobuf')}") from None
