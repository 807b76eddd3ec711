"""The layout of a key or a value as columns: of a single value, of DDL, of an Avro or a protobuf schema.

A layout knows the type of the whole, and of each member where the whole is a struct; so members can be
chosen of a schema that has no columns as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import types as spark

from odradek.serdes import protobuf_files
from odradek.serdes.errors import RegistryError, SchemaError
from odradek.serdes.resolved_schemas import ResolvedSchema
from odradek.spark.formats import avro_schema, protobuf_schema
from odradek.spark.formats.ddl import parse_ddl
from odradek.spark.formats.options import SCALARS, SideOptions
from odradek.spark.formats.registry import schemas_of


class Layout(Protocol):
    """The types in a key or a value.

    Raises:
        SchemaError: by every method, for what has no column.
    """

    def whole(self) -> Any: ...

    def members(self) -> list[str] | None:
        """The names of a struct's members; None for a single value."""
        ...

    def member(self, name: str) -> Any: ...


@dataclass(frozen=True)
class Typed:
    """A type of Spark's, as it is."""

    type: Any

    def whole(self) -> Any:
        return self.type

    def members(self) -> list[str] | None:
        return list(self.type.fieldNames()) if isinstance(self.type, spark.StructType) else None

    def member(self, name: str) -> Any:
        return self.type[name].dataType


@dataclass(frozen=True)
class AvroLayout:
    """A reader's Avro schema."""

    text: str
    references: tuple[str, ...] = ()

    def schema(self) -> avro_schema.AvroType:
        return avro_schema.parse_schema(self.text, self.references)

    def whole(self) -> Any:
        return avro_schema.spark_type(self.schema())

    def members(self) -> list[str] | None:
        record = self._record()
        return None if record is None else [field.name for field in record.fields]

    def member(self, name: str) -> Any:
        record = self._record()
        assert record is not None
        return next(avro_schema.spark_type(field.type) for field in record.fields if field.name == name)

    def _record(self) -> avro_schema.AvroType | None:
        schema = self.schema()
        if schema.type == "union" and len(avro_schema.union_members(schema)) == 1:
            schema = avro_schema.union_members(schema)[0]
        return schema if schema.type == "record" else None


@dataclass(frozen=True)
class ProtobufLayout:
    """A protobuf message type: the files that describe it, and its full name."""

    files: tuple[bytes, ...]
    name: str

    def descriptor(self) -> Any:
        return protobuf_files.Messages(self.files).named(self.name)

    def whole(self) -> Any:
        return protobuf_schema.spark_type(self.descriptor())

    def members(self) -> list[str] | None:
        return [field.name for field in self.descriptor().fields]

    def member(self, name: str) -> Any:
        return protobuf_schema.field_type(self.descriptor().fields_by_name[name])


def layout_of(options: SideOptions, topics: tuple[str, ...]) -> Layout:
    """The layout that the options ask for.

    Raises:
        ValueError: an option cannot be used; names it.
        RegistryError: the registry cannot be asked.
    """
    side = options.side
    if options.format in SCALARS:
        return Typed(parse_ddl(SCALARS[options.format]))
    if options.format == "json":
        return Typed(_json_type(options))
    if options.format == "protobuf":
        protobuf_schema.require_protobuf()
    if options.schema or options.descriptors:
        return _given(options)
    if options.registry is None:
        schema_form = {"avro": "the schema as JSON", "protobuf": "the path of a descriptor file"}[
            options.format
        ]
        raise ValueError(
            f"{side}.format '{options.format}' needs {side}.schema ({schema_form}) or "
            f"{side}.schema.registry.url"
        )
    return _registered(options, topics)


