"""By which schema a record is written, and by which it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from odradek.serdes.errors import SchemaError
from odradek.serdes.lookups import Lookups
from odradek.serdes.resolved_schemas import ResolvedSchema, ResolvedSchemas
from odradek.serdes.schemas import Schema
from odradek.serdes.serde_configs import SerdeConfigs
from odradek.serdes.subject_names import SerializationContext
from odradek.serdes.wire_format import frame_of

T = TypeVar("T")
_RULES = ("domainRules", "encodingRules")


@dataclass(frozen=True)
class RecordSchema(Generic[T]):
    """A schema of a registry, with the bytes that stand before the records written by it."""

    frame: bytes
    parsed: T


class RecordSchemas(Generic[T]):
    """The schemas of a serializer or deserializer, each understood once.

    Args:
        schemas: of the registry.
        schema_type: AVRO, JSON or PROTOBUF.
        configs: which is taken.
        parse: understands a schema.

    Raises:
        LookupNeeded: by every method, for what the registry has not been asked yet.
    """

    def __init__(
        self,
        schemas: ResolvedSchemas,
        schema_type: str,
        configs: SerdeConfigs,
        parse: Callable[[ResolvedSchema], T],
        own_schema: Callable[[SerializationContext], Schema | None] = lambda ctx: None,
    ) -> None:
        self._schemas = schemas
        self._schema_type = schema_type
        self._configs = configs
        self._parse = parse
        self._own_schema = own_schema
        config = schemas.client.config
        ttl_s = config.cache_latest_ttl_sec if configs.takes_registered else None
        self._by_id: Lookups[int, T] = Lookups(self._look_up_id, config.cache_capacity)
        self._of_topics: Lookups[tuple[SerializationContext, str | None], RecordSchema[T]] = Lookups(
            lambda key: self._look_up_topic(*key), config.cache_capacity, ttl_s
        )

    def by_id(self, schema_id: int) -> T:
        """Return the schema of an id, understood."""
        return self._by_id.get(schema_id)

    def of_topic(self, ctx: SerializationContext, record_name: str | None) -> RecordSchema[T]:
        """Return the schema that the configs and the application say for the keys or values of a topic."""
        return self._of_topics.get((ctx, record_name))

    def _look_up_id(self, schema_id: int) -> T:
        return self._parsed(self._schemas.by_id(schema_id, serialized=self._is_serialized))

    def _look_up_topic(self, ctx: SerializationContext, record_name: str | None) -> RecordSchema[T]:
        configs, client = self._configs, self._schemas.client
        if configs.use_schema_id is not None:
            schema_id = configs.use_schema_id
            return RecordSchema(frame_of(schema_id), self._look_up_id(schema_id))
        subject = configs.subject_name_strategy(ctx, record_name)
        if subject is None:
            raise SchemaError("subject.name.strategy has no subject for it: its schema has no name")
        if configs.use_latest_with_metadata is not None:
            registered = client.get_latest_with_metadata(subject, configs.use_latest_with_metadata)
            return self._registered(self._schemas.by_id(registered.schema_id, serialized=self._is_serialized))
        if configs.use_latest_version:
            return self._registered(self._schemas.version(subject, serialized=self._is_serialized))
        schema = self._own_schema(ctx)
        if schema is None:
            raise SchemaError(f"the subject '{subject}' needs a schema: give one, or use.latest.version=True")
        # Before it is registered: what cannot be used here should not stand there.
        parsed = self._parse(self._schemas.of(schema))
        if configs.auto_register_schemas:
            schema_id = client.register_schema(subject, schema, configs.normalize_schemas)
        else:
            schema_id = client.lookup_schema(subject, schema, configs.normalize_schemas).schema_id
        return RecordSchema(frame_of(schema_id), parsed)

    def _registered(self, resolved: ResolvedSchema) -> RecordSchema[T]:
        return RecordSchema(frame_of(resolved.schema_id), self._parsed(resolved))

    def _parsed(self, resolved: ResolvedSchema) -> T:
        if resolved.schema_type != self._schema_type:
            raise SchemaError(
                f"the schema with id {resolved.schema_id} is of type {resolved.schema_type}, "
                f"not {self._schema_type}"
            )
        _refuse_rules(resolved)
        return self._parse(resolved)

    @property
    def _is_serialized(self) -> bool:
        return self._schema_type == "PROTOBUF"


class OwnSchema(Generic[T]):
    """A schema that the application has given, which may use others of the registry.

    Args:
        schemas: of the registry; None where the schema uses no others.
        schema: None, if none was given.
        parse: understands it.
    """

    def __init__(
        self, schemas: ResolvedSchemas | None, schema: Schema | None, parse: Callable[[ResolvedSchema], T]
    ) -> None:
        self._schema = schema
        self._parsed: Lookups[Schema, T] = Lookups(
            lambda key: parse(ResolvedSchema(0, key) if schemas is None else schemas.of(key)), 1
        )

    def get(self) -> T | None:
        """Return it, understood; None, if none was given.

        Raises:
            LookupNeeded: those that it uses have not been asked for yet.
        """
        return None if self._schema is None else self._parsed.get(self._schema)


def _refuse_rules(resolved: ResolvedSchema) -> None:
    """Check that a schema asks for nothing that is not done here: it may say to encrypt a field.

    Raises:
        SchemaError: it does.
    """
    rule_set = resolved.schema.rule_set or {}
    rules = [rule for kind in _RULES for rule in rule_set.get(kind) or () if not rule.get("disabled")]
    if rules:
        names = ", ".join(str(rule.get("name")) for rule in rules)
        raise SchemaError(
            f"the schema with id {resolved.schema_id} has rules, which are not carried out here: {names}"
        )
