"""Arrow tables as records to send: rows to partitions, partitions to record batches. Needs pyarrow."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from odradek.client.core.batches import SerializedRecord
from odradek.client.core.delivery import BatchOutcome, check_may_wait, wait_for_outcomes
from odradek.client.errors import (
    ClientTimeoutError,
    IllegalArgumentError,
    MessageTooLargeError,
)
from odradek.client.types import TopicPartition
from odradek.records import scalars
from odradek.records.batch import HEADER_BYTES, BatchHeader
from odradek.records.columns import encode_columns, partition_ids, split_by_partition
from odradek.records.compression import Codec
from odradek.util.interruptible import Bell

if TYPE_CHECKING:
    from odradek.client.config import ProducerConfig
    from odradek.client.core.metadata import KnownTopic

_CHUNK_ROWS = 100_000
_BATCH_BYTES = 512 * 1024
"""Columns make larger record batches than `batch.size` unless that is set: there is no waiting to save."""
_ROW_OVERHEAD = 12
"""Bytes of a record beside what its columns take."""


class Built(NamedTuple):
    """A record batch ready to be queued."""

    tp: TopicPartition
    data: bytes | bytearray
    rows: int

    def as_record(self) -> SerializedRecord:
        """For the error when there is no room."""
        return SerializedRecord(self.tp.topic, self.tp.partition, 0, None, None, (), len(self.data), None)


class Topics(Protocol):
    """An object that knows the partitions, and how large batches may be: a producer's engine."""

    @property
    def config(self) -> ProducerConfig:
        """The producer's configs."""

    def topic(self, name: str) -> KnownTopic | None:
        """A topic's partitions; None if it is not in the metadata."""

    def batch_bound(self, topic: str) -> int | None:
        """Return from how many bytes before compression brokers refuse a topic's batches, if known."""


