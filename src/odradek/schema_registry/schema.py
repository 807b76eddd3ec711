"""A schema as it is registered, and the reference by which it uses another. Pure."""

from __future__ import annotations

from dataclasses import dataclass

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
SCHEMA_TYPES = (JSON, PROTOBUF, AVRO)
"""In the order in which Confluent's registry lists them."""


@dataclass(frozen=True, order=True)
class SchemaReference:
    """Another schema that one uses.

    Attributes:
        name: by which it is used: a type of Avro's, a protobuf import, a `$ref` of JSON Schema.
        subject, version: which it is.
    """

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, str | int]:
        """Return it as requests, answers and records have it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Schema:
    """A schema as it is kept; two that are equal have one id.

    Attributes:
        schema_type: AVRO, PROTOBUF or JSON.
        text: in its language.
        metadata, rule_set: what clients keep with it, as JSON text; empty without.
    """

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: str = ""
    rule_set: str = ""
