"""Avro's schemas, understood by `fastavro`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.serdes.errors import SchemaError
from odradek.util.extras import install


def parsed_avro(text: str, references: Sequence[str] = ()) -> Any:
    """Return a schema as fastavro's readers and writers take it.

    Args:
        references: schemas whose named types it uses, those first that others use.

    Raises:
        SchemaError: it is none, or fastavro is missing.
    """
    try:
        import fastavro
    except ImportError:
        raise SchemaError(f"Avro needs the package fastavro: {install('avro')}") from None
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(_loaded(reference), named, _write_hint=False)
        parsed = fastavro.parse_schema(_loaded(text), named, _write_hint=False)
        return fastavro.parse_schema(_self_contained(parsed, named, set()) if references else parsed)
    except RecursionError:
        raise SchemaError("the Avro schema has types that are nested too deep") from None
    except Exception as problem:
        # The library says some things by the failures of its own code.
        raise SchemaError(f"not a schema of Avro's: {problem!r}") from None


def _self_contained(schema: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    """Return a schema with the definition of each name where the name comes first.

    The library keeps what it knows of names with a record alone, not with an array of records.

    Args:
        named: definitions by full names.
        defined: the names whose definition has come.
    """
    if isinstance(schema, list):
        return [_self_contained(branch, named, defined) for branch in schema]
    if isinstance(schema, str):
        if schema not in named or schema in defined:
            return schema
        return _self_contained(named[schema], named, defined)
    name = schema.get("name")
    if name is not None:
        if name in defined:
            return name
        defined.add(name)
    contained = dict(schema)
    for key in ("items", "values"):
        if key in schema:
            contained[key] = _self_contained(schema[key], named, defined)
    if "fields" in schema:
        contained["fields"] = [
            {**field, "type": _self_contained(field["type"], named, defined)} for field in schema["fields"]
        ]
    return contained


def _loaded(text: str) -> Any:
    return json.loads(text) if text.lstrip()[:1] in ("{", "[", '"') else text.strip()
