"""Keys or values decoded: binary arrays in, arrays of the columns' types and the malformed records out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from odradek.records.varint import encode_varlong
from odradek.serdes import protobuf_files
from odradek.serdes.errors import SchemaError, UnknownSchemaError
from odradek.serdes.wire_format import HEADER_SIZE, frame_of, message_indexes, schema_id_of
from odradek.spark.formats import avro_plan, avro_schema, kinds, protobuf_plan
from odradek.spark.formats.columns import TypedSide
from odradek.spark.formats.kernels import avro_kernel, json_kernel, protobuf_kernel, records_of, tree_kernel
from odradek.spark.formats.layouts import AvroLayout, ProtobufLayout
from odradek.spark.formats.options import WIDTHS
from odradek.spark.formats.registry import schemas_of
from odradek.spark.formats.tree import arrow_array, describe, paths

if TYPE_CHECKING:
    import pyarrow as pa

Found = tuple[int, int, int, int]
"""A malformed record: (row, what is wrong, bytes from its beginning, column)."""


@dataclass(frozen=True)
class Problem:
    """A malformed record: its row, and why."""

    row: int
    reason: str


class Decoder(Protocol):
    """Decodes one side of many records."""

    def decode(self, array: pa.Array) -> tuple[pa.Array, list[Problem]]:
        """The rows decoded, null where a record is malformed, and those."""
        ...


def arrow_type(data_type: Any) -> Any:
    """The Arrow type that Spark expects for a type of its own."""
    from inspect import signature

    from pyspark.sql.pandas.types import to_arrow_type

    if "timezone" in signature(to_arrow_type).parameters:
        return to_arrow_type(data_type, timezone="UTC")
    return to_arrow_type(data_type, timestamp_utc=True)  # PySpark 4.1


def make_decoder(side: TypedSide) -> Decoder:
    """The decoder of one side of a read.

    Raises:
        RegistryError: the registry cannot be asked.
        SchemaError: a schema cannot be read.
    """
    kind = side.options.format
    if kind in ("string", "uuid"):
        return _Text(side)
    if kind in WIDTHS:
        return _Fixed(side)
    if kind == "json":
        return _Json(side)
    return _Avro(side) if kind == "avro" else _Protobuf(side)


class _Filling:
    """The common part of all that fill a tree."""

    def __init__(self, side: TypedSide) -> None:
        self._side = side
        self._description = describe(side.type, side.options.unit_us)
        self._tree = tree_kernel.Tree(self._description)
        self._arrow = arrow_type(side.type)
        self._paths = paths(self._description)
        self._reasons: dict[Any, str] = {}

    def _taken(self) -> pa.Array:
        return arrow_array(self._tree.finish(), self._arrow)

    def _told(self, malformed: list[Found]) -> list[Problem]:
        return [
            Problem(row, self._reason(code, position, column)) for row, code, position, column in malformed
        ]

    def _reason(self, code: int, position: int, column: int) -> str:
        kind = self._side.options.format
        where = f"field '{self._paths[column]}', " if self._paths[column] else ""
        words = kinds.WORDS[code].format(format=kind.capitalize() if kind == "avro" else kind.upper())
        return f"{where}at byte {position}: {words}"


class _Fixed(_Filling):
    """Numbers of Kafka's serializers: their bytes, the highest first."""

    def decode(self, array: pa.Array) -> tuple[pa.Array, list[Problem]]:
        width = WIDTHS[self._side.options.format]
        malformed = tree_kernel.decode_fixed(self._tree, records_of(array), width)
        return self._taken(), [Problem(row, self._why(code, width)) for row, code, _, _ in malformed]

    def _why(self, code: int, width: int) -> str:
        kind = self._side.options.format
        if code == kinds.BAD_LENGTH:
            return f"a {kind} has {width} byte{'s' if width > 1 else ''}, and it has another length"
        return f"not a {kind}"


