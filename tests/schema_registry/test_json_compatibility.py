"""JSON Schema: whether a schema takes all that an earlier one has let pass; the changes, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from odradek.schema_registry import json_compatibility
from odradek.schema_registry.json_schema import parse_json_schema
from odradek.schema_registry.parsed_schema import IncomparableError

S, I, N, NULL = ({"type": name} for name in ("string", "integer", "number", "null"))  # noqa: E741
LATEST = "https://json-schema.org/draft/2020-12/schema"


def found(new: Any, old: Any, references: list[tuple[str, str]] | None = None) -> list[tuple[str, str]]:
    parsed = [parse_json_schema(json.dumps(schema), references or []) for schema in (new, old)]
    return [(difference.error_type, difference.path) for difference in parsed[0].differences(parsed[1])]


def obj(properties: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", **({"properties": properties} if properties else {}), **more}


def closed(properties: Any = None, **more: Any) -> dict[str, Any]:
    return obj(properties, additionalProperties=False, **more)


def partly(covering: Any, properties: Any = None, **more: Any) -> dict[str, Any]:
    return obj(properties, additionalProperties=covering, **more)


def arr(**more: Any) -> dict[str, Any]:
    return {"type": "array", **more}


def tree(leaf: Any) -> dict[str, Any]:
    node = obj({"v": leaf, "next": {"oneOf": [NULL, {"$ref": "#/definitions/n"}]}})
    return {"definitions": {"n": node}, "$ref": "#/definitions/n"}


D = {"default": "x"}
#: (what changes, new, old, differences of the new one reading the old one's).
CASES: list[tuple[str, Any, Any, list[tuple[str, str]]]] = [
    ("nothing", S, S, []),
    ("title, description, default", {**S, "title": "t", "description": "d", "default": ""}, S, []),
    ("the type", S, I, [("TYPE_CHANGED", "#")]),
    ("integer to number", N, I, []),
    ("number to integer", I, N, [("TYPE_NARROWED", "#")]),
    ("anything to a type", S, {}, [("TYPE_CHANGED", "#")]),
    ("a type to anything", {}, S, []),
    ("a type to true", True, S, []),
    ("nothing to a type", S, False, []),
    ("a type to nothing", False, S, [("TYPE_CHANGED", "#")]),
    ("a further type", {"type": ["string", "null"]}, S, []),
    ("a type less", S, {"type": ["string", "null"]}, [("TYPE_CHANGED", "#")]),
    # Text.
    ("maxLength added", {**S, "maxLength": 5}, S, [("MAX_LENGTH_ADDED", "#/maxLength")]),
    ("maxLength removed", S, {**S, "maxLength": 5}, []),
    ("maxLength increased", {**S, "maxLength": 6}, {**S, "maxLength": 5}, []),
    ("maxLength decreased", {**S, "maxLength": 4}, {**S, "maxLength": 5},
     [("MAX_LENGTH_DECREASED", "#/maxLength")]),
    ("minLength added", {**S, "minLength": 1}, S, [("MIN_LENGTH_ADDED", "#/minLength")]),
    ("minLength increased", {**S, "minLength": 2}, {**S, "minLength": 1},
     [("MIN_LENGTH_INCREASED", "#/minLength")]),
    ("minLength decreased", {**S, "minLength": 1}, {**S, "minLength": 2}, []),
    ("pattern added", {**S, "pattern": "a"}, S, [("PATTERN_ADDED", "#/pattern")]),
    ("pattern changed", {**S, "pattern": "a"}, {**S, "pattern": "b"}, [("PATTERN_CHANGED", "#/pattern")]),
    ("pattern removed", S, {**S, "pattern": "b"}, []),
    # Numbers.
    ("maximum added", {**N, "maximum": 5}, N, [("MAXIMUM_ADDED", "#/maximum")]),
    ("maximum decreased", {**N, "maximum": 4}, {**N, "maximum": 5}, [("MAXIMUM_DECREASED", "#/maximum")]),
    ("maximum increased", {**N, "maximum": 6}, {**N, "maximum": 5}, []),
    ("minimum added", {**N, "minimum": 5}, N, [("MINIMUM_ADDED", "#/minimum")]),
    ("minimum increased", {**N, "minimum": 6}, {**N, "minimum": 5}, [("MINIMUM_INCREASED", "#/minimum")]),
    ("exclusiveMaximum added", {**N, "exclusiveMaximum": 5}, N,
     [("EXCLUSIVE_MAXIMUM_ADDED", "#/exclusiveMaximum")]),
    ("exclusiveMaximum decreased", {**N, "exclusiveMaximum": 4}, {**N, "exclusiveMaximum": 5},
     [("EXCLUSIVE_MAXIMUM_DECREASED", "#/exclusiveMaximum")]),
    ("exclusiveMinimum increased", {**N, "exclusiveMinimum": 6}, {**N, "exclusiveMinimum": 5},
     [("EXCLUSIVE_MINIMUM_INCREASED", "#/exclusiveMinimum")]),
    ("multipleOf added", {**N, "multipleOf": 5}, N, [("MULTIPLE_OF_ADDED", "#/multipleOf")]),
    ("multipleOf expanded", {**N, "multipleOf": 10}, {**N, "multipleOf": 5},
     [("MULTIPLE_OF_EXPANDED", "#/multipleOf")]),
    ("multipleOf reduced", {**N, "multipleOf": 5}, {**N, "multipleOf": 10}, []),
    ("multipleOf in other digits", {**N, "multipleOf": 0.50}, {**N, "multipleOf": 0.5}, []),
    ("multipleOf changed", {**N, "multipleOf": 3}, {**N, "multipleOf": 5},
     [("MULTIPLE_OF_CHANGED", "#/multipleOf")]),
    # Values.
    ("enum extended", {"enum": ["a", 1]}, {"enum": ["a"]}, []),
    ("enum narrowed", {"enum": ["a"]}, {"enum": ["a", 1]}, [("ENUM_ARRAY_NARROWED", "#/enum")]),
    ("enum changed", {"enum": ["a", "c"]}, {"enum": ["a", "b"]}, [("ENUM_ARRAY_CHANGED", "#/enum")]),
    ("true is not 1", {"enum": [True]}, {"enum": [1]}, [("ENUM_ARRAY_CHANGED", "#/enum")]),
    ("const changed", {"const": "a"}, {"const": "b"}, [("ENUM_ARRAY_CHANGED", "#/const")]),
    ("const stays", {"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}, []),
    ("not allows more", {"not": {**S, "maxLength": 2}}, {"not": {**S, "maxLength": 5}}, []),
    ("not allows less", {"not": {**S, "maxLength": 5}}, {"not": {**S, "maxLength": 2}},
     [("NOT_TYPE_EXTENDED", "#/not")]),
    # Objects.
    ("a property added to an open object", obj({"a": S, "b": S}), obj({"a": S}),
     [("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/b")]),
    ("a required one added to an open object", obj({"a": S, "b": S}, required=["b"]), obj({"a": S}),
     [("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/b")]),
    ("one with a default added to an open object", obj({"a": S, "b": {**S, **D}}, required=["b"]),
     obj({"a": S}), [("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL", "#/properties/b")]),
    ("one that may be anything added to an open object", obj({"a": S, "b": {}}), obj({"a": S}), []),
    ("a property removed from an open object", obj({"a": S}), obj({"a": S, "b": S}), []),
    ("a property added to a closed object", closed({"a": S, "b": S}), closed({"a": S}), []),
    ("a required one added to a closed object", closed({"a": S, "b": S}, required=["b"]), closed({"a": S}),
     [("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", "#/properties/b")]),
    ("one with a default added to a closed object", closed({"a": S, "b": {**S, **D}}, required=["b"]),
     closed({"a": S}), []),
    ("a property removed from a closed object", closed({"a": S}), closed({"a": S, "b": S}),
     [("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "#/properties/b")]),
    ("one that could not be removed from a closed object", closed({"a": S}),
     closed({"a": S, "b": False}), []),
    ("a property added that was covered", partly(S, {"a": S, "b": S}), partly(S, {"a": S}), []),
    ("a property added that was something else", partly(S, {"b": I}), partly(S),
     [("TYPE_CHANGED", "#/properties/b"),
      ("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/properties/b")]),
    ("a property removed that is covered", partly(S), partly(S, {"b": S}), []),
    ("a property removed that is something else", partly(S), partly(S, {"b": I}),
     [("TYPE_CHANGED", "#/properties/b"),
      ("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/properties/b")]),
    ("a property removed that a pattern covers", closed(patternProperties={"^b": S}),
     closed({"b": S}, patternProperties={"^b": S}), []),
    ("a property is required", closed({"a": S}, required=["a"]), closed({"a": S}),
     [("REQUIRED_ATTRIBUTE_ADDED", "#/required/a")]),
    ("a property with a default is required", closed({"a": {**S, **D}}, required=["a"]),
     closed({"a": {**S, **D}}), []),
    ("a property is required no more", closed({"a": S}), closed({"a": S}, required=["a"]), []),
    ("a property's type", closed({"a": I}), closed({"a": S}), [("TYPE_CHANGED", "#/properties/a")]),
    ("an object is closed", closed({"a": S}), obj({"a": S}),
     [("ADDITIONAL_PROPERTIES_REMOVED", "#/additionalProperties")]),
    ("an object is opened", obj({"a": S}), closed({"a": S}), []),
    ("an object is narrowed", partly(S), obj(),
     [("ADDITIONAL_PROPERTIES_NARROWED", "#/additionalProperties")]),
    ("an object is extended", obj(), partly(S), []),
    ("further properties change", partly(I), partly(S), [("TYPE_CHANGED", "#/additionalProperties")]),
    ("maxProperties added", obj(maxProperties=1), obj(), [("MAX_PROPERTIES_ADDED", "#/maxProperties")]),
    ("minProperties increased", obj(minProperties=2), obj(minProperties=1),
     [("MIN_PROPERTIES_INCREASED", "#/minProperties")]),
    ("a dependency added", obj(dependencies={"a": ["b"]}), obj(),
     [("DEPENDENCY_ARRAY_ADDED", "#/dependencies/a")]),
    ("a dependency extended", obj(dependencies={"a": ["b", "c"]}), obj(dependencies={"a": ["b"]}),
     [("DEPENDENCY_ARRAY_EXTENDED", "#/dependencies/a")]),
    ("a dependency narrowed", obj(dependencies={"a": ["b"]}), obj(dependencies={"a": ["b", "c"]}), []),
    ("a dependency changed", obj(dependencies={"a": ["b"]}), obj(dependencies={"a": ["c"]}),
     [("DEPENDENCY_ARRAY_CHANGED", "#/dependencies/a")]),
    ("a dependency removed", obj(), obj(dependencies={"a": ["c"]}), []),
    ("a schema that depends, added", obj(dependencies={"a": S}), obj(),
     [("DEPENDENCY_SCHEMA_ADDED", "#/dependencies/a")]),
    ("a schema that depends, changed", obj(dependencies={"a": S}), obj(dependencies={"a": I}),
     [("TYPE_CHANGED", "#/dependencies/a")]),
    # Arrays.
    ("items change", arr(items=I), arr(items=S), [("TYPE_CHANGED", "#/items")]),
    ("items added", arr(items=I), arr(), [("SCHEMA_ADDED", "#/items")]),
    ("items removed", arr(), arr(items=I), []),
    ("maxItems added", arr(maxItems=2), arr(), [("MAX_ITEMS_ADDED", "#/maxItems")]),
    ("minItems increased", arr(minItems=2), arr(minItems=1), [("MIN_ITEMS_INCREASED", "#/minItems")]),
    ("uniqueItems added", arr(uniqueItems=True), arr(), [("UNIQUE_ITEMS_ADDED", "#/uniqueItems")]),
    ("uniqueItems removed", arr(), arr(uniqueItems=True), []),
    ("an item added to an open array", arr(items=[S, I]), arr(items=[S]),
     [("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", "#/items/1")]),
    ("any item added to an open array", arr(items=[S, {}]), arr(items=[S]), []),
    ("an item removed from an open array", arr(items=[S]), arr(items=[S, I]), []),
    ("an item added to a closed array", arr(items=[S, I], additionalItems=False),
     arr(items=[S], additionalItems=False), []),
    ("an item removed from a closed array", arr(items=[S], additionalItems=False),
     arr(items=[S, I], additionalItems=False), [("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", "#/items/1")]),
    ("an item removed that is covered", arr(items=[S], additionalItems=I),
     arr(items=[S, I], additionalItems=I), []),
    ("an item added that was something else", arr(items=[S, S], additionalItems=I),
     arr(items=[S], additionalItems=I),
     [("TYPE_CHANGED", "#/items/1"),
      ("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "#/items/1")]),
    ("an array is closed", arr(items=[S], additionalItems=False), arr(items=[S]),
     [("ADDITIONAL_ITEMS_REMOVED", "#/additionalItems")]),
    ("an array without items is closed", arr(additionalItems=False), arr(additionalItems=True),
     [("ADDITIONAL_ITEMS_REMOVED", "#/additionalItems")]),
    ("an array is closed, in the newest draft", {"$schema": LATEST, **arr(prefixItems=[S], items=False)},
     {"$schema": LATEST, **arr(prefixItems=[S])}, [("ADDITIONAL_ITEMS_REMOVED", "#/additionalItems")]),
    # What is combined.
    ("oneOf extended", {"oneOf": [S, I]}, {"oneOf": [S]}, []),
    ("oneOf narrowed", {"oneOf": [S, I]}, {"oneOf": [S, I, NULL]}, [("SUM_TYPE_NARROWED", "#")]),
    ("oneOf in another order", {"oneOf": [I, S]}, {"oneOf": [S, I]}, []),
    ("oneOf changed", {"oneOf": [S, NULL]}, {"oneOf": [S, I]}, [("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "#")]),
    ("oneOf becomes anyOf", {"anyOf": [S, I]}, {"oneOf": [S, I]}, []),
    ("anyOf becomes oneOf", {"oneOf": [S, I]}, {"anyOf": [S, I]}, [("COMBINED_TYPE_CHANGED", "#")]),
    ("allOf extended", {"allOf": [S, {"minLength": 1}]}, {"allOf": [S]}, [("PRODUCT_TYPE_EXTENDED", "#")]),
    ("allOf narrowed", {"allOf": [S]}, {"allOf": [S, {**S, "minLength": 1}]}, []),
    ("a type becomes one of several", {"oneOf": [S, I]}, S, []),
    ("a type becomes one of others", {"oneOf": [NULL, I]}, S, [("TYPE_CHANGED", "#")]),
    ("all of several become one", S, {"allOf": [S, {**S, "minLength": 1}]}, []),
    ("a union of one", {"oneOf": [S]}, S, []),
    # References.
    ("a type that contains itself", tree(N), tree(I), []),
    ("a type that contains itself, and changes", tree(I), tree(S),
     [("TYPE_CHANGED", "#/properties/v"), ("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "#/properties/next")]),
    ("a reference instead of what it leads to", {"$ref": "#/definitions/s", "definitions": {"s": S}}, S, []),
    ("what stands beside a reference does not count", {"$ref": "#/definitions/s", "definitions": {"s": S},
     "minLength": 3}, S, []),
    ("what stands beside a reference counts in newer drafts",
     {"$schema": LATEST, "$ref": "#/$defs/s", "$defs": {"s": S}, "type": "string", "minLength": 3}, S,
     [("TYPE_CHANGED", "#")]),
    ("draft 4's exclusiveMaximum",
     {"$schema": "http://json-schema.org/draft-04/schema#", **N, "maximum": 5, "exclusiveMaximum": True},
     {"$schema": "http://json-schema.org/draft-04/schema#", **N, "maximum": 5},
     [("EXCLUSIVE_MAXIMUM_ADDED", "#/exclusiveMaximum")]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_rules(new: Any, old: Any, expected: list[tuple[str, str]]) -> None:
    assert found(new, old) == expected
    # A schema always takes what it has let pass itself.
    assert found(new, new) == []


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_each_difference_says_something(case: Any) -> None:
    new, old = (parse_json_schema(json.dumps(schema), []) for schema in case[1:3])
    for difference in new.differences(old):
        told = difference.told("new", "old")
        assert difference.path in told
        assert "{" not in difference.description.replace("{reader}", "").replace("{writer}", "")


def test_references_of_the_registry() -> None:
    name = [("s.json", json.dumps({"definitions": {"deep": S}, **I}))]
    assert found({"$ref": "s.json"}, I, name) == []
    assert found({"$ref": "s.json#/definitions/deep"}, S, name) == []
    assert found({"$ref": "s.json"}, S, name) == [("TYPE_CHANGED", "#")]


def all_of_all(count: int, leaf: Any) -> Any:
    """Definitions that each use all."""
    uses = [{"$ref": f"#/definitions/d{number}"} for number in range(count)]
    definition = closed({"leaf": leaf, "a": {"oneOf": uses}, "b": {"oneOf": uses}})
    return {"definitions": {f"d{n}": {**definition, "title": str(n)} for n in range(count)}, **uses[0]}


def test_definitions_that_use_each_other() -> None:
    assert found(all_of_all(4, N), all_of_all(4, I)) == []
    assert ("TYPE_CHANGED", "#/properties/leaf") in found(all_of_all(4, I), all_of_all(4, S))


def test_what_takes_too_many_comparisons_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_compatibility, "_MOST_COMPARISONS", 100)
    with pytest.raises(IncomparableError):
        found(all_of_all(4, N), all_of_all(4, I))
