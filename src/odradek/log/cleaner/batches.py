"""What becomes of one batch: it stays as it is, loses records, stays empty, or goes.

The rules are Kafka's (Cleaner.shouldRetainRecord, MemoryRecords.filterTo; KIP-534 for tombstones):

- of a key the newest record stays; records beyond what the map knows stay; records without a key go;
- a batch that keeps a tombstone gets a delete horizon, `delete.retention.ms` from now, when it has none; at
  the horizon the tombstone goes; markers whose transaction is gone likewise;
- batches of aborted transactions go;
- the newest batch of a live producer stays, empty if need be, since its sequences and epoch are needed; so
  does the batch at the end of the pass, so that the end of the log does not move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from odradek.log.cleaner.job import LastRecord
from odradek.log.cleaner.key_map import KeyMap
from odradek.log.cleaner.transactions import TransactionReader
from odradek.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Record,
    TimestampType,
    batch_records,
)
from odradek.records.builder import BatchBuilder, finish_batch
from odradek.records.control import EndTransactionMarker


class Kept(NamedTuple):
    """A batch that stays: its bytes, how many records it has, and its largest timestamp."""

    data: bytes | memoryview
    records: int
    max_timestamp: int


@dataclass
class BatchFilter:
    """The rules, for one pass.

    Attributes: `now_ms`, `delete_retention_ms`: for delete horizons; `end_offset`: the bound of the pass;
    `producers`: the live ones; `keyless`: how many records without a key were dropped.
    """

    keys: KeyMap
    transactions: TransactionReader
    producers: dict[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    end_offset: int
    keyless: int = 0

    def apply(
        self, header: BatchHeader, batch: memoryview, marker: EndTransactionMarker | None
    ) -> Kept | None:
        """What is kept of a batch, None if nothing is. Raises `KafkaError` for records that do not parse."""
        if header.is_control:
            return self._control(header, batch, self.transactions.on_marker(header, marker))
        if self.transactions.on_data(header):
            return self._emptied(header)
        records = batch_records(header, batch)
        kept = [record for record in records if self._stays(header, record)]
        if not kept:
            return self._emptied(header)
        tombstones = any(record.value is None for record in kept)
        new_horizon = tombstones and header.delete_horizon_ms is None
        if len(kept) == len(records) and not new_horizon:
            return Kept(batch, len(kept), header.max_timestamp)
        return self._rebuilt(header, kept, self._horizon(header, new_horizon))

    def _control(self, header: BatchHeader, batch: memoryview, done: bool) -> Kept | None:
        horizon = header.delete_horizon_ms
        if done and (not header.record_count or (horizon is not None and horizon <= self.now_ms)):
            return self._emptied(header)
        if done and horizon is None:
            return self._rebuilt(header, batch_records(header, batch), self._horizon(header, True))
        return Kept(batch, header.record_count, header.max_timestamp)

    def _stays(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self.keys.latest_offset:
            return True
        if record.key is None:
            self.keyless += 1
            return False
        if record.offset < self.keys.get(record.key):
            return False
        if record.value is not None:
            return True
        horizon = header.delete_horizon_ms
        return horizon is None or self.now_ms < horizon

    def _horizon(self, header: BatchHeader, new: bool) -> int | None:
        return self.now_ms + self.delete_retention_ms if new else header.delete_horizon_ms

    def _emptied(self, header: BatchHeader) -> Kept | None:
        if not (self._is_last_of_producer(header) or header.next_offset == self.end_offset):
            return None
        return Kept(_empty_batch(header), 0, header.max_timestamp)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset is not None:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch

    @staticmethod
    def _rebuilt(header: BatchHeader, records: list[Record], horizon: int | None) -> Kept:
        builder = _builder(header, horizon)
        for record in records:
            builder.append(
                record.timestamp,
                record.key,
                record.value,
                record.headers,
                offset_delta=record.offset - header.base_offset,
            )
        data = builder.build(last_offset_delta=header.last_offset_delta)
        max_timestamp = builder.append_time
        if header.timestamp_type is TimestampType.CREATE_TIME:
            max_timestamp = builder.max_timestamp
        return Kept(data, len(records), max_timestamp)


_KEPT_ATTRIBUTES = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def _empty_batch(header: BatchHeader) -> bytes:
    """A batch without records that still tells its offsets, sequences, epoch and largest timestamp."""
    batch = bytearray(HEADER_BYTES)
    finish_batch(
        batch,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & _KEPT_ATTRIBUTES,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=0,
    )
    return bytes(batch)


def _builder(header: BatchHeader, horizon: int | None) -> BatchBuilder:
    return BatchBuilder(
        header.codec,
        header.timestamp_type,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
        header.partition_leader_epoch,
        header.base_offset,
        append_time=header.max_timestamp,
        delete_horizon_ms=horizon,
    )
