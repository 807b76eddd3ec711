"""Schemas of a registry together with those that they use: what is needed to read and write records."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from odradek.serdes.errors import RegistryError
from odradek.serdes.recent import Recent
from odradek.serdes.schema_registry_client import SchemaRegistryClient
from odradek.serdes.schemas import Schema, SchemaReference

_MOST_DEEP = 50


@dataclass(frozen=True)
class ResolvedSchema:
    """A schema with all that it uses.

    Attributes:
        schema_id: 0 for one that is not registered.
        references: (name, text) of those that it uses, those first that others use.
        version: of the subject it was looked up in, or 0.
    """

    schema_id: int
    schema: Schema
    references: tuple[tuple[str, str], ...] = ()
    version: int = 0

    @property
    def schema_type(self) -> str:
        """AVRO, PROTOBUF or JSON."""
        return self.schema.schema_type

    @property
    def text(self) -> str:
        """The schema in its language."""
        return self.schema.schema_str


class ResolvedSchemas:
    """The schemas of a registry; those that were had by their ids are remembered.

    Raises:
        UnknownSchemaError: by every method, for what the registry does not have.
        RegistryError: by every method, when the registry cannot be asked.
    """

    def __init__(self, client: SchemaRegistryClient) -> None:
        self.client = client
        self._by_id: Recent[tuple[int, bool], ResolvedSchema] = Recent(client.config.cache_capacity)

    def by_id(self, schema_id: int, *, serialized: bool = False) -> ResolvedSchema:
        """Return the schema of an id; `serialized`: a protobuf one as its descriptor, if it can be had."""
        resolved = self._by_id.get((schema_id, serialized))
        if resolved is None:
            schema = self.client.get_schema(schema_id)
            if serialized:
                schema = _as_descriptor(schema, lambda: self.client.get_schema(schema_id, fmt="serialized"))
            resolved = ResolvedSchema(schema_id, schema, self._references(schema, serialized))
            self._by_id.put((schema_id, serialized), resolved)
        return resolved

    def version(
        self, subject: str, version: str | int = "latest", *, serialized: bool = False
    ) -> ResolvedSchema:
        """Return a version of a subject; `latest` is the newest."""
        registered = self.client.get_version(subject, version)
        schema = registered.schema
        if serialized:
            number = registered.version or version
            schema = _as_descriptor(
                schema, lambda: self.client.get_version(subject, number, fmt="serialized").schema
            )
        references = self._references(schema, serialized)
        return ResolvedSchema(registered.schema_id, schema, references, registered.version)

    def of(self, schema: Schema) -> ResolvedSchema:
        """Return one that an application has, with what it uses."""
        return ResolvedSchema(0, schema, self._references(schema, serialized=False))

    def _references(self, schema: Schema, serialized: bool) -> tuple[tuple[str, str], ...]:
        texts: dict[str, str] = {}
        self._collect(schema.references, serialized, texts, 0)
        return tuple(texts.items())

    def _collect(
        self, references: tuple[SchemaReference, ...], serialized: bool, texts: dict[str, str], depth: int
    ) -> None:
        if depth > _MOST_DEEP:
            raise RegistryError(f"schemas of {self.client.where} refer to each other without end")
        for reference in references:
            if reference.name not in texts:
                schema = self._referenced(reference, serialized)
                self._collect(schema.references, serialized, texts, depth + 1)
                texts[reference.name] = schema.schema_str

    def _referenced(self, reference: SchemaReference, serialized: bool) -> Schema:
        subject, version = reference.subject, reference.version
        # Records stay whose schema is hidden by now, and with it those that it uses.
        schema = self.client.get_version(subject, version, deleted=True).schema
        if not serialized:
            return schema
        return _as_descriptor(
            schema, lambda: self.client.get_version(subject, version, deleted=True, fmt="serialized").schema
        )


def _as_descriptor(schema: Schema, serialized: Callable[[], Schema]) -> Schema:
    """Return a protobuf schema with the descriptor in base64, if it can be had.

    Registries differ: Apicurio 3.3 answers `format=serialized` with the descriptor's bytes as text, which
    loses some, and with HTTP 500 for a schema that was registered as base64. So it is asked only about a
    schema that is text, and text it stays unless the answer is base64.
    """
    if _is_base64(schema.schema_str):
        return schema
    other = serialized()
    return other if _is_base64(other.schema_str) else schema


def _is_base64(text: str) -> bool:
    """Return whether a schema is base64; none in protobuf's language is, for its spaces and semicolons."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True
