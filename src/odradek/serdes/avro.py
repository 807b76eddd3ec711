"""`AvroSerializer` and `AvroDeserializer`: records in Avro, by the schemas of a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serialization import Serialize
from odradek.serdes.avro_schemas import parsed_avro
from odradek.serdes.errors import SchemaError
from odradek.serdes.record_schemas import OwnSchema, RecordSchemas
from odradek.serdes.resolved_schemas import ResolvedSchema, ResolvedSchemas
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.serdes.schemas import AVRO, Schema
from odradek.serdes.serde import Serde, schema_of, with_context
from odradek.serdes.serde_configs import serde_configs
from odradek.serdes.subject_names import SerializationContext
from odradek.serdes.wire_format import HEADER_SIZE, schema_id_of


class AvroSerializer:
    """Makes Avro of dicts, or of what `to_dict` makes dicts of; with the id of their schema before it.

        Producer(value_serializer=AvroSerializer(client, schema), …)

    Args:
        schema_registry_client: the registry.
        schema_str: the schema, or a `Schema` with references; None: that of the registry
            (`use.latest.version`).
        to_dict: makes of a value, or of a value and a `SerializationContext`, what fastavro writes.
        conf: configs under confluent-kafka's names; `docs/serdes.md` has the table.

    Raises:
        ConfigError: a config cannot be used.
        SchemaError: the schema is none, or fastavro is missing.
        SerializationError: when it is called, for a value that cannot be written.
    """

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        to_dict: Callable[..., Any] | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        self._configs = serde_configs("AvroSerializer", conf)
        schema = schema_of(schema_str, AVRO)
        self._name = None if schema is None else record_name(schema.schema_str)
        self._to_dict = with_context(to_dict)
        schemas = ResolvedSchemas(schema_registry_client)
        self._schemas = RecordSchemas(schemas, AVRO, self._configs, _parsed, lambda ctx: schema)
        self._serde = Serde(self._serialize, "serialized")
        _check(schema)

    def __call__(self, obj: Any, ctx: Any = None) -> bytes | None:
        """Return a value's bytes; None, a tombstone, stays None."""
        return self._serde.called(obj, ctx)  # type: ignore[no-any-return]

    def for_field(self, field: str) -> Serialize:
        """Return it for the keys or the values of a producer."""
        return self._serde.for_field(field)

    def _serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        import fastavro

        schema = self._schemas.of_topic(ctx, self._name)
        if self._to_dict is not None:
            value = self._to_dict(value, ctx)
        if _is_bytes(schema.parsed):
            if not isinstance(value, bytes | bytearray | memoryview):
                raise SerializationError(f"it is {type(value).__name__}, and its Avro schema wants bytes")
            return schema.frame + bytes(value)
        out = io.BytesIO()
        out.write(schema.frame)
        try:
            fastavro.schemaless_writer(
                out,
                schema.parsed,
                value,
                strict=self._configs.validate_strict,
                strict_allow_default=self._configs.validate_strict_allow_default,
            )
        except (ValueError, TypeError, OverflowError, LookupError, AttributeError) as problem:
            raise SerializationError(f"it does not fit the Avro schema: {problem}") from problem
        return out.getvalue()


class AvroDeserializer:
    """Reads Avro by the schema that it was written by, as the reader's schema wants it.

    Args:
        schema_registry_client: the registry.
        schema_str: the reader's schema, or a `Schema` with references; None: the writer's.
        from_dict: makes of what fastavro reads, or of that and a `SerializationContext`, what is given out.
        return_record_name: whether a record in a union comes as (name, record).
        conf: configs under confluent-kafka's names; `docs/serdes.md` has the table.

    Raises:
        ConfigError: a config cannot be used.
        SchemaError: the schema is none, or fastavro is missing.
        SerializationError: when it is called, for bytes that cannot be read.
    """

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        from_dict: Callable[..., Any] | None = None,
        return_record_name: bool = False,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        self._configs = serde_configs("AvroDeserializer", conf)
        schema = schema_of(schema_str, AVRO)
        self._from_dict = with_context(from_dict)
        self._return_record_name = return_record_name
        schemas = ResolvedSchemas(schema_registry_client)
        self._schemas = RecordSchemas(schemas, AVRO, self._configs, _parsed)
        self._serde = Serde(self._deserialize, "deserialized")
        self._reader = OwnSchema(schemas, schema, _parsed)
        _check(schema)

    def __call__(self, data: bytes | None, ctx: Any = None) -> Any:
        """Return what the bytes say; None, a tombstone, stays None."""
        return self._serde.called(data, ctx)

    def for_field(self, field: str) -> Serialize:
        """Return it for the keys or the values of a consumer."""
        return self._serde.for_field(field)

    def _deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        import fastavro

        writer = self._schemas.by_id(schema_id_of(data))
        reader = self._reader.get()
        if self._configs.takes_registered:
            reader = self._schemas.of_topic(ctx, _name_of(writer)).parsed
        if _is_bytes(writer):
            value: Any = bytes(data[HEADER_SIZE:])
        else:
            stream = io.BytesIO(data)
            stream.seek(HEADER_SIZE)
            try:
                value = fastavro.schemaless_reader(stream, writer, reader, self._return_record_name)
            except Exception as problem:
                # Of damaged bytes the library says so in many ways.
                raise SerializationError(f"it cannot be read by the Avro schema: {problem!r}") from problem
            if stream.tell() != len(data):
                raise SerializationError("something follows after the end of what its Avro schema says")
        return value if self._from_dict is None else self._from_dict(value, ctx)


def _parsed(resolved: ResolvedSchema) -> Any:
    return parsed_avro(resolved.text, [text for _, text in resolved.references])


def _check(schema: Schema | None) -> None:
    """Check a schema that can be understood alone, and that fastavro is there.

    Raises:
        SchemaError: it is none.
    """
    parsed_avro('"null"' if schema is None or schema.references else schema.schema_str)


def _is_bytes(parsed: Any) -> bool:
    """Return whether records are bytes and nothing else: Confluent's serializers write no length then.

    Nor do they regard a logical type (`AbstractKafkaAvroSerializer`).
    """
    return bool((parsed["type"] if isinstance(parsed, dict) else parsed) == "bytes")


def _name_of(parsed: Any) -> str | None:
    if isinstance(parsed, dict):
        return str(parsed.get("name", parsed["type"]))
    return parsed if isinstance(parsed, str) else None


def record_name(text: str) -> str | None:
    """Return the full name of a schema's type; of a primitive one the type, of a union None.

    Raises:
        SchemaError: it is no JSON.
    """
    try:
        tree = json.loads(text) if text.lstrip()[:1] in ("{", "[", '"') else text.strip()
    except ValueError as problem:
        raise SchemaError(f"the Avro schema is not JSON: {problem}") from None
    if not isinstance(tree, dict):
        return tree if isinstance(tree, str) else None
    name, namespace = tree.get("name"), tree.get("namespace")
    if not name:
        kind = tree.get("type")
        return kind if isinstance(kind, str) else None
    return f"{namespace}.{name}" if namespace and "." not in name else str(name)