class ArrowDelivery:
    """The fate of the rows of one `send_arrow`."""

    def __init__(self, outcomes: list[BatchOutcome], rows: int) -> None:
        self._outcomes = outcomes
        self.rows = rows

    def done(self) -> bool:
        """Return whether the fate of all rows is known."""
        return all(outcome.settled and outcome.moved is None for outcome in self._leaves())

    def _leaves(self) -> list[BatchOutcome]:
        out, pending = [], list(self._outcomes)
        while pending:
            outcome = pending.pop()
            if outcome.settled and outcome.moved is not None:
                pending.extend({id(o): o for o, _ in outcome.moved}.values())
            else:
                out.append(outcome)
        return out

    def result(self, timeout: float | None = None) -> int:
        """Wait until all rows are acknowledged; returns how many they are.

        Args:
            timeout: seconds.

        Raises:
            KafkaError: a batch was not written; the error of the first such.
            ClientTimeoutError: `timeout` has passed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while waiting := [outcome for outcome in self._leaves() if not outcome.settled]:
            check_may_wait(waiting[0])
            bell = Bell()
            waiting[0].when_settled(bell.ring)
            if not bell.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                raise ClientTimeoutError(f"the rows were not acknowledged within {timeout} s")
        return self._checked()

    def offsets(self) -> list[tuple[str, int, int]]:
        """(topic, partition, first offset) of each batch written so far; offset -1 where it is not known."""
        return [
            (o.topic, o.partition, o.base_offset) for o in self._leaves() if o.settled and o.error is None
        ]

    def _checked(self) -> int:
        failed = None
        for outcome in self._leaves():
            if outcome.error is not None:
                outcome.hear_all()
                failed = failed or outcome.error
        if failed is not None:
            raise failed
        return self.rows

    def __await__(self) -> Generator[Any, None, int]:
        return self._wait().__await__()

    async def _wait(self) -> int:
        await wait_for_outcomes(self._outcomes)
        await asyncio.sleep(0)
        return self._checked()


class ArrowPlan:
    """Rows that are to be sent.

    `topics` must be in the metadata before `batches` is run, and so must `named`, or it has been asked for
    since.
    """

    def __init__(self, engine: Topics, tables: list[tuple[str, pa.Table]], rows: int) -> None:
        self.topics = sorted({topic for topic, _ in tables})
        self.named = [tp for topic, table in tables for tp in _highest_named(topic, table)]
        self.rows = rows
        self._engine = engine
        self._tables = tables

    def batches(self) -> Iterator[Built]:
        """The record batches, partition by partition within each 100,000 rows."""
        for topic, table in self._tables:
            for start in range(0, table.num_rows, _CHUNK_ROWS):
                yield from self._chunk(topic, table.slice(start, _CHUNK_ROWS))

    def _chunk(self, topic: str, table: pa.Table) -> Iterator[Built]:
        known_topic = self._engine.topic(topic)
        assert known_topic is not None, "the plan's topics are looked up first"
        ids = _partition_column(table, topic, len(known_topic.numbers))
        free = pc.equal(ids, scalars.int32(-1))
        if pc.any(free).as_py():
            yield from self._spread(topic, table.filter(free), known_topic.available)
            keep = pc.invert(free)
            table, ids = table.filter(keep), pc.filter(ids, keep)
        for partition, rows in split_by_partition(table, _one(ids), len(known_topic.numbers)):
            yield from self._encode(TopicPartition(topic, partition), rows)

    def _spread(self, topic: str, table: pa.Table, choice: list[int]) -> Iterator[Built]:
        """Rows without key and partition: a batch's worth to one partition, the next to another."""
        size = table.nbytes + table.num_rows * _ROW_OVERHEAD
        per_batch = max(1, table.num_rows * (self._target(topic) - HEADER_BYTES) // size)
        first = random.randrange(len(choice))
        for turn, start in zip(itertools.count(first), range(0, table.num_rows, per_batch), strict=False):
            partition = choice[turn % len(choice)]
            yield from self._encode(TopicPartition(topic, partition), table.slice(start, per_batch))

    def _target(self, topic: str) -> int:
        """Return how large a batch is made, in bytes before compression."""
        config = self._engine.config
        size = min(config.max_request_size // 2, _BATCH_BYTES)
        if "batch_size" in config.given:
            size = config.batch_size
        # A batch has to fit into the memory, and another one should while it is under way.
        size = min(size, config.max_request_size, max(config.buffer_memory // 2, HEADER_BYTES))
        bound = self._engine.batch_bound(topic)
        return max(1, size if bound is None else min(size, bound))

    def _encode(self, tp: TopicPartition, rows: pa.Table) -> Iterator[Built]:
        config = self._engine.config
        columns = {name: rows.column(name) for name in rows.column_names}
        for data in encode_columns(
            columns.get("key"),
            columns["value"],
            columns.get("headers"),
            columns.get("timestamp"),
            timestamp=time.time_ns() // 1_000_000,
            codec=Codec.parse(config.compression_type),
            level=config.compression_level,
            max_batch_bytes=self._target(tp.topic),
        ):
            count = BatchHeader.parse(data).record_count
            for name, limit in (
                ("max.request.size", config.max_request_size),
                ("buffer.memory", config.buffer_memory),
            ):
                if len(data) > limit:
                    raise MessageTooLargeError(
                        f"{count} row(s) for {tp} take {len(data)} bytes in a batch; {name} is {limit}"
                    )
            yield Built(tp, data, count)


def plan_rows(
    engine: Topics,
    data: pa.Table | pa.RecordBatch,
    topic: str | None,
    *,
    key_column: str | None = "key",
    value_column: str = "value",
    topic_column: str = "topic",
    partition_column: str = "partition",
    timestamp_column: str = "timestamp",
    headers_column: str = "headers",
) -> ArrowPlan:
    """Check the columns and bring them to their names here.

    Raises:
        IllegalArgumentError: no value column, columns of types that are no records', no topic.
    """
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    column_names = {
        "key": key_column,
        "value": value_column,
        "partition": partition_column,
        "timestamp": timestamp_column,
        "headers": headers_column,
    }
    present = {
        ours: theirs
        for ours, theirs in column_names.items()
        if theirs is not None and theirs in table.column_names
    }
    if "value" not in present:
        raise IllegalArgumentError(
            f"there is no column {value_column!r}: the table has {', '.join(table.column_names)}"
        )
    columns = {ours: table.column(theirs) for ours, theirs in present.items()}
    _check_types(columns, present)
    rows = pa.table(columns)
    if topic is not None:
        return ArrowPlan(engine, [(topic, rows)] if rows.num_rows else [], rows.num_rows)
    if topic_column not in table.column_names:
        raise IllegalArgumentError(f"no topic is given, and there is no column {topic_column!r}")
    topics = table.column(topic_column)
    if topics.null_count:
        raise IllegalArgumentError(
            f"column {topic_column!r} has {topics.null_count} null(s): every row needs a topic"
        )
    names = [name.as_py() for name in pc.unique(topics)]
    if len(names) == 1:
        return ArrowPlan(engine, [(str(names[0]), rows)], rows.num_rows)
    parts = [(str(name), rows.filter(pc.equal(topics, name))) for name in names]
    return ArrowPlan(engine, parts, rows.num_rows)


def _check_types(columns: Mapping[str, pa.ChunkedArray], names: Mapping[str, str]) -> None:
    """Refuse columns of types that are no records'; `names` are those in the caller's table."""
    for name in ("key", "value"):
        if name in columns and not _is_bytes(columns[name].type):
            raise IllegalArgumentError(
                f"column {names[name]!r} is {columns[name].type}: binary or string it must be"
            )
    if "partition" in columns and not pa.types.is_integer(columns["partition"].type):
        raise IllegalArgumentError(
            f"column {names['partition']!r} is {columns['partition'].type}: an integer it must be"
        )
    if "timestamp" in columns:
        kind = columns["timestamp"].type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise IllegalArgumentError(
                f"column {names['timestamp']!r} is {kind}: timestamp or integer it must be"
            )


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_null(kind)
    )


def _partition_column(table: pa.Table, topic: str, partitions: int) -> Any:
    """The partition of each row, -1 where neither the column nor a key decides."""
    names = table.column_names
    if "key" in names and not pa.types.is_null(table.column("key").type):
        keys = table.column("key")
        if not (pa.types.is_binary(keys.type) or pa.types.is_string(keys.type)):
            keys = keys.cast(pa.binary())
        ids: Any = partition_ids(keys, partitions, -1)
    else:
        ids = pa.repeat(scalars.int32(-1), table.num_rows)
    if "partition" in names:
        explicit = _one(table.column("partition").cast(pa.int32()))
        below, above = scalars.int32(0), scalars.int32(partitions)
        bad = pc.any(pc.or_(pc.less(explicit, below), pc.greater_equal(explicit, above))).as_py()
        if bad:
            raise IllegalArgumentError(
                f"a row names a partition that topic {topic!r} does not have: it has {partitions}"
            )
        ids = pc.coalesce(explicit, ids)
    return ids


def _highest_named(topic: str, table: pa.Table) -> Iterator[TopicPartition]:
    """The partition with the highest number that a row names: if it is there, all of them are."""
    if "partition" in table.column_names:
        highest = pc.max(table.column("partition")).as_py()
        if highest is not None and highest > 0:
            yield TopicPartition(topic, highest)


def _one(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
    return column