def older_layouts(options: SideOptions, topics: tuple[str, ...]) -> list[Layout]:
    """The layouts of all versions of the subject that have one, the newest first; none where one was named.

    A table that was made before the newest version was registered keeps its columns.
    """
    if options.registry is None or options.schema or options.descriptors or options.version != "latest":
        return []
    schemas, subject = schemas_of(options.registry), subject_of(options, topics)
    layouts: list[Layout] = []
    for version in sorted(schemas.client.get_versions(subject), reverse=True):
        try:
            registered = schemas.version(subject, version, serialized=options.format == "protobuf")
            layouts.append(_layout_of(options, registered))
        except (SchemaError, RegistryError):
            continue
    return layouts


def subject_of(options: SideOptions, topics: tuple[str, ...]) -> str:
    """The subject under which the schemas of these topics are registered (Confluent's TopicNameStrategy)."""
    if options.subject:
        return options.subject
    if len(topics) != 1:
        raise ValueError(
            f"{options.side}.schema.subject must say under which subject of the registry the schema is, "
            "since the topics are not one. Or give the schema as "
            f"{options.side}.schema"
        )
    return f"{topics[0]}-{options.side}"


def _json_type(options: SideOptions) -> Any:
    side = options.side
    if not options.schema:
        raise ValueError(
            f"{side}.format 'json' needs {side}.schema: the columns, as in 'id BIGINT, name STRING'"
        )
    try:
        data_type = parse_ddl(options.schema)
    except SchemaError as problem:
        raise ValueError(f"{side}.schema: {problem}") from None
    _check_json(data_type, side)
    return data_type


def _check_json(data_type: Any, side: str) -> None:
    if isinstance(data_type, spark.MapType) and not isinstance(data_type.keyType, spark.StringType):
        raise ValueError(f"{side}.schema: the keys of a JSON object are strings; say map<string, …>")
    if isinstance(data_type, spark.StructType):
        for field in data_type.fields:
            _check_json(field.dataType, side)
    elif isinstance(data_type, spark.ArrayType):
        _check_json(data_type.elementType, side)
    elif isinstance(data_type, spark.MapType):
        _check_json(data_type.valueType, side)


def _given(options: SideOptions) -> Layout:
    """Return the layout that `….schema` gives."""
    side = options.side
    try:
        if options.format == "protobuf":
            if not options.message:
                raise ValueError(
                    f"{side}.schema.message must name the message type in the descriptor file {side}.schema"
                )
            files = tuple(protobuf_files.files_of_set(options.descriptors))
            return ProtobufLayout(files, protobuf_files.Messages(files).named(options.message).full_name)
        if _is_avro(options.schema):
            avro_schema.parse_schema(options.schema)
            return AvroLayout(options.schema)
        layout = Typed(parse_ddl(options.schema))
    except SchemaError as problem:
        raise ValueError(f"{side}.schema: {problem}") from None
    if options.registry is None:
        raise ValueError(
            f"{side}.schema is DDL; records of {side}.format 'avro' can only be read with the schema "
            f"that they were written by. Give that, as JSON, or {side}.schema.registry.url"
        )
    return layout


def _is_avro(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[", '"') or text.strip() in avro_schema.PRIMITIVES


def _registered(options: SideOptions, topics: tuple[str, ...]) -> Layout:
    assert options.registry is not None
    subject = subject_of(options, topics)
    registered = schemas_of(options.registry).version(
        subject, options.version, serialized=options.format == "protobuf"
    )
    try:
        return _layout_of(options, registered)
    except SchemaError as problem:
        raise ValueError(
            f"{options.side}: version {registered.version} of the subject '{subject}': {problem}"
        ) from None


def _layout_of(options: SideOptions, registered: ResolvedSchema) -> Layout:
    if registered.schema_type.lower() != options.format:
        raise SchemaError(
            f"it is of type {registered.schema_type}, and {options.side}.format is '{options.format}'"
        )
    if options.format == "avro":
        return AvroLayout(registered.text, tuple(text for _, text in registered.references))
    files = protobuf_files.file_of_registry(
        registered.text, f"{registered.schema_id}.proto", registered.references
    )
    messages = protobuf_files.Messages(files)
    message = messages.named(options.message) if options.message else messages.at([0])[0]
    return ProtobufLayout(tuple(files), message.full_name)
