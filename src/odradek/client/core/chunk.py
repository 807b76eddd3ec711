"""One partition's part of one Fetch answer, decoded batch by batch as it is given out."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from odradek.client.core.fetched import AbortedFilter
from odradek.client.core.subscription_state import Position
from odradek.client.types import ConsumerRecord
from odradek.errors import KafkaError
from odradek.records.batch import BatchHeader, TimestampType, check_crc, records_section
from odradek.records.kernel import kernel
from odradek.records.message_sets.message_batches import iter_fetched
from odradek.records.problems import raise_for_problem

if TYPE_CHECKING:
    import pyarrow as pa

offset_of = attrgetter("offset")


class Chunk:
    """One partition's part of one Fetch answer.

    Args:
        position: of the partition; its `turn` tells later whether the chunk still counts.
        records: the bytes.
        aborted: aborted transactions in them (read_committed), else None.
    """

    __slots__ = (
        "_aborted",
        "_at",
        "_batches",
        "_dropped",
        "_pending",
        "aborted",
        "position",
        "records",
        "turn",
    )

    def __init__(self, position: Position, records: Any, aborted: Any) -> None:
        self.position = position
        self.turn = position.turn
        self.records = records
        self.aborted = aborted
        self._batches: Iterator[tuple[BatchHeader, memoryview, TimestampType]] | None = None
        self._aborted = AbortedFilter(aborted)
        self._pending: list[ConsumerRecord] = []
        self._at = 0
        self._dropped: set[int] | None = None

    @property
    def stale(self) -> bool:
        """Return whether the consumer has gone elsewhere since."""
        return self.turn != self.position.turn

    def take(self, limit: int, check_crcs: bool) -> tuple[list[ConsumerRecord], bool]:
        """Up to `limit` records from the position on. Returns (records, whether the chunk is used up).

        The position moves past what is returned.

        Raises:
            KafkaError: a batch is damaged; the position then stands before it.
        """
        position = self.position
        self._catch_up()
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
                position.move_to(last.offset + 1, last.leader_epoch)
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

    def upcoming(self, limit: int, check_crcs: bool) -> list[ConsumerRecord]:
        """Return up to `limit` records from the position on; none means that the chunk is used up.

        The position passes only what is not for the application.

        Raises:
            KafkaError: as `take`.
        """
        self._catch_up()
        if not self._pending:
            try:
                if not self._next_batch(check_crcs):
                    return []
            except KafkaError:
                self._batches = None
                raise
        return self._pending[self._at : self._at + limit]

    def _catch_up(self) -> None:
        """Pass the decoded records that an iteration has handed out since."""
        pending, offset = self._pending, self.position.offset
        if pending and offset is not None and pending[self._at].offset < offset:
            self._at = bisect_left(pending, offset, self._at, key=offset_of)
            if self._at == len(pending):
                self._pending, self._at = [], 0

    def _next_batch(self, check_crcs: bool) -> bool:
        if self._batches is None:
            self._batches = iter_fetched(self.records, check_crcs=check_crcs)
            self._aborted = AbortedFilter(self.aborted)
        position = self.position
        topic, partition = position.tp
        for header, batch, kind in self._batches:
            offset = position.offset
            assert offset is not None
            dropped = self._aborted.active and self._aborted.drops(header, batch)
            if header.next_offset <= offset:
                continue
            if not dropped and not header.is_control and header.record_count:
                if check_crcs:
                    check_crc(header, batch)
                self._pending = records_of(header, batch, kind, topic, partition, offset)
                self._at = 0
                if self._pending:
                    return True
            position.move_to(header.next_offset, header.partition_leader_epoch)
        return False

    def go_back_to(self, offset: int) -> None:
        """Stand before a record of this chunk again."""
        self.position.move_to(offset, self.position.offset_epoch)
        self._pending, self._at, self._batches = [], 0, None

    def take_columns(
        self, limit: int, check_crcs: bool, with_headers: bool, options: dict[str, Any]
    ) -> tuple[list[pa.RecordBatch], bool]:
        """As `take`, as columns."""
        from odradek.records.columns import ColumnDecoder

        position = self.position
        offset = position.offset
        assert offset is not None
        dropped = self._aborted_batches()
        epoch = position.offset_epoch

        def select(header: BatchHeader, _batch: memoryview) -> bool:
            nonlocal epoch
            epoch = header.partition_leader_epoch
            return header.base_offset not in dropped

        decoder = ColumnDecoder(
            from_offset=offset,
            with_headers=with_headers,
            limit=limit,
            batch_rows=limit,
            check_crcs=check_crcs,
            select=select,
            **options,
        )
        out: list[pa.RecordBatch] = []
        damaged = False
        try:
            out.extend(decoder.feed(self.records))
        except KafkaError:
            damaged = True  # what precedes it is given out first; the next call meets it again
            if not out and not decoder.pending_rows:
                raise
        rest = decoder.flush()
        if rest is not None:
            out.append(rest)
        rows = sum(batch.num_rows for batch in out)
        position.move_to(decoder.next_offset, epoch)
        self._pending, self._at, self._batches = [], 0, None
        return out, rows < limit and not damaged

    def _aborted_batches(self) -> set[int]:
        """Return the base offsets of the batches that were aborted.

        The rule needs to see every batch, markers included, so it walks the chunk from its beginning wherever
        the position stands.
        """
        if self._dropped is None:
            self._dropped = set()
            rule = AbortedFilter(self.aborted)
            if rule.active:
                with contextlib.suppress(KafkaError):  # damage is met again where the rows are decoded
                    for header, batch, _ in iter_fetched(self.records):
                        if rule.drops(header, batch):
                            self._dropped.add(header.base_offset)
        return self._dropped


def records_of(
    header: BatchHeader, batch: memoryview, kind: TimestampType, topic: str, partition: int, from_offset: int
) -> list[ConsumerRecord]:
    """The records of one batch, from an offset on.

    Args:
        header, batch: the batch, whose CRC has been looked at.
        kind: of its timestamps.
        topic, partition: where it comes from.
        from_offset: those below are left out.

    Raises:
        KafkaError: CORRUPT_MESSAGE, or what `records_section` raises of one that does not unpack.
    """
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
