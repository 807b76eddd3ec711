"""JSON schemas as `jsonschema` and `referencing` take them: a schema that names no draft is one of draft 7.

Nothing is fetched: what a schema refers to is in it, or in its references.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.util.json_text import load_json


def validator_class(tree: Any) -> Any:
    """Return the class of jsonschema's for the draft of a schema."""
    import jsonschema

    return jsonschema.validators.validator_for(tree, default=jsonschema.Draft7Validator)


def resource_of(tree: Any) -> Any:
    """Return a schema as a resource of referencing's.

    Raises:
        ValueError: its draft is none that is known.
    """
    from referencing import Resource
    from referencing.jsonschema import DRAFT7, UnknownDialect

    try:
        return Resource.from_contents(tree, default_specification=DRAFT7)
    except UnknownDialect as problem:
        raise ValueError(f"the $schema '{problem.uri}' is none that is known") from None


def resources_of(references: Iterable[tuple[str, str]]) -> list[tuple[str, Any]]:
    """Return (name, resource) of schemas that others use.

    Args:
        references: (name, schema).

    Raises:
        ValueError: one is no JSON, or of no draft that is known.
    """
    return [(name, resource_of(load_json(text))) for name, text in references]
