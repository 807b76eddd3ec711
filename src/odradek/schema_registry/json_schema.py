"""JSON Schema: understood by `jsonschema` and `referencing`, drafts 3 to 2020-12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.schema_registry.errors import InvalidSchemaError
from odradek.schema_registry.json_compatibility import JsonTypes, json_differences
from odradek.schema_registry.json_documents import resource_of, resources_of, validator_class
from odradek.schema_registry.parsed_schema import Difference, IncomparableError, ParsedSchema
from odradek.util.extras import install
from odradek.util.json_text import compact, load_json

#: From this draft on, what stands beside a `$ref` counts too.
_FIRST_WITH_SIBLINGS = "2019-09"


class JsonSchema:
    """A JSON schema.

    Attributes:
        text: without blanks.
        types: its root, and how its references are found.
    """

    def __init__(self, tree: Any, types: JsonTypes) -> None:
        self.text = compact(tree)
        self.types = types
        self._tree = tree

    @property
    def identity(self) -> str:
        """See `ParsedSchema.identity`."""
        return self.text

    def normalized(self) -> str:
        """See `ParsedSchema.normalized`: names are sorted."""
        return compact(self._tree, is_sorted=True)

    def formatted(self, format_name: str) -> str:  # noqa: ARG002
        """See `ParsedSchema.formatted`: there are no others."""
        return self.text

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        """See `ParsedSchema.differences`."""
        assert isinstance(writer, JsonSchema)
        try:
            return json_differences(self.types, writer.types)
        except (IncomparableError, RecursionError):
            raise
        except Exception as problem:
            # A keyword that a schema's draft does not know may have any value, and was not checked.
            raise IncomparableError(f"a keyword has a value that it cannot have ({problem!r})") from None


def parse_json_schema(text: str, references: Sequence[tuple[str, str]]) -> JsonSchema:
    """Return the schema of a text.

    Args:
        references: (name, schema) of what it uses.

    Raises:
        InvalidSchemaError: it is none, or the package that reads it is missing.
    """
    try:
        import jsonschema
        from referencing import Registry
    except ImportError:
        raise InvalidSchemaError(f"JSON Schema needs the package jsonschema: {install('registry')}") from None
    try:
        tree = load_json(text)
        if not isinstance(tree, dict | bool):
            raise ValueError("it is neither an object nor true or false")
        if isinstance(tree, dict) and not isinstance(tree.get("$schema", ""), str):
            raise ValueError("$schema is no text")
        validator_class(tree).check_schema(tree)
        resources = resources_of(references)
        root = resource_of(tree)
        registry = Registry().with_resources([("", root), *resources])
        resolver = registry.resolver_with_root(root)
        for resource in [root, *(resource for _, resource in resources)]:
            _look_up_all(resource, registry.resolver_with_root(resource))
        draft = tree.get("$schema", "") if isinstance(tree, dict) else ""
        has_siblings = _draft_of(draft) >= _FIRST_WITH_SIBLINGS
        return JsonSchema(tree, JsonTypes(tree, resolver, has_siblings))
    except jsonschema.SchemaError as problem:
        raise InvalidSchemaError(f"{problem.json_path}: {problem.message}") from None
    except InvalidSchemaError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError) as problem:
        # The libraries say some things by the failures of their own code.
        raise InvalidSchemaError(f"not a JSON schema: {problem}") from None
    except RecursionError:
        raise InvalidSchemaError("nested too deep") from None


def _draft_of(identifier: str) -> str:
    """Return `2020-12` of `https://json-schema.org/draft/2020-12/schema`; nothing of the older ones."""
    return identifier.partition("/draft/")[2].partition("/")[0]


def _look_up_all(resource: Any, resolver: Any) -> None:
    """Look up each `$ref`.

    Raises:
        InvalidSchemaError: one leads nowhere.
    """
    from referencing.exceptions import Unresolvable

    contents = resource.contents
    if isinstance(contents, dict) and isinstance(contents.get("$ref"), str):
        try:
            resolver.lookup(contents["$ref"])
        except Unresolvable as problem:
            raise InvalidSchemaError(
                f"the $ref '{problem.ref}' leads to nothing in the schema and its references"
            ) from None
    for below in resource.subresources():
        _look_up_all(below, resolver.in_subresource(below))
