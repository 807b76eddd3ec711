"""The registries that this process has asked, each with the schemas that it has answered with.

Schemas never change under their id, so what was fetched is kept for as long as the process lives; the newest
version of a subject is asked for every time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from odradek.serdes.registry_config import RegistryConfig

if TYPE_CHECKING:
    from odradek.serdes.resolved_schemas import ResolvedSchemas

_by_config: dict[tuple[int, RegistryConfig], ResolvedSchemas] = {}
"""By process, and by who asks whom: what one login was shown is not shown to another."""


def schemas_of(config: RegistryConfig) -> ResolvedSchemas:
    """Return the schemas of a registry.

    Raises:
        UnknownSchemaError: by its methods, for what the registry does not have.
        RegistryError: by its methods, when the registry cannot be asked.
    """
    key = (os.getpid(), config)
    if key not in _by_config:
        from odradek.serdes.resolved_schemas import ResolvedSchemas
        from odradek.serdes.schema_registry_client import SchemaRegistryClient

        _by_config[key] = ResolvedSchemas(SchemaRegistryClient(config))
    return _by_config[key]
