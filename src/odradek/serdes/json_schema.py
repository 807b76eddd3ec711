"""`JSONSerializer` and `JSONDeserializer`: records in JSON that are what a schema of a registry says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serialization import Serialize
from odradek.schema_registry.json_documents import resource_of, resources_of, validator_class
from odradek.serdes.errors import SchemaError
from odradek.serdes.record_schemas import OwnSchema, RecordSchemas
from odradek.serdes.resolved_schemas import ResolvedSchema, ResolvedSchemas
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.serdes.schemas import JSON, Schema
from odradek.serdes.serde import Serde, schema_of, with_context
from odradek.serdes.serde_configs import serde_configs
from odradek.serdes.subject_names import SerializationContext
from odradek.serdes.wire_format import HEADER_SIZE, schema_id_of
from odradek.util.extras import install
from odradek.util.json_text import load_json


class JSONSerializer:
    """Makes JSON of what has a schema of JSON Schema, with the schema's id before it.

        Producer(value_serializer=JSONSerializer(schema, client), …)

    Args:
        schema_str: the schema, or a `Schema` with references; None: that of the registry
            (`use.latest.version`).
        schema_registry_client: the registry.
        to_dict: makes of a value, or of a value and a `SerializationContext`, what is written.
        conf: configs under confluent-kafka's names; `docs/serdes.md` has the table.
        json_encode: makes text or bytes of what is written; None: JSON without blanks.

    Raises:
        ConfigError: a config cannot be used.
        SchemaError: the schema is none, or jsonschema is missing.
        SerializationError: when it is called, for a value that is not what the schema says.
    """

    def __init__(
        self,
        schema_str: str | Schema | None,
        schema_registry_client: SchemaRegistryClient,
        to_dict: Callable[..., Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        self._configs = serde_configs("JSONSerializer", conf)
        schema = schema_of(schema_str, JSON)
        self._title = None if schema is None else _Validator(schema).title
        self._to_dict = with_context(to_dict)
        self._encode = json_encode or _encoded
        schemas = ResolvedSchemas(schema_registry_client)
        self._schemas = RecordSchemas(schemas, JSON, self._configs, _parsed, lambda ctx: schema)
        self._serde = Serde(self._serialize, "serialized")

    def __call__(self, obj: Any, ctx: Any = None) -> bytes | None:
        """Return a value's bytes; None, a tombstone, stays None."""
        return self._serde.called(obj, ctx)  # type: ignore[no-any-return]

    def for_field(self, field: str) -> Serialize:
        """Return it for the keys or the values of a producer."""
        return self._serde.for_field(field)

    def _serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        schema = self._schemas.of_topic(ctx, self._title)
        if self._to_dict is not None:
            value = self._to_dict(value, ctx)
        if self._configs.validate:
            schema.parsed.check(value)
        text = self._encode(value)
        return schema.frame + (text.encode() if isinstance(text, str) else text)


class JSONDeserializer:
    """Reads JSON, and checks that it is what the reader's schema says, or without one the writer's.

    Args:
        schema_str: the reader's schema, or a `Schema` with references; None: the writer's.
        from_dict: makes of what is read, or of that and a `SerializationContext`, what is given out.
        schema_registry_client: the registry; None: the writer's schema is not asked for.
        conf: configs under confluent-kafka's names; `docs/serdes.md` has the table.
        json_decode: reads bytes; None: as JSON.

    Raises:
        ConfigError: a config cannot be used.
        SchemaError: the schema is none, or jsonschema is missing.
        SerializationError: when it is called, for bytes that are not what the schema says.
    """

    def __init__(
        self,
        schema_str: str | Schema | None,
        from_dict: Callable[..., Any] | None = None,
        schema_registry_client: SchemaRegistryClient | None = None,
        conf: Mapping[str, Any] | None = None,
        json_decode: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._configs = serde_configs("JSONDeserializer", conf)
        schema = schema_of(schema_str, JSON)
        if schema is not None:
            _Validator(schema)
        self._from_dict = with_context(from_dict)
        self._decode = json_decode or json.loads
        client = schema_registry_client
        if client is None and (schema is None or schema.references or self._configs.takes_registered):
            raise SchemaError("without schema_registry_client it needs a schema, and one without references")
        schemas = None if client is None else ResolvedSchemas(client)
        self._schemas = None if schemas is None else RecordSchemas(schemas, JSON, self._configs, _parsed)
        self._reader = OwnSchema(schemas, schema, _parsed)
        self._serde = Serde(self._deserialize, "deserialized")

    def __call__(self, data: bytes | None, ctx: Any = None) -> Any:
        """Return what the bytes say; None, a tombstone, stays None."""
        return self._serde.called(data, ctx)

    def for_field(self, field: str) -> Serialize:
        """Return it for the keys or the values of a consumer."""
        return self._serde.for_field(field)

    def _deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        schema_id = schema_id_of(data)
        schema = self._reader.get()
        if self._schemas is not None:
            writer = self._schemas.by_id(schema_id)
            if self._configs.takes_registered:
                schema = self._schemas.of_topic(ctx, writer.title).parsed
            elif schema is None:
                schema = writer
        try:
            value = self._decode(bytes(data[HEADER_SIZE:]))
        except ValueError as problem:
            raise SerializationError(f"it is not JSON: {problem}") from problem
        if self._configs.validate and schema is not None:
            schema.check(value)
        return value if self._from_dict is None else self._from_dict(value, ctx)


class _Validator:
    """A schema that was understood.

    Args:
        references: (name, text) of the schemas that it uses.

    Attributes:
        title: its name; None without.

    Raises:
        SchemaError: it is none, or jsonschema is missing.
    """

    def __init__(self, schema: Schema, references: tuple[tuple[str, str], ...] = ()) -> None:
        try:
            import jsonschema
            from referencing import Registry
        except ImportError:
            raise SchemaError(f"JSON Schema needs the package jsonschema: {install('json')}") from None
        try:
            tree = load_json(schema.schema_str)
            kind = validator_class(tree)
            kind.check_schema(tree)
            resources = [("", resource_of(tree)), *resources_of(references)]
        except (jsonschema.SchemaError, ValueError, TypeError, AttributeError) as problem:
            # The libraries say some things by the failures of their own code.
            raise SchemaError(f"not a JSON schema: {getattr(problem, 'message', problem)}") from None
        title = tree.get("title") if isinstance(tree, dict) else None
        self.title = title if isinstance(title, str) else None
        self._validator = kind(tree, registry=Registry().with_resources(resources))

    def check(self, value: Any) -> None:
        """Check that a value is what the schema says.

        Raises:
            SerializationError: it is not.
        """
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            problem = best_match(self._validator.iter_errors(value))
        except Unresolvable as unresolvable:
            raise SerializationError(
                f"the $ref '{unresolvable.ref}' leads to nothing in its schema and the references"
            ) from None
        if problem is not None:
            raise SerializationError(
                f"it is not what its JSON schema says: {problem.json_path}: {problem.message}"
            )


def _parsed(resolved: ResolvedSchema) -> _Validator:
    return _Validator(resolved.schema, resolved.references)


def _encoded(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as problem:
        raise SerializationError(f"JSON cannot say it: {problem}") from problem
