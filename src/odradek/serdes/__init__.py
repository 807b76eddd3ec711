"""The client of schema registries, and how it brings what is needed to read and write records.

`SchemaRegistryClient` asks; `rest_service` is how. `resolved_schemas` brings a schema with those that it
uses. `wire_format` is what stands before each record. The Spark pipeline asks registries by the same client,
and knows the same wire format. `docs/serdes.md` is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_EXPORTS = {
    "RegisteredSchema": "odradek.serdes.schemas",
    "RegistryError": "odradek.serdes.errors",
    "Schema": "odradek.serdes.schemas",
    "SchemaError": "odradek.serdes.errors",
    "SchemaReference": "odradek.serdes.schemas",
    "SchemaRegistryClient": "odradek.serdes.schema_registry_client",
    "UnknownSchemaError": "odradek.serdes.errors",
}

__all__ = sorted(_EXPORTS)

if TYPE_CHECKING:
    from odradek.serdes.errors import RegistryError as RegistryError
    from odradek.serdes.errors import SchemaError as SchemaError
    from odradek.serdes.errors import UnknownSchemaError as UnknownSchemaError
    from odradek.serdes.schema_registry_client import SchemaRegistryClient as SchemaRegistryClient
    from odradek.serdes.schemas import RegisteredSchema as RegisteredSchema
    from odradek.serdes.schemas import Schema as Schema
    from odradek.serdes.schemas import SchemaReference as SchemaReference


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
