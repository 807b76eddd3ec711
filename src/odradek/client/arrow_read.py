"""The columns that a consumer took, as one Arrow table. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from odradek.client.core.subscription_state import Position
from odradek.client.errors import IllegalArgumentError
from odradek.records import scalars
from odradek.records.columns import schema

_OPTIONS = {"timestamp_unit": "us", "as_timestamp": True, "nullable_headers": True}


def as_spark(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the columns, by default as in Spark's source.

    Raises:
        IllegalArgumentError: an option is not known, or its value is none.
    """
    for name in options.keys() - _OPTIONS.keys():
        raise IllegalArgumentError(f"{name!r} is no option of the columns: {', '.join(_OPTIONS)}")
    if options.get("timestamp_unit", "us") not in ("ms", "us"):
        raise IllegalArgumentError(f"timestamp_unit={options['timestamp_unit']!r}: must be ms or us")
    return {**_OPTIONS, **options}


def _with_place(columns: pa.Schema) -> pa.Schema:
    """topic and partition stand after key and value, as in Spark's Kafka source."""
    fields = list(columns)
    return pa.schema(
        [*fields[:2], pa.field("topic", pa.string()), pa.field("partition", pa.int32()), *fields[2:]]
    )


def empty_table(with_headers: bool, options: dict[str, Any]) -> pa.Table:
    """No rows, the same columns."""
    schema_options = {name: options[name] for name in ("timestamp_unit", "as_timestamp") if name in options}
    return _with_place(schema(with_headers=with_headers, **schema_options)).empty_table()


def to_table(parts: list[tuple[Position, pa.RecordBatch]]) -> pa.Table:
    """key, value, topic, partition, offset, timestamp, timestampType(, headers); rows in the order they
    came.
    """
    batches = []
    for position, batch in parts:
        topic, partition = position.tp
        rows = batch.num_rows
        columns = batch.columns
        place = [
            pa.repeat(scalars.string(topic), rows),
            pa.repeat(scalars.int32(partition), rows),
        ]
        batches.append(
            pa.RecordBatch.from_arrays([*columns[:2], *place, *columns[2:]], schema=_with_place(batch.schema))
        )
    return pa.Table.from_batches(batches)
