"""Avro's schema resolution: the differences by which one schema cannot read what another has written.

They are those of the specification's chapter "Schema Resolution", with what the Java library adds
(SchemaCompatibility): names are compared without their namespaces. Where a type contains itself, a pair that
is being compared is taken to be compatible. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.schema_registry.parsed_schema import Budget, Difference

#: Reader's type → the other types of writers that it reads.
PROMOTIONS = {
    "long": frozenset(("int",)),
    "float": frozenset(("int", "long")),
    "double": frozenset(("int", "long", "float")),
    "bytes": frozenset(("string",)),
    "string": frozenset(("bytes",)),
}
_MOST_COMPARISONS = 300_000
_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": "The fixed type at path '{path}' has another size in the {reader} schema than in "
    "the {writer} schema",
    "TYPE_MISMATCH": "The type at path '{path}' in the {reader} schema cannot read that of the {writer} one",
    "NAME_MISMATCH": "The type at path '{path}' has another name in the {reader} schema than in the {writer} "
    "schema",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema lacks symbols at path '{path}' that the {writer} one has",
    "MISSING_UNION_BRANCH": "The {reader} schema lacks a branch at '{path}' for a type of the {writer} one",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field at path '{path}' of the {reader} schema has no "
    "default, and the {writer} schema does not have the field",
}


class AvroTypes(NamedTuple):
    """A schema with its names resolved.

    Attributes:
        root: as `fastavro` gives it, all names full.
        named: the types by full name.
    """

    root: Any
    named: Mapping[str, Any]


def avro_differences(reader: AvroTypes, writer: AvroTypes) -> list[Difference]:
    """Return why `reader` cannot read what `writer` has written; nothing if it can.

    Raises:
        IncomparableError: they are too large.
    """
    return _Comparison(reader.named, writer.named).compare(reader.root, writer.root, ())


class _Comparison:
    def __init__(self, readers: Mapping[str, Any], writers: Mapping[str, Any]) -> None:
        self._readers = readers
        self._writers = writers
        self._budget = Budget(_MOST_COMPARISONS)
        self._records: dict[tuple[str, str], list[Difference]] = {}
        """What was found between two records, by their names; nothing while they are being compared."""

    def compare(self, reader: Any, writer: Any, path: tuple[str, ...]) -> list[Difference]:
        self._budget.spend()
        reader, writer = _resolve(reader, self._readers), _resolve(writer, self._writers)
        kind, written = _kind(reader), _kind(writer)
        if written == "union":
            return self._each_branch(reader, writer, path)
        if kind == "union":
            if any(not self.compare(branch, writer, path) for branch in reader):
                return []
            return [_difference("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {written}")]
        if kind != written:
            if written in PROMOTIONS.get(kind, ()):
                return []
            message = f"reader type: {kind} not compatible with writer type: {written}"
            return [_difference("TYPE_MISMATCH", path, message)]
        if kind == "array":
            return self.compare(reader["items"], writer["items"], (*path, "items"))
        if kind == "map":
            return self.compare(reader["values"], writer["values"], (*path, "values"))
        named = {"record": self._record, "enum": self._enum, "fixed": self._fixed}.get(kind)
        return [] if named is None else [*_names(reader, writer, path), *named(reader, writer, path)]

    def _each_branch(self, reader: Any, writer: Any, path: tuple[str, ...]) -> list[Difference]:
        differences: list[Difference] = []
        for number, branch in enumerate(writer):
            of_branch = self.compare(reader, branch, path)
            if of_branch and _kind(reader) == "union":
                kind = _kind(_resolve(branch, self._writers))
                message = f"reader union lacking writer type: {kind}"
                of_branch = [_difference("MISSING_UNION_BRANCH", (*path, str(number)), message)]
            differences += of_branch
        return differences

    def _record(self, reader: Any, writer: Any, path: tuple[str, ...]) -> list[Difference]:
        pair = (reader["name"], writer["name"])
        known = self._records.get(pair)
        if known is not None:
            # Told whole once: a type that many use would be told more often than there is room for.
            return known[:1]
        self._records[pair] = []
        written = {field["name"]: field for field in writer["fields"]}
        differences: list[Difference] = []
        for number, field in enumerate(reader["fields"]):
            place = (*path, "fields", str(number))
            names = (field["name"], *field.get("aliases", ()))
            match = next((written[name] for name in names if name in written), None)
            if match is not None:
                differences += self.compare(field["type"], match["type"], (*place, "type"))
            elif "default" not in field:
                differences.append(_difference("READER_FIELD_MISSING_DEFAULT_VALUE", place, field["name"]))
        self._records[pair] = differences
        return differences

    @staticmethod
    def _enum(reader: Any, writer: Any, path: tuple[str, ...]) -> list[Difference]:
        missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
        if not missing or reader.get("default") in reader["symbols"]:
            return []
        return [_difference("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]")]

    @staticmethod
    def _fixed(reader: Any, writer: Any, path: tuple[str, ...]) -> list[Difference]:
        if reader["size"] == writer["size"]:
            return []
        message = f"expected: {writer['size']}, found: {reader['size']}"
        return [_difference("FIXED_SIZE_MISMATCH", (*path, "size"), message)]


def _resolve(schema: Any, named: Mapping[str, Any]) -> Any:
    while True:
        if isinstance(schema, str) and schema in named:
            schema = named[schema]
        elif isinstance(schema, dict) and not isinstance(schema["type"], str):
            schema = schema["type"]
        elif isinstance(schema, dict) and schema["type"] in named:
            schema = named[schema["type"]]
        else:
            return schema


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    kind: str = schema if isinstance(schema, str) else schema["type"]
    return "record" if kind == "error" else kind


def _names(reader: Any, writer: Any, path: tuple[str, ...]) -> list[Difference]:
    if _simple(reader["name"]) == _simple(writer["name"]):
        return []
    space = reader["name"].rpartition(".")[0]
    aliases = [
        alias if "." in alias or not space else f"{space}.{alias}" for alias in reader.get("aliases", ())
    ]
    if writer["name"] in aliases:
        return []
    return [_difference("NAME_MISMATCH", (*path, "name"), f"expected: {writer['name']}")]


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _difference(error_type: str, path: tuple[str, ...], info: str) -> Difference:
    where = "/" + "/".join(path)
    return Difference(error_type, where, _DESCRIPTIONS[error_type].replace("{path}", where), info)
