"""The differences by which one JSON schema does not take what another has let pass.

The rules are those of Confluent's registry (its class SchemaDiff).

Only what makes a difference is looked for: a change that lets the same or more documents pass is none. The
policy is the strict one: a property that is added to an open schema was allowed to be anything before.

Types may contain themselves. A pair that is being compared is taken to be compatible, and all is compared
again until no further pair turns out not to be (the greatest fixed point). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from odradek.schema_registry.json_nodes import ALL, ANY, COMBINED, EMPTY, FALSE, ONE, Node, NodeReader
from odradek.schema_registry.parsed_schema import Budget, Difference
from odradek.util.json_text import compact

_MOST_COMPARISONS = 50_000
#: Kind → (keyword, its name in differences); a document may have less.
_MOST = {
    "string": (("maxLength", "MAX_LENGTH"),),
    "number": (("maximum", "MAXIMUM"), ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM")),
    "object": (("maxProperties", "MAX_PROPERTIES"),),
    "array": (("maxItems", "MAX_ITEMS"), ("maxContains", "MAX_CONTAINS")),
}
#: The same, of what a document may have more of.
_LEAST = {
    "string": (("minLength", "MIN_LENGTH"),),
    "number": (("minimum", "MINIMUM"), ("exclusiveMinimum", "EXCLUSIVE_MINIMUM")),
    "object": (("minProperties", "MIN_PROPERTIES"),),
    "array": (("minItems", "MIN_ITEMS"), ("minContains", "MIN_CONTAINS")),
}
#: End of a difference's name → what it means; the first that fits.
_DESCRIPTIONS = (
    ("ADDED_TO_OPEN_CONTENT_MODEL", "The {reader} schema describes '{path}', which the {writer} schema "
     "lets be anything"),
    ("REMOVED_FROM_CLOSED_CONTENT_MODEL", "The {reader} schema is closed and does not have '{path}' of the "
     "{writer} schema"),
    ("NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "Only one of the {reader} and the {writer} schema has "
     "'{path}', and what the other one allows there is something else"),
    ("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", "The {reader} schema requires '{path}', which the "
     "{writer} schema does not have"),
    ("_REMOVED", "The {reader} schema does not allow what the {writer} schema allows at '{path}'"),
    ("_ADDED", "The {reader} schema has a keyword at '{path}' that the {writer} schema has not"),
    ("_INCREASED", "The value at '{path}' is greater in the {reader} schema than in the {writer} schema"),
    ("_EXPANDED", "The value at '{path}' is greater in the {reader} schema than in the {writer} schema"),
    ("_DECREASED", "The value at '{path}' is less in the {reader} schema than in the {writer} schema"),
    ("_NARROWED", "The {reader} schema allows less at '{path}' than the {writer} schema"),
    ("_EXTENDED", "The {reader} schema asks for more at '{path}' than the {writer} schema"),
    ("_CHANGED", "'{path}' differs between the {reader} schema and the {writer} schema"),
)  # fmt: skip


class JsonTypes(NamedTuple):
    """A schema, and how what it refers to is found.

    Attributes:
        has_siblings: whether what stands beside a `$ref` counts.
    """

    root: Any
    resolver: Any
    has_siblings: bool


def json_differences(reader: JsonTypes, writer: JsonTypes) -> list[Difference]:
    """Return why `reader` does not take all that `writer` lets pass; nothing if it does.

    Raises:
        IncomparableError: they are too large.
    """
    readers = NodeReader(reader.has_siblings), NodeReader(writer.has_siblings)
    budget = Budget(_MOST_COMPARISONS)
    new, old = readers[0].read(reader.root, reader.resolver), readers[1].read(writer.root, writer.resolver)
    wanting: frozenset[_Pair] = frozenset()
    while True:
        comparison = _Comparison(*readers, wanting, budget)
        differences = comparison.compare(new, old)
        again = frozenset(pair for pair, of_pair in comparison.done.items() if of_pair)
        if not comparison.has_assumed or again <= wanting:
            return [_told(kind, path) for kind, path in differences]
        wanting |= again


_Pair = tuple[Any, Any]
_Difference = tuple[str, tuple[str, ...]]
"""A difference and where, seen from the pair that was compared."""


def _told(kind: str, path: tuple[str, ...]) -> Difference:
    where = "/".join(("#", *path))
    description = next(text for end, text in _DESCRIPTIONS if kind.endswith(end))
    return Difference(kind, where, description.replace("{path}", where))


class _Comparison:
    """One pass over two schemas.

    Args:
        new, old: make nodes of the schemas.
        wanting: pairs that earlier passes have found incompatible.
    """

    def __init__(self, new: NodeReader, old: NodeReader, wanting: frozenset[_Pair], budget: Budget) -> None:
        self._new = new
        self._old = old
        self._wanting = wanting
        self._budget = budget
        self.done: dict[_Pair, list[_Difference]] = {}
        self._begun: set[_Pair] = set()
        self.has_assumed = False
        """Whether a pair was taken to be compatible while it was being compared."""
        self._rules: Mapping[str, Callable[[Node, Node], Iterator[_Difference]]] = {
            "string": self._string,
            "number": self._number,
            "object": self._object,
            "array": self._array,
            "enum": self._enum,
            "const": self._const,
            "not": self._not,
            COMBINED: self._combined,
        }

    def compare(self, new: Node, old: Node) -> list[_Difference]:
        """Return what of `old` does not pass `new`."""
        self._budget.spend()
        pair = (new.key, old.key)
        if pair in self.done:
            return self.done[pair]
        if pair in self._begun:
            if pair in self._wanting:
                return [("COMBINED_TYPE_CHANGED", ())]
            self.has_assumed = True
            return []
        self._begun.add(pair)
        differences = self.done[pair] = self._compared(new, old)
        return differences

    def _compared(self, new: Node, old: Node) -> list[_Difference]:
        if (new.kind == COMBINED) != (old.kind == COMBINED) and self._fits_a_part(new, old):
            return []
        if new.kind != old.kind:
            return [] if old.kind == FALSE or new.kind == EMPTY else [("TYPE_CHANGED", ())]
        rule = self._rules.get(new.kind)
        return [] if rule is None else list(rule(new, old))

    def _fits_a_part(self, new: Node, old: Node) -> bool:
        """Return whether what is combined on one side holds by one of its parts alone."""
        if new.kind == COMBINED:
            if len(new.parts) > 1 and new.criterion == ALL:
                return False
            return any(not self.compare(part, old) for part in new.parts)
        if len(old.parts) > 1 and old.criterion != ALL:
            return False
        return any(not self.compare(new, part) for part in old.parts)

    def _below(self, new: Any, old: Any, new_node: Node, old_node: Node, *path: str) -> Iterator[_Difference]:
        """Compare two schemas within two nodes."""
        differences = self.compare(
            self._new.read(new, new_node.resolver), self._old.read(old, old_node.resolver)
        )
        for kind, place in differences:
            yield kind, (*path, *place)

    def _covered(
        self, kind: str, new: Any, old: Any, new_node: Node, old_node: Node, path: tuple[str, ...]
    ) -> Iterator[_Difference]:
        """Compare two schemas, one of which holds for whatever has none of its own: where they differ, what
        came or went is not covered by it, which is a difference of `kind`.
        """
        differences = list(self._below(new, old, new_node, old_node, *path))
        yield from differences
        if differences:
            yield kind, path

    # Numbers and text

    def _bounds(self, new: Node, old: Node) -> Iterator[_Difference]:
        for table, change, grows in ((_MOST, "DECREASED", False), (_LEAST, "INCREASED", True)):
            for keyword, name in table.get(new.kind, ()):
                bound, before = _bound(new.schema, keyword), _bound(old.schema, keyword)
                if bound is None:
                    continue
                if before is None:
                    yield f"{name}_ADDED", (keyword,)
                elif bound != before and (bound > before) == grows:
                    yield f"{name}_{change}", (keyword,)

    def _string(self, new: Node, old: Node) -> Iterator[_Difference]:
        yield from self._bounds(new, old)
        pattern, before = new.schema.get("pattern"), old.schema.get("pattern")
        if pattern is not None and pattern != before:
            yield ("PATTERN_ADDED" if before is None else "PATTERN_CHANGED"), ("pattern",)

    def _number(self, new: Node, old: Node) -> Iterator[_Difference]:
        yield from self._bounds(new, old)
        step, before = new.schema.get("multipleOf"), old.schema.get("multipleOf")
        if step is not None:
            if before is None:
                yield "MULTIPLE_OF_ADDED", ("multipleOf",)
            elif _remainder(before, step):
                name = "MULTIPLE_OF_CHANGED" if _remainder(step, before) else "MULTIPLE_OF_EXPANDED"
                yield name, ("multipleOf",)
        if new.is_integer and not old.is_integer:
            yield "TYPE_NARROWED", ()

    @staticmethod
    def _enum(new: Node, old: Node) -> Iterator[_Difference]:
        allowed, before = ({compact(value, is_sorted=True) for value in n.schema["enum"]} for n in (new, old))
        if not before <= allowed:
            yield ("ENUM_ARRAY_NARROWED" if allowed <= before else "ENUM_ARRAY_CHANGED"), ("enum",)

    @staticmethod
    def _const(new: Node, old: Node) -> Iterator[_Difference]:
        if compact(new.schema["const"], is_sorted=True) != compact(old.schema["const"], is_sorted=True):
            yield "ENUM_ARRAY_CHANGED", ("const",)

    def _not(self, new: Node, old: Node) -> Iterator[_Difference]:
        # What must not match may only become less.
        turned = _Comparison(self._old, self._new, frozenset(), self._budget)
        inner = turned.compare(
            self._old.read(old.schema["not"], old.resolver), self._new.read(new.schema["not"], new.resolver)
        )
        if inner:
            yield "NOT_TYPE_EXTENDED", ("not",)

    # Objects

    def _object(self, new: Node, old: Node) -> Iterator[_Difference]:
        yield from self._required(new.schema, old.schema)
        yield from self._properties(new, old)
        yield from self._dependencies(new, old)
        yield from self._additional(new, old, "additionalProperties", "ADDITIONAL_PROPERTIES")
        yield from self._unevaluated(new, old, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
        yield from self._bounds(new, old)

    @staticmethod
    def _required(new: Any, old: Any) -> Iterator[_Difference]:
        properties = new.get("properties", {})
        for name in old.get("properties", {}):
            is_asked_for = name in _required_of(new) and name not in _required_of(old)
            if name in properties and is_asked_for and not _has_default(properties[name]):
                yield "REQUIRED_ATTRIBUTE_ADDED", ("required", name)

    def _properties(self, new: Node, old: Node) -> Iterator[_Difference]:
        properties, before = new.schema.get("properties", {}), old.schema.get("properties", {})
        for name in {**before, **properties}:
            path = ("properties", name)
            if name not in properties:
                yield from self._removed_property(name, before[name], new, old, path)
            elif name not in before:
                yield from self._added_property(name, properties[name], new, old, path)
            else:
                yield from self._below(properties[name], before[name], new, old, *path)

    def _removed_property(
        self, name: str, before: Any, new: Node, old: Node, path: tuple[str, ...]
    ) -> Iterator[_Difference]:
        if _is_open_object(new.schema):
            return
        covering = _covering(new.schema, name)
        if covering is None:
            if before is not False:
                yield "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path
            return
        yield from self._covered(
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", covering, before, new, old, path
        )

    def _added_property(
        self, name: str, added: Any, new: Node, old: Node, path: tuple[str, ...]
    ) -> Iterator[_Difference]:
        is_required = name in _required_of(new.schema)
        if _is_open_object(old.schema):
            if self._new.read(added, new.resolver).kind == EMPTY:
                return
            if not is_required:
                yield "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path
            elif _has_default(added):
                yield "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL", path
            else:
                yield "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path
            return
        covering = _covering(old.schema, name)
        if covering is not None:
            yield from self._covered(
                "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", added, covering, new, old, path
            )
        if is_required and not _has_default(added):
            yield "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path

    def _dependencies(self, new: Node, old: Node) -> Iterator[_Difference]:
        before = _dependencies_of(old.schema)
        for name, wanted in _dependencies_of(new.schema).items():
            path = ("dependencies", name)
            had = before.get(name)
            if not isinstance(wanted, list):
                if had is None or isinstance(had, list):
                    yield "DEPENDENCY_SCHEMA_ADDED", path
                else:
                    yield from self._below(wanted, had, new, old, *path)
            elif not isinstance(had, list):
                yield "DEPENDENCY_ARRAY_ADDED", path
            elif not set(wanted) <= set(had):
                is_more = set(had) <= set(wanted)
                yield ("DEPENDENCY_ARRAY_EXTENDED" if is_more else "DEPENDENCY_ARRAY_CHANGED"), path

    # Arrays

    def _array(self, new: Node, old: Node) -> Iterator[_Difference]:
        (all_new, each_new, _), (all_old, each_old, _) = _items(new.schema), _items(old.schema)
        if all_new is not None:
            if all_old is None:
                yield "SCHEMA_ADDED", ("items",)
            else:
                yield from self._below(all_new, all_old, new, old, "items")
        for number in range(max(len(each_new), len(each_old))):
            path = ("items", str(number))
            if number >= len(each_new):
                yield from self._removed_item(each_old[number], new, old, path)
            elif number >= len(each_old):
                yield from self._added_item(each_new[number], new, old, path)
            else:
                yield from self._below(each_new[number], each_old[number], new, old, *path)
        yield from self._additional(new, old, "additionalItems", "ADDITIONAL_ITEMS")
        yield from self._unevaluated(new, old, "unevaluatedItems", "UNEVALUATED_ITEMS")
        yield from self._bounds(new, old)
        if new.schema.get("uniqueItems") and not old.schema.get("uniqueItems"):
            yield "UNIQUE_ITEMS_ADDED", ("uniqueItems",)

    def _removed_item(
        self, before: Any, new: Node, old: Node, path: tuple[str, ...]
    ) -> Iterator[_Difference]:
        rest = _rest_of_items(new.schema)
        if rest is True:
            return
        if rest is False:
            if before is not False:
                yield "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path
            return
        yield from self._covered(
            "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", rest, before, new, old, path
        )

    def _added_item(self, added: Any, new: Node, old: Node, path: tuple[str, ...]) -> Iterator[_Difference]:
        rest = _rest_of_items(old.schema)
        if rest is True:
            if self._new.read(added, new.resolver).kind != EMPTY:
                yield "ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path
        elif rest is not False:
            yield from self._covered(
                "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", added, rest, new, old, path
            )

    # Both

    def _additional(self, new: Node, old: Node, keyword: str, name: str) -> Iterator[_Difference]:
        allowed, before = _additional_of(new.schema, keyword), _additional_of(old.schema, keyword)
        if allowed is False:
            if before is not False:
                yield f"{name}_REMOVED", (keyword,)
        elif allowed is not True and before is not False:
            if before is True:
                yield f"{name}_NARROWED", (keyword,)
            else:
                yield from self._below(allowed, before, new, old, keyword)

    def _unevaluated(self, new: Node, old: Node, keyword: str, name: str) -> Iterator[_Difference]:
        allowed, before = new.schema.get(keyword, True), old.schema.get(keyword, True)
        if allowed is False:
            if before is not False:
                yield f"{name}_REMOVED", (keyword,)
        elif self._new.read(allowed, new.resolver).kind != EMPTY and before is not False:
            if self._old.read(before, old.resolver).kind == EMPTY:
                yield f"{name}_NARROWED", (keyword,)
            else:
                yield from self._below(allowed, before, new, old, keyword)

    # What is combined

    def _combined(self, new: Node, old: Node) -> Iterator[_Difference]:
        if not _criteria_fit(new, old):
            yield "COMBINED_TYPE_CHANGED", ()
            return
        parts, before = _distinct(new.parts), _distinct(old.parts)
        if len(before) < len(parts) and new.criterion == ALL:
            yield "PRODUCT_TYPE_EXTENDED", ()
        if len(before) > len(parts) and old.criterion != ALL:
            yield "SUM_TYPE_NARROWED", ()
        readers = [
            [number for number, part in enumerate(parts) if not self.compare(part, part_before)]
            for part_before in before
        ]
        if _matched(readers) < min(len(parts), len(before)):
            yield "COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()


def _bound(schema: Any, keyword: str) -> Any:
    """Return a bound as a number; draft 4 says `exclusiveMaximum: true` of its `maximum`."""
    value = schema.get(keyword)
    plain = keyword.replace("exclusiveM", "m")
    if plain != keyword and value is True:
        return schema.get(plain)
    exclusive = f"exclusiveM{keyword[1:]}"
    if schema.get(exclusive) is True:
        return None
    return None if isinstance(value, bool) else value


def _remainder(value: Any, step: Any) -> bool:
    divisor = Decimal(str(step))
    return bool(divisor) and bool(Decimal(str(value)) % divisor)


def _required_of(schema: Any) -> Sequence[str]:
    required = schema.get("required", ())
    return required if isinstance(required, list) else ()


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _additional_of(schema: Any, keyword: str) -> Any:
    """Return what is allowed beyond what is described: True, False or a schema."""
    allowed = _items(schema)[2] if keyword == "additionalItems" else schema.get(keyword, True)
    return True if allowed == {} else allowed


def _is_open_object(schema: Any) -> bool:
    """Return whether properties that are not described may be anything."""
    return (
        _additional_of(schema, "additionalProperties") is True
        and not schema.get("patternProperties")
        and schema.get("unevaluatedProperties", True) in (True, {})
    )


def _covering(schema: Any, name: str) -> Any:
    """Return the schema of a property that is not described; None where it may not be."""
    for pattern, covering in schema.get("patternProperties", {}).items():
        try:
            if re.search(pattern, name):
                return covering
        except re.error:
            # A pattern of ECMAScript's that Python has not: it covers nothing that we know of.
            continue
    allowed = _additional_of(schema, "additionalProperties")
    if allowed is True and "unevaluatedProperties" in schema:
        allowed = schema["unevaluatedProperties"]
    return None if isinstance(allowed, bool) else allowed


def _dependencies_of(schema: Any) -> dict[str, Any]:
    return {
        **schema.get("dependencies", {}),
        **schema.get("dependentSchemas", {}),
        **schema.get("dependentRequired", {}),
    }


def _items(schema: Any) -> tuple[Any, Sequence[Any], Any]:
    """Return (the schema of all items or None, those of the first ones, what the rest may be)."""
    if "prefixItems" in schema:
        return None, schema["prefixItems"], schema.get("items", True)
    items = schema.get("items")
    if isinstance(items, list):
        return None, items, schema.get("additionalItems", True)
    # It means nothing beside one schema for all; Confluent's registry compares it all the same.
    return items, (), schema.get("additionalItems", True)


def _rest_of_items(schema: Any) -> Any:
    """Return what items that are not described may be: True, False or a schema."""
    rest = _additional_of(schema, "additionalItems")
    return schema.get("unevaluatedItems", True) if rest is True else rest


def _distinct(parts: Sequence[Node]) -> list[Node]:
    """Return the parts without those that say the same."""
    return list(
        {(part.kind, part.is_integer, compact(part.schema, is_sorted=True)): part for part in parts}.values()
    )


def _criteria_fit(new: Node, old: Node) -> bool:
    is_single, was_single = len(new.parts) == 1, len(old.parts) == 1
    return (
        new.criterion in (old.criterion, ANY)
        or (is_single and was_single)
        or (was_single and new.criterion == ONE)
        or (is_single and old.criterion == ALL)
    )


def _matched(readers: Sequence[Sequence[int]]) -> int:
    """Return how many can have a reader of their own at most (Kuhn's algorithm).

    Args:
        readers: for each, the numbers of those that read it.
    """
    taken: dict[int, int] = {}

    def find(part: int, seen: set[int]) -> bool:
        for reader in readers[part]:
            if reader in seen:
                continue
            seen.add(reader)
            if reader not in taken or find(taken[reader], seen):
                taken[reader] = part
                return True
        return False

    return sum(find(part, set()) for part in range(len(readers)))
