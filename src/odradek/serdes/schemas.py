"""Schemas as applications name them: one that may be registered, and one that is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.schema_registry.schema import AVRO, JSON, PROTOBUF, SchemaReference

__all__ = ("AVRO", "JSON", "PROTOBUF", "RegisteredSchema", "Schema", "SchemaReference")


@dataclass(frozen=True)
class Schema:
    """A schema that may be registered.

    Attributes:
        schema_str: its text; of protobuf also a descriptor in base64.
        schema_type: AVRO, PROTOBUF or JSON.
        references: the schemas that it uses.
        metadata, rule_set: what else the registry keeps with it, in its JSON; None without.
    """

    schema_str: str
    schema_type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        # A list is what applications have.
        object.__setattr__(self, "references", tuple(self.references))

    def as_json(self) -> dict[str, Any]:
        """Return it as the body of a request."""
        body: dict[str, Any] = {"schema": self.schema_str}
        if self.schema_type != AVRO:
            body["schemaType"] = self.schema_type
        if self.references:
            body["references"] = [reference.as_json() for reference in self.references]
        if self.metadata is not None:
            body["metadata"] = self.metadata
        if self.rule_set is not None:
            body["ruleSet"] = self.rule_set
        return body

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Schema:
        """Return that of an answer.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: the answer is none of a registry.
        """
        return cls(
            _text(answer["schema"]),
            _text(answer.get("schemaType") or AVRO),
            tuple(_references(answer.get("references") or ())),
            answer.get("metadata"),
            answer.get("ruleSet"),
        )


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as a version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: Schema


def _references(items: Iterable[Any]) -> Iterable[SchemaReference]:
    for item in items:
        yield SchemaReference(_text(item["name"]), _text(item["subject"]), int(item["version"]))


def _text(value: Any) -> str:
    """Return a value of an answer that has to be text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