class _Text(_Filling):
    """Characters, as they are."""

    def decode(self, array: pa.Array) -> tuple[pa.Array, list[Problem]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        problems: list[Problem] = []
        try:
            strings = array.cast(pa.string())
        except pa.ArrowInvalid:
            bad = tree_kernel.decode_text(self._tree, records_of(array))
            problems = self._told(bad)
            strings = self._taken()
        if self._side.options.format == "uuid":
            form = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
            right = pc.match_substring_regex(strings, form)
            if pc.any(pc.invert(right)).as_py():
                rows = pc.indices_nonzero(pc.invert(right)).to_pylist()
                problems += [Problem(row, "not a UUID of 36 characters") for row in rows]
                strings = pc.if_else(right, strings, pa.nulls(len(strings), pa.string()))
        return strings, problems


class _Json(_Filling):
    def decode(self, array: pa.Array) -> tuple[pa.Array, list[Problem]]:
        framed = self._side.options.registry is not None
        malformed = json_kernel.decode_json(self._tree, records_of(array), 0, framed)
        return self._taken(), self._told(malformed)


class _ByWriter(_Filling):
    """Each record by the schema that it was written by: plans are made when a record needs them."""

    def __init__(self, side: TypedSide) -> None:
        super().__init__(side)
        self._plans: dict[Any, Any] = {}
        # Frames behind which a value stands without its length: Avro's bytes, if they are the whole.
        self._bare: set[bytes] = set()
        self._registry = schemas_of(side.options.registry) if side.options.registry is not None else None
        if self._registry is None:
            self._plans[None] = self._own_plan()

    def decode(self, array: pa.Array) -> tuple[pa.Array, list[Problem]]:
        array = _with_lengths(array, self._bare)
        records = records_of(array)
        problems: list[Problem] = []
        row, rows = 0, len(array)
        while True:
            row, key, malformed = self._run(records, row)
            for at, code, position, column in malformed:
                reason = self._reason(code, position, column)
                if code == kinds.UNRESOLVED and self._registry is not None:
                    reason = self._why_unresolved(array[at].as_py(), reason)
                problems.append(Problem(at, reason))
            if row == rows:
                return self._taken(), problems
            bare = set(self._bare)
            try:
                self._plans[key] = self._plan_for(key)
                array = _with_lengths(array, self._bare - bare)
                records = records_of(array)
            except (SchemaError, UnknownSchemaError) as problem:
                self._plans[key] = None
                self._reasons[key] = str(problem)

    def _why_unresolved(self, data: bytes, reason: str) -> str:
        for key, why in self._reasons.items():
            if data.startswith(self._header(key)):
                return why
        return reason

    def _header(self, key: Any) -> bytes:
        raise NotImplementedError

    def _own_plan(self) -> Any:
        raise NotImplementedError

    def _plan_for(self, key: Any) -> Any:
        raise NotImplementedError

    def _run(self, records: Any, row: int) -> tuple[int, Any, list[Found]]:
        raise NotImplementedError


class _Avro(_ByWriter):
    def _run(self, records: Any, row: int) -> tuple[int, Any, list[Found]]:
        framed = self._registry is not None
        ran: tuple[int, Any, list[Found]] = avro_kernel.decode_avro(
            self._tree, records, row, self._plans, framed
        )
        return ran

    def _header(self, key: int) -> bytes:
        return frame_of(key)

    def _own_plan(self) -> Any:
        reader = self._reader()
        assert reader is not None
        return self._plan(reader, reader)

    def _plan_for(self, key: int) -> Any:
        assert self._registry is not None
        registered = self._registry.by_id(key)
        if registered.schema_type != "AVRO":
            raise SchemaError(f"the schema with id {key} is of type {registered.schema_type}, not AVRO")
        writer = avro_schema.parse_schema(registered.text, [text for _, text in registered.references])
        if writer.type == "bytes":
            self._bare.add(frame_of(key))
        try:
            return self._plan(writer, self._reader())
        except SchemaError as problem:
            raise SchemaError(f"the writer's schema, with id {key}, cannot be read: {problem}") from None

    def _reader(self) -> avro_schema.AvroType | None:
        layout = self._side.layout
        return layout.schema() if isinstance(layout, AvroLayout) else None

    def _plan(self, writer: avro_schema.AvroType, reader: avro_schema.AvroType | None) -> Any:
        return avro_kernel.Plan(self._tree, avro_plan.plan(writer, reader, self._description))


class _Protobuf(_ByWriter):
    def _run(self, records: Any, row: int) -> tuple[int, Any, list[Found]]:
        framed = self._registry is not None
        ran: tuple[int, Any, list[Found]] = protobuf_kernel.decode_protobuf(
            self._tree, records, row, self._plans, framed
        )
        return ran

    def _header(self, key: bytes) -> bytes:
        return key

    def _own_plan(self) -> Any:
        layout = self._side.layout
        assert isinstance(layout, ProtobufLayout)
        messages = protobuf_plan.plan(layout.descriptor(), self._description)
        return protobuf_kernel.Plan(self._tree, messages)

    def _plan_for(self, key: bytes) -> Any:
        """The reader's plan, if the record is of its message type: fields are told by their numbers."""
        assert self._registry is not None
        layout = self._side.layout
        assert isinstance(layout, ProtobufLayout)
        registered = self._registry.by_id(schema_id_of(key), serialized=True)
        if registered.schema_type != "PROTOBUF":
            raise SchemaError(
                f"the schema with id {registered.schema_id} is of type {registered.schema_type}, not PROTOBUF"
            )
        files = protobuf_files.file_of_registry(
            registered.text, f"{registered.schema_id}.proto", registered.references
        )
        written = protobuf_files.Messages(files).at(message_indexes(key, HEADER_SIZE)[0])
        names = [message.full_name for message in written]
        if layout.name not in names:
            raise SchemaError(f"the record is of the message type '{names[0]}', not '{layout.name}'")
        return self._own_plan()


def _with_lengths(array: pa.Array, frames: set[bytes]) -> pa.Array:
    """Return the records with the length that Avro's bytes have, and Confluent's serializers leave out.

    (`AbstractKafkaAvroSerializer`: the value of a schema of type BYTES is written as it is.)
    """
    if not frames:
        return array
    import pyarrow as pa

    def with_length(data: bytes | None) -> bytes | None:
        if data is None or data[:HEADER_SIZE] not in frames:
            return data
        return data[:HEADER_SIZE] + encode_varlong(len(data) - HEADER_SIZE) + data[HEADER_SIZE:]

    return pa.array([with_length(data) for data in array.to_pylist()], array.type)
