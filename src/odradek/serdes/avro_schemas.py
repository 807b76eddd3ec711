"""Avro's schemas, understood by `fastavro`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from odradek.serdes.errors import SchemaError
from odradek.util.extras import install


def parsed_avro(text: str, references: Iterable[str] = ()) -> Any:
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
            fastavro.parse_schema(_loaded(reference), named_schemas=named)
        return fastavro.parse_schema(_loaded(text), named_schemas=named)
    except RecursionError:
        raise SchemaError("the Avro schema has types that are nested too deep") from None
    except Exception as problem:
        # The library says some things by the failures of its own code.
        raise SchemaError(f"not a schema of Avro's: {problem!r}") from None


def _loaded(text: str) -> Any:
    return json.loads(text) if text.lstrip()[:1] in ("{", "[", '"') else text.strip()
