"""Keys and values for people, by the schemas of a registry if there is one; off the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.console.views.messages import Decoded, MessageRow, message_row, shown
from odradek.errors import OdradekError
from odradek.serdes.errors import UnknownSchemaError
from odradek.serdes.schemas import AVRO, JSON, PROTOBUF
from odradek.serdes.subject_names import SerializationContext
from odradek.serdes.wire_format import HEADER_SIZE, message_indexes, schema_id_of

if TYPE_CHECKING:
    from odradek.client.types import ConsumerRecord
    from odradek.serdes.schema_registry_client import SchemaRegistryClient


#: A page waits for a registry, so it is asked with less patience than by programs.
REGISTRY_CONFIGS = {"request_timeout_ms": 2_000, "max_retries": 0}


class Decoder:
    """Makes rows of records.

    Args:
        registry: the client of a schema registry; None: keys and values are shown as they are.
    """

    def __init__(self, registry: SchemaRegistryClient | None = None) -> None:
        self._registry = registry
        self._by_type: dict[str, Callable[[bytes, SerializationContext], Any]] = {}

    @property
    def registry(self) -> SchemaRegistryClient | None:
        """The client of the registry."""
        return self._registry

    async def rows(self, records: Sequence[ConsumerRecord[bytes, bytes]]) -> list[MessageRow]:
        """Return a row for each record; large values take their time, and so may a registry."""
        return await asyncio.to_thread(self._rows, records)

    def _rows(self, records: Iterable[ConsumerRecord[bytes, bytes]]) -> list[MessageRow]:
        # What a registry that is down has been asked once for is not asked for again by the same page.
        failed: dict[int, str] = {}
        rows = []
        for record in records:
            row = message_row(record)
            key, value = (SerializationContext(record.topic, field) for field in ("key", "value"))
            rows.append(
                replace(
                    row,
                    key=self._decoded(row.key, record.key, key, failed),
                    value=self._decoded(row.value, record.value, value, failed),
                )
            )
        return rows

    def _decoded(
        self, plain: Decoded, data: bytes | None, context: SerializationContext, failed: dict[int, str]
    ) -> Decoded:
        # Text begins with no zero: only what is binary may be framed.
        if data is None or len(data) < HEADER_SIZE or data[0] or self._registry is None:
            return plain
        schema_id = schema_id_of(data)
        if schema_id in failed:
            return replace(plain, note=failed[schema_id])
        try:
            schema_type = self._registry.get_schema(schema_id).schema_type
        except UnknownSchemaError:
            return plain
        except OdradekError as error:
            failed[schema_id] = f"schema {schema_id}: {error}"
            return replace(plain, note=failed[schema_id])
        try:
            value = self._deserializer(schema_type)(data, context)
            text = json.dumps(value, indent=2, ensure_ascii=False, default=_as_text)
        except Exception as error:
            # Of damaged bytes the libraries say so in many ways.
            return replace(plain, note=f"{schema_type.lower()}, schema {schema_id}: {error}")
        return shown(schema_type.lower(), text, len(data), f"{schema_type.lower()}, schema {schema_id}")

    def _deserializer(self, schema_type: str) -> Callable[[bytes, SerializationContext], Any]:
        if schema_type not in self._by_type:
            assert self._registry is not None
            self._by_type[schema_type] = _deserializer(schema_type, self._registry)
        return self._by_type[schema_type]


def _deserializer(
    schema_type: str, registry: SchemaRegistryClient
) -> Callable[[bytes, SerializationContext], Any]:
    if schema_type == AVRO:
        from odradek.serdes.avro import AvroDeserializer

        return AvroDeserializer(registry)
    if schema_type == JSON:
        from odradek.serdes.json_schema import JSONDeserializer

        # A record that breaks its schema is worth seeing, too.
        return JSONDeserializer(None, schema_registry_client=registry, conf={"validate": False})
    if schema_type == PROTOBUF:
        return _protobuf(registry)
    raise ValueError("this type of schema is not known here")


def _protobuf(registry: SchemaRegistryClient) -> Callable[[bytes, SerializationContext], Any]:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    from odradek.serdes.protobuf_files import Messages, file_of_registry
    from odradek.serdes.recent import Recent
    from odradek.serdes.resolved_schemas import ResolvedSchemas

    schemas = ResolvedSchemas(registry)
    known: Recent[int, Messages] = Recent(100)

    def deserialize(data: bytes, context: SerializationContext) -> Any:  # noqa: ARG001
        schema_id = schema_id_of(data)
        path, at = message_indexes(data, HEADER_SIZE)
        messages = known.get(schema_id)
        if messages is None:
            resolved = schemas.by_id(schema_id, serialized=True)
            files = file_of_registry(resolved.text, f"{schema_id}.proto", resolved.references)
            messages = Messages(files)
            known.put(schema_id, messages)
        message = GetMessageClass(messages.at(path)[0])()
        message.ParseFromString(data[at:])
        return MessageToDict(message, preserving_proto_field_name=True)

    return deserialize


def _as_text(value: object) -> str:
    """The text of a value that JSON has no form for, such as bytes and times."""
    return value.hex(" ") if isinstance(value, bytes) else str(value)
