"""Fetched records as rows of a typed table: decoded, put under their columns, malformed ones dealt with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from odradek.client.types import TopicPartition
from odradek.spark.formats.columns import CORRUPT, CORRUPT_TYPE, HEADERS_MAP_TYPE, TypedColumn, TypedRead
from odradek.spark.formats.dead_letters import DeadLetters
from odradek.spark.formats.decoding import Problem, arrow_type, make_decoder
from odradek.spark.formats.errors import MalformedRecordError
from odradek.spark.formats.options import DROPMALFORMED, FAILFAST

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

Problems = dict[int, list[tuple[str, Problem]]]
"""(side, why) of the malformed rows."""


class TypedShape(AbstractContextManager["TypedShape"]):
    """Makes the table's rows of one task.

    Args:
        read: the columns, and how they are decoded.
        tp: the partition that is read.
        configs: of the client, for the dead letters.
    """

    def __init__(self, read: TypedRead, tp: TopicPartition, configs: Mapping[str, str]) -> None:
        import pyarrow as pa

        self._read = read
        self._tp = tp
        self._schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in read.columns])
        self._decoders = {side.options.side: make_decoder(side) for side in read.sides}
        topic = read.malformed.dead_letter_topic
        self._letters = DeadLetters(configs, topic, tp) if topic is not None else None
        self._rows = 0
        self._bad = 0
        self._first = ""

    def __exit__(self, *exc: Any) -> None:
        if self._letters is not None:
            self._letters.__exit__(*exc)
        if self._bad and exc[0] is None:
            done = "dropped" if self._read.malformed.mode == DROPMALFORMED else "made null"
            also = f", and written to {self._read.malformed.dead_letter_topic}" if self._letters else ""
            logger.warning(
                "%d of %d records of %s are malformed and were %s%s; the first: %s",
                self._bad,
                self._rows,
                self._tp,
                done,
                also,
                self._first,
            )

    def table_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`rows` as fetched: key, value, offset, timestamp, timestampType, and headers if wanted.

        Raises:
            MalformedRecordError: a record cannot be read, in mode FAILFAST.
            RegistryError: a schema cannot be had.
            KafkaError: the dead letters could not be sent.
        """
        import pyarrow as pa

        decoded = {}
        problems: Problems = {}
        for side, decoder in self._decoders.items():
            decoded[side], malformed = decoder.decode(rows.column(side))
            for problem in malformed:
                problems.setdefault(problem.row, []).append((side, problem))
        self._rows += rows.num_rows
        if problems:
            self._judge(rows, problems)
        arrays = [self._column(column, rows, decoded, problems) for column in self._read.columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if problems and self._read.malformed.mode == DROPMALFORMED:
            keep = [number not in problems for number in range(rows.num_rows)]
            return batch.filter(pa.array(keep, pa.bool_()))
        return batch

    def _judge(self, rows: pa.RecordBatch, problems: Problems) -> None:
        first = min(problems)
        side, problem = problems[first][0]
        offset = rows.column("offset")[first].as_py()
        where = f"topic {self._tp.topic}, partition {self._tp.partition}, offset {offset}"
        if self._read.malformed.mode == FAILFAST:
            raise MalformedRecordError(
                f"{where}: the {side} is malformed: {problem.reason}. Mode PERMISSIVE makes such records "
                "null, DROPMALFORMED leaves them out"
            )
        self._bad += len(problems)
        self._first = self._first or f"{where}: {side}: {problem.reason}"
        if self._letters is not None:
            self._letters.write(rows, problems)

    def _column(
        self, column: TypedColumn, rows: pa.RecordBatch, decoded: dict[str, pa.Array], problems: Problems
    ) -> pa.Array:
        import pyarrow as pa

        from odradek.records import scalars

        column_type = self._schema.field(column.name).type
        source = column.source
        if source in decoded:
            array = decoded[source]
            return array if column.member is None else array.field(column.member)
        if source == CORRUPT:
            return _corrupt(rows, problems)
        if source == "topic":
            return pa.repeat(scalars.string(self._tp.topic), rows.num_rows)
        if source == "partition":
            return pa.repeat(scalars.int32(self._tp.partition), rows.num_rows)
        if source == "headers" and self._read.headers_map:
            return _headers_as_map(rows.column("headers"), arrow_type(HEADERS_MAP_TYPE))
        array = rows.column(source)
        return array if array.type == column_type else array.cast(column_type)


def _corrupt(rows: pa.RecordBatch, problems: Problems) -> pa.Array:
    import pyarrow as pa

    kind = arrow_type(CORRUPT_TYPE)
    if not problems:
        return pa.nulls(rows.num_rows, kind)
    keys, values = rows.column("key"), rows.column("value")
    corrupt: list[Any] = [None] * rows.num_rows
    for number, whys in problems.items():
        reason = "; ".join(f"{side}: {problem.reason}" for side, problem in whys)
        corrupt[number] = {"key": keys[number].as_py(), "value": values[number].as_py(), "reason": reason}
    return pa.array(corrupt, kind)


def _headers_as_map(headers: pa.Array, map_type: Any) -> pa.Array:
    """A list of (key, value) for each row as a map of `map_type` (string to binary).

    Of a name that is there several times the last counts, as with Kafka's `Headers.lastHeader`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = headers.values.field("key")
    offsets = headers.offsets
    rows = pc.list_parent_indices(headers)
    at = offsets[0].as_py() if len(offsets) else 0
    inside = headers.values.slice(at, len(rows))
    if _repeat_a_name(rows, inside.field("key")):
        return pa.array([_last_of_each_name(row) for row in headers.to_pylist()], map_type)
    entries = pa.StructArray.from_arrays(
        [names, headers.values.field("value")], fields=[map_type.key_field, map_type.item_field]
    )
    buffers = headers.buffers()[:2]
    return pa.Array.from_buffers(
        map_type, len(headers), buffers, headers.null_count, headers.offset, children=[entries]
    )


def _repeat_a_name(rows: pa.Array, names: pa.Array) -> bool:
    """Return whether any row has a name twice."""
    import pyarrow as pa

    pairs = pa.table({"row": rows, "name": names})
    return pairs.group_by(["row", "name"]).aggregate([]).num_rows < pairs.num_rows


def _last_of_each_name(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    if headers is None:
        return None
    return list({header["key"]: header["value"] for header in headers}.items())
