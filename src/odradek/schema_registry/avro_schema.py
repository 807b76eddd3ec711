"""Avro's schemas: understood by `fastavro`, and written as the Java library of Avro writes them.

That one is what Confluent's registry keeps: no blanks, attributes in a fixed order, names without the
namespace that they are in anyway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.schema_registry.avro_compatibility import AvroTypes, avro_differences
from odradek.schema_registry.errors import InvalidSchemaError
from odradek.schema_registry.parsed_schema import Difference, ParsedSchema
from odradek.util.extras import install
from odradek.util.json_text import compact, load_json

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = frozenset(("record", "error", "enum", "fixed"))
#: The attributes of a type that have a place of their own; all others are properties.
_ATTRIBUTES = {
    "record": ("name", "namespace", "doc", "fields", "aliases"),
    "error": ("name", "namespace", "doc", "fields", "aliases"),
    "enum": ("name", "namespace", "doc", "symbols", "default", "aliases"),
    "fixed": ("name", "namespace", "doc", "size", "aliases"),
    "array": ("items",),
    "map": ("values",),
}
_OPTIONAL = ("doc", "default")
_OF_FIELDS = ("name", "type", "doc", "default", "order", "aliases")


class AvroSchema:
    """A schema of Avro's.

    Attributes:
        text: without blanks, in Avro's order.
        types: its root, and what its names stand for.
    """

    def __init__(self, text: str, normalized: str, types: AvroTypes) -> None:
        self.text = text
        self.types = types
        self._normalized = normalized

    @property
    def identity(self) -> str:
        """See `ParsedSchema.identity`."""
        return self.text

    def normalized(self) -> str:
        """See `ParsedSchema.normalized`: properties are sorted by name."""
        return self._normalized

    def formatted(self, format_name: str) -> str:  # noqa: ARG002
        """See `ParsedSchema.formatted`: there are no others."""
        return self.text

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        """See `ParsedSchema.differences`."""
        assert isinstance(writer, AvroSchema)
        return avro_differences(self.types, writer.types)


def parse_avro(text: str, references: Sequence[tuple[str, str]]) -> AvroSchema:
    """Return the schema of a text.

    Args:
        references: (name, schema) of what it uses, those first that others use.

    Raises:
        InvalidSchemaError: it is none, or the package that reads it is missing.
    """
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ImportError:
        raise InvalidSchemaError(f"Avro's schemas need the package fastavro: {install('registry')}") from None
    named: dict[str, Any] = {}
    try:
        for _, referenced in references:
            parse_schema(load_json(referenced), named, _write_hint=False)
        tree = load_json(text)
        written = _written(tree, "", is_sorted=False)
        # The library does not know {"type": {"type": …}}.
        root = parse_schema(written, named, _write_hint=False)
        normalized = compact(_written(tree, "", is_sorted=True))
        return AvroSchema(compact(written), normalized, AvroTypes(root, named))
    except UnknownType as problem:
        raise InvalidSchemaError(f"Undefined name: {problem.name}") from None
    except KeyError as problem:
        raise InvalidSchemaError(f"a type lacks the attribute {problem}") from None
    except (SchemaParseException, ValueError, TypeError, AttributeError) as problem:
        # The library says some things by the failures of its own code.
        raise InvalidSchemaError(f"not a schema of Avro's: {problem}") from None
    except RecursionError:
        raise InvalidSchemaError("nested too deep") from None


def _written(schema: Any, space: str, *, is_sorted: bool) -> Any:
    """Return a schema as JSON in Avro's order.

    Args:
        space: the namespace that it is in.
    """
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else _shortest(*_name(schema, None, space), space)
    if isinstance(schema, list):
        return [_written(branch, space, is_sorted=is_sorted) for branch in schema]
    kind = schema["type"]
    if not isinstance(kind, str):
        return _written(kind, space, is_sorted=is_sorted)
    attributes = _ATTRIBUTES.get(kind, ())
    properties = _properties(schema, ("type", *attributes), is_sorted)
    if not attributes:
        name = _written(kind, space, is_sorted=is_sorted)
        return {"type": name, **properties} if properties and kind in PRIMITIVES else name
    written: dict[str, Any] = {"type": kind}
    inside = space
    if kind in _NAMED:
        inside, written["name"] = _name(schema["name"], schema.get("namespace"), space)
        if inside != space:
            written["namespace"] = inside
    for attribute in attributes:
        if attribute in ("name", "namespace", "aliases") or (
            attribute in _OPTIONAL and attribute not in schema
        ):
            continue
        value = schema[attribute]
        if attribute == "fields":
            value = [_field(field, inside, is_sorted=is_sorted) for field in value]
        elif attribute in ("items", "values"):
            value = _written(value, space, is_sorted=is_sorted)
        written[attribute] = value
    written |= properties
    if schema.get("aliases"):
        written["aliases"] = schema["aliases"]
    return written


def _field(field: Mapping[str, Any], space: str, *, is_sorted: bool) -> dict[str, Any]:
    written = {"name": field["name"], "type": _written(field["type"], space, is_sorted=is_sorted)}
    for attribute in ("doc", "default", "order", "aliases"):
        # Ascending is the order of fields that say nothing.
        if attribute in field and field[attribute] != {"order": "ascending", "aliases": []}.get(
            attribute, _NONE
        ):
            written[attribute] = field[attribute]
    return written | _properties(field, _OF_FIELDS, is_sorted)


_NONE = object()


def _properties(schema: Mapping[str, Any], attributes: Sequence[str], is_sorted: bool) -> dict[str, Any]:
    names = [name for name in schema if name not in attributes]
    if not is_sorted:
        return {name: schema[name] for name in names}
    return {name: json.loads(json.dumps(schema[name], sort_keys=True)) for name in sorted(names)}


def _name(name: str, namespace: str | None, space: str) -> tuple[str, str]:
    """Return (namespace, name) of a full name, or of one in a namespace."""
    within, dot, last = name.rpartition(".")
    if dot:
        return within, last
    return (space if namespace is None else namespace), name


def _shortest(within: str, name: str, space: str) -> str:
    return name if within in ("", space) else f"{within}.{name}"
