"""The schema languages that there are, and the schemas that were understood lately. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from odradek.schema_registry.avro_schema import parse_avro
from odradek.schema_registry.errors import InvalidSchemaError
from odradek.schema_registry.json_schema import parse_json_schema
from odradek.schema_registry.parsed_schema import ParsedSchema
from odradek.schema_registry.protobuf_schema import parse_protobuf
from odradek.schema_registry.schema import AVRO, JSON, PROTOBUF, Schema
from odradek.schema_registry.subjects import Subjects

_LANGUAGES: dict[str, Callable[[str, Sequence[tuple[str, str]]], ParsedSchema]] = {
    AVRO: parse_avro,
    PROTOBUF: parse_protobuf,
    JSON: parse_json_schema,
}
_MOST_REFERENCES = 1000
_MOST_DEEP = 100


class Languages:
    """Understands schemas.

    Args:
        subjects: where references are found.
        keep: so many schemas are kept as they were understood.
    """

    def __init__(self, subjects: Subjects, keep: int = 1000) -> None:
        self._subjects = subjects
        self._keep = keep
        self._kept: OrderedDict[tuple[int, Schema], ParsedSchema] = OrderedDict()

    def parse(self, schema: Schema) -> ParsedSchema:
        """Return what a schema says.

        Raises:
            InvalidSchemaError: it is none, or refers to what there is not.
        """
        # A version that was removed for good may be another schema when it is there again.
        key = (self._subjects.removals, schema)
        parsed = self._kept.pop(key, None)
        if parsed is None:
            parsed = _LANGUAGES[schema.schema_type](schema.text, self._resolved(schema))
        self._kept[key] = parsed
        if len(self._kept) > self._keep:
            self._kept.popitem(last=False)
        return parsed

    def _resolved(self, schema: Schema) -> list[tuple[str, str]]:
        """Return (name, text) of what a schema uses, those first that others use."""
        resolved: dict[str, str] = {}
        self._resolve(schema, resolved, 0)
        return list(resolved.items())

    def _resolve(self, schema: Schema, resolved: dict[str, str], depth: int) -> None:
        if depth > _MOST_DEEP:
            raise InvalidSchemaError(f"references are nested more than {_MOST_DEEP} deep")
        for reference in schema.references:
            if reference.name in resolved:
                continue
            version = self._subjects.version(reference.subject, reference.version)
            if version is None or version.is_deleted:
                raise InvalidSchemaError(
                    f'No schema reference found for subject "{reference.subject}" and version '
                    f"{reference.version}"
                )
            self._resolve(version.schema, resolved, depth + 1)
            resolved[reference.name] = version.schema.text
            if len(resolved) > _MOST_REFERENCES:
                raise InvalidSchemaError(f"more than {_MOST_REFERENCES} references")
