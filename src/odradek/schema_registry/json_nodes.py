"""A JSON schema as nodes of one kind each, for comparing.

A schema with several sorts of keywords (a type and `oneOf`, a type and `enum`) says that all of them hold: it
is an `allOf` of them. A list of types is an `anyOf`. A schema without `type` is of the types whose keywords
it has. So Confluent's registry understands schemas (by Everit's library). Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ALL, ANY, ONE = "allOf", "anyOf", "oneOf"
EMPTY, FALSE, COMBINED = "empty", "false", "combined"

#: Kind → the keywords by which it is known where there is no `type`.
_TELLING = {
    "array": (
        "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains",
        "unevaluatedItems",
    ),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "object": (
        "properties", "required", "minProperties", "maxProperties", "dependencies", "patternProperties",
        "additionalProperties", "propertyNames", "dependentRequired", "dependentSchemas",
        "unevaluatedProperties",
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip


class Node(NamedTuple):
    """A schema, or that part of it that has one kind.

    Attributes:
        kind: a type of JSON (`integer` is `number`), `enum`, `const`, `not`, `combined`, `empty` (allows
            everything) or `false` (nothing).
        schema: that it was made of.
        resolver: finds references from there.
        criterion: of what is combined: `allOf`, `anyOf`, `oneOf`.
        parts: what is combined.
        is_integer: whether numbers have to be whole.
        is_implied: whether no keyword says that it is combined.
    """

    kind: str
    schema: Any
    resolver: Any
    criterion: str = ""
    parts: tuple[Node, ...] = ()
    is_integer: bool = False
    is_implied: bool = False

    @property
    def key(self) -> tuple[int, str, str, bool, bool]:
        """Names the node as long as the schema lives."""
        return id(self.schema), self.kind, self.criterion, self.is_integer, self.is_implied


class NodeReader:
    """Makes nodes of schemas.

    Args:
        has_siblings: whether what stands beside a `$ref` counts.
    """

    def __init__(self, has_siblings: bool) -> None:
        self._has_siblings = has_siblings
        self._nodes: dict[int, Node] = {}
        """By `id` of the schema."""
        self._alive: list[Any] = []

    def read(self, schema: Any, resolver: Any) -> Node:
        """Return the node of a schema; of a reference, that of what it leads to."""
        if schema is False:
            return Node(FALSE, schema, resolver)
        if not isinstance(schema, dict):
            return Node(EMPTY, schema, resolver)
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = self._read(schema, resolver)
            self._alive.append(schema)
        return node

    def _read(self, schema: dict[str, Any], resolver: Any) -> Node:
        if "$id" in schema and isinstance(schema["$id"], str):
            resolver = resolver.in_subresource(_resource(schema))
        parts: list[Node] = []
        if isinstance(schema.get("$ref"), str):
            resolved = resolver.lookup(schema["$ref"])
            target = self.read(resolved.contents, resolved.resolver)
            if not self._has_siblings:
                return target
            parts.append(target)
        parts += self._parts(schema, resolver)
        if not parts:
            return Node(EMPTY, schema, resolver)
        return parts[0] if len(parts) == 1 else _implied(ALL, tuple(parts), schema, resolver)

    def _parts(self, schema: dict[str, Any], resolver: Any) -> list[Node]:
        parts = [Node(kind, schema, resolver) for kind in ("enum", "const", "not") if kind in schema]
        for criterion in (ALL, ANY, ONE):
            if criterion in schema:
                below = tuple(self.read(part, resolver) for part in schema[criterion])
                parts.append(Node(COMBINED, schema, resolver, criterion, below))
        named = schema.get("type")
        if isinstance(named, list):
            types = tuple(_of_type(name, schema, resolver) for name in named)
            parts.append(types[0] if len(types) == 1 else _implied(ANY, types, schema, resolver))
        elif isinstance(named, str):
            parts.append(_of_type(named, schema, resolver))
        else:
            parts += [
                Node(kind, schema, resolver)
                for kind, telling in _TELLING.items()
                if any(keyword in schema for keyword in telling)
            ]
        return parts


def _implied(criterion: str, parts: tuple[Node, ...], schema: Any, resolver: Any) -> Node:
    return Node(COMBINED, schema, resolver, criterion, parts, is_implied=True)


def _of_type(name: str, schema: Any, resolver: Any) -> Node:
    if name == "integer":
        return Node("number", schema, resolver, is_integer=True)
    return Node(name, schema, resolver)


def _resource(schema: Any) -> Any:
    from referencing import Resource
    from referencing.jsonschema import DRAFT7

    return Resource.from_contents(schema, default_specification=DRAFT7)
