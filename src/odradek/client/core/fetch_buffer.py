"""What was fetched and not yet given out, in the order in which it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from odradek.client.core.fetched import AbortedFilter
from odradek.client.core.positions import Position
from odradek.client.errors import SerializationError
from odradek.client.serialization import Serialize
from odradek.client.types import ConsumerRecord
from odradek.errors import KafkaError
from odradek.records.batch import BatchHeader, TimestampType, check_crc, records_section
from odradek.records.kernel import kernel
from odradek.records.message_batches import iter_fetched
from odradek.records.problems import raise_for_problem

if TYPE_CHECKING:
    import pyarrow as pa


class Chunk:
    """One partition's part of one Fetch answer.

    Args:
        position: of the partition; its `turn` tells later whether the chunk still counts.
        records: the bytes.
        aborted: aborted transactions in them (read_committed), else None.
    """

    __slots__ = ("_aborted", "_at", "_batches", "_pending", "aborted", "position", "records", "turn")

    def __init__(self, position: Position, records: Any, aborted: Any) -> None:
        self.position = position
        self.turn = position.turn
        self.records = records
        self.aborted = aborted
        self._batches: Iterator[tuple[BatchHeader, memoryview, TimestampType]] | None = None
        self._aborted = AbortedFilter(aborted)
        self._pending: list[ConsumerRecord] = []
        self._at = 0

    @property
    def stale(self) -> bool:
        """Whether the consumer has gone elsewhere since."""
        return self.turn != self.position.turn

    def take(self, limit: int, check_crcs: bool) -> tuple[list[ConsumerRecord], bool]:
        """Up to `limit` records from the position on. Returns (records, whether the chunk is used up).

        The position moves past what is returned. Raises `KafkaError` for a batch that is damaged; the
        position then stands before it.
        """
        position = self.position
        out: list[ConsumerRecord] = []
        while len(out) < limit:
            pending = self._pending
            if pending:
                at = self._at
                end = at + limit - len(out)
                if end < len(pending):
                    part = pending[at:end]
                    self._at = end
                else:
                    part = pending[at:] if at else pending
                    self._pending, self._at = [], 0
                if out:
                    out += part
                else:
                    out = part
                last = part[-1]
                position.offset = last.offset + 1
                position.offset_epoch = last.leader_epoch
                continue
            try:
                if not self._next_batch(check_crcs):
                    return out, True
            except KafkaError:
                # The next call walks the chunk anew, and meets the damage again.
                self._batches = None
                if out:
                    return out, False  # what precedes it is good, and is given out first
                raise
        return out, False

    def _next_batch(self, check_crcs: bool) -> bool:
        if self._batches is None:
            self._batches = iter_fetched(self.records, check_crcs=check_crcs)
            self._aborted = AbortedFilter(self.aborted)
        position = self.position
        topic, partition = position.tp
        for header, batch, kind in self._batches:
            assert position.offset is not None
            dropped = self._aborted.active and self._aborted.drops(header, batch)
            if header.next_offset <= position.offset:
                continue
            if not dropped and not header.is_control and header.record_count:
                if check_crcs:
                    check_crc(header, batch)
                self._pending = records_of(header, batch, kind, topic, partition, position.offset)
                self._at = 0
                if self._pending:
                    return True
            position.offset = header.next_offset
            position.offset_epoch = header.partition_leader_epoch
        return False

    def go_back_to(self, offset: int) -> None:
        """Stand before a record of this chunk again."""
        self.position.offset = offset
        self._pending, self._at, self._batches = [], 0, None

    def take_columns(
        self, limit: int, check_crcs: bool, with_headers: bool, options: dict[str, Any]
    ) -> tuple[list[pa.RecordBatch], bool]:
        """As `take`, as columns."""
        from odradek.records.columns import ColumnDecoder

        position = self.position
        assert position.offset is not None
        rule = AbortedFilter(self.aborted)
        decoder = ColumnDecoder(
            from_offset=position.offset,
            with_headers=with_headers,
            limit=limit,
            batch_rows=limit,
            check_crcs=check_crcs,
            select=(lambda header, batch: not rule.drops(header, batch)) if rule.active else None,
            **options,
        )
        out: list[pa.RecordBatch] = []
        try:
            out.extend(decoder.feed(self.records))
        except KafkaError:
            if not out and not decoder.pending_rows:
                raise
        rest = decoder.flush()
        if rest is not None:
            out.append(rest)
        rows = sum(batch.num_rows for batch in out)
        position.offset = decoder.next_offset
        self._pending, self._at, self._batches = [], 0, None
        return out, rows < limit


def records_of(
    header: BatchHeader, batch: memoryview, kind: TimestampType, topic: str, partition: int, from_offset: int
) -> list[ConsumerRecord]:
    append_time = kind is TimestampType.LOG_APPEND_TIME
    records: list[ConsumerRecord]
    problem, index, records = kernel.parse_fetched(
        records_section(header, batch),
        header.record_count,
        header.base_offset,
        header.max_timestamp if append_time else header.base_timestamp,
        kind,
        ConsumerRecord,
        topic,
        partition,
        header.partition_leader_epoch,
        from_offset,
    )
    if problem:
        raise_for_problem(problem, index, header.base_offset)
    return records


class FetchBuffer:
    """The chunks that wait.

    Args:
        check_crcs: whether each batch's checksum is checked.
        key, value: deserializers, None for bytes.

    Chunks may be added by one thread while another takes: both ends of a deque are safe for that. `used`
    counts the chunks that are gone, so that the other thread can tell when to fetch more.
    """

    def __init__(self, check_crcs: bool, key: Serialize | None, value: Serialize | None) -> None:
        self._chunks: deque[Chunk] = deque()
        self._check_crcs = check_crcs
        self._key = key
        self._value = value
        self.used = 0

    def counts(self) -> dict[int, int]:
        """id(position) → how many of its chunks wait. May be asked from another thread."""
        counts: dict[int, int] = {}
        for chunk in list(self._chunks):
            if not chunk.stale:
                counts[id(chunk.position)] = counts.get(id(chunk.position), 0) + 1
        return counts

    def add(self, chunk: Chunk) -> None:
        """Take a chunk."""
        self._chunks.append(chunk)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._chunks

    def drop_except(self, keep: Callable[[Position], bool]) -> None:
        """Throw away chunks whose position is not to be kept."""
        for chunk in list(self._chunks):
            if not keep(chunk.position) or chunk.stale:
                self._remove(chunk)

    def _takeable(self) -> Iterator[Chunk]:
        """What may be given to the application, in order; what nobody wants any more is thrown away."""
        for chunk in list(self._chunks):
            if chunk.stale:
                self._remove(chunk)
            elif chunk.position.fetchable:
                yield chunk

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records. Those of paused partitions wait on.

        Raises `KafkaError` for damaged data, `SerializationError` if a deserializer refuses: the position
        then stands at that record, to be skipped with `seek`.
        """
        out: list[ConsumerRecord] = []
        for chunk in self._takeable():
            if len(out) >= limit:
                break
            try:
                records, done = chunk.take(limit - len(out), self._check_crcs)
            except KafkaError:
                if out:
                    break
                raise
            if self._key is not None or self._value is not None:
                good, problem = self._deserialized(records)
                out += good
                if problem is not None:
                    # What precedes the bad record is given out first; the error comes when it is at the
                    # front.
                    chunk.go_back_to(records[len(good)].offset)
                    if out:
                        break
                    raise problem
            else:
                if out:
                    out += records
                else:
                    out = records
            if done:
                self._remove(chunk)
        return out

    def _remove(self, chunk: Chunk) -> None:
        self._chunks.remove(chunk)
        self.used += 1

    def _deserialized(
        self, records: list[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord], SerializationError | None]:
        """The records up to the first that a deserializer refuses, and its error."""
        out: list[ConsumerRecord] = []
        for record in records:
            what = "key"
            try:
                key = self._key(record.topic, record.key) if self._key is not None else record.key
                what = "value"
                value = self._value(record.topic, record.value) if self._value is not None else record.value
            except Exception as cause:
                problem = SerializationError(
                    f"the {what} of {record.topic}-{record.partition} at offset {record.offset} cannot be "
                    f"deserialized: {cause}; seek past it to go on"
                )
                problem.__cause__ = cause
                return out, problem
            out.append(record._replace(key=key, value=value))
        return out, None

    def take_columns(
        self, limit: int, with_headers: bool, options: dict[str, Any]
    ) -> list[tuple[Position, pa.RecordBatch]]:
        """As `take`, as columns; deserializers are not asked."""
        out: list[tuple[Position, pa.RecordBatch]] = []
        rows = 0
        for chunk in self._takeable():
            if rows >= limit:
                break
            try:
                batches, done = chunk.take_columns(limit - rows, self._check_crcs, with_headers, options)
            except KafkaError:
                if out:
                    break
                raise
            for batch in batches:
                rows += batch.num_rows
                out.append((chunk.position, batch))
            if done:
                self._remove(chunk)
        return out
