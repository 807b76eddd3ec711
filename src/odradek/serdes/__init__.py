"""The client of schema registries, and serializers and deserializers of Avro, JSON Schema and Protobuf.

`SchemaRegistryClient` asks; `rest_service` is how. `resolved_schemas` brings a schema with those that it
uses, `record_schemas` the one that a record is written or read by, and `lookups` remembers: what is not known
yet is asked for by the client around it (`LookupNeeded`), so that no event loop waits. `wire_format` is what
stands before each record. The Spark pipeline asks registries by the same client, and knows the same wire
format. `docs/serdes.md` is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_EXPORTS = {
    "AvroDeserializer": "odradek.serdes.avro",
    "AvroSerializer": "odradek.serdes.avro",
    "JSONDeserializer": "odradek.serdes.json_schema",
    "JSONSerializer": "odradek.serdes.json_schema",
    "MessageField": "odradek.serdes.subject_names",
    "ProtobufDeserializer": "odradek.serdes.protobuf",
    "ProtobufSerializer": "odradek.serdes.protobuf",
    "RegisteredSchema": "odradek.serdes.schemas",
    "RegistryError": "odradek.serdes.errors",
    "Schema": "odradek.serdes.schemas",
    "SchemaError": "odradek.serdes.errors",
    "SchemaReference": "odradek.serdes.schemas",
    "SchemaRegistryClient": "odradek.serdes.schema_registry_client",
    "SerializationContext": "odradek.serdes.subject_names",
    "UnknownSchemaError": "odradek.serdes.errors",
    "record_subject_name_strategy": "odradek.serdes.subject_names",
    "topic_record_subject_name_strategy": "odradek.serdes.subject_names",
    "topic_subject_name_strategy": "odradek.serdes.subject_names",
}

__all__ = sorted(_EXPORTS)

if TYPE_CHECKING:
    from odradek.serdes.avro import AvroDeserializer as AvroDeserializer
    from odradek.serdes.avro import AvroSerializer as AvroSerializer
    from odradek.serdes.errors import RegistryError as RegistryError
    from odradek.serdes.errors import SchemaError as SchemaError
    from odradek.serdes.errors import UnknownSchemaError as UnknownSchemaError
    from odradek.serdes.json_schema import JSONDeserializer as JSONDeserializer
    from odradek.serdes.json_schema import JSONSerializer as JSONSerializer
    from odradek.serdes.protobuf import ProtobufDeserializer as ProtobufDeserializer
    from odradek.serdes.protobuf import ProtobufSerializer as ProtobufSerializer
    from odradek.serdes.schema_registry_client import SchemaRegistryClient as SchemaRegistryClient
    from odradek.serdes.schemas import RegisteredSchema as RegisteredSchema
    from odradek.serdes.schemas import Schema as Schema
    from odradek.serdes.schemas import SchemaReference as SchemaReference
    from odradek.serdes.subject_names import MessageField as MessageField
    from odradek.serdes.subject_names import SerializationContext as SerializationContext
    from odradek.serdes.subject_names import record_subject_name_strategy as record_subject_name_strategy
    from odradek.serdes.subject_names import (
        topic_record_subject_name_strategy as topic_record_subject_name_strategy,
    )
    from odradek.serdes.subject_names import topic_subject_name_strategy as topic_subject_name_strategy


def __getattr__(name: str) -> Any:
    """Import an exported name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is here, the lazy names included."""
    return sorted({*globals(), *__all__})
