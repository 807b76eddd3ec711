"""The cleaning of one batch: it stays as it is, loses records, stays empty, or goes.

The rules are Kafka's (Cleaner.shouldRetainRecord, MemoryRecords.filterTo; KIP-534 for tombstones):

- of a key the newest record stays; records beyond what the map knows stay; records without a key go;
- a batch that keeps a tombstone gets a delete horizon, `delete.retention.ms` from now, when it has none; at
  the horizon the tombstone goes; markers whose transaction is gone are treated likewise;
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
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    batch_records,
    records_section,
)
from odradek.records.builder import BatchBuilder, finish_batch
from odradek.records.compression import Codec, compress
from odradek.records.control import EndTransactionMarker
from odradek.records.problems import raise_for_problem


class Kept(NamedTuple):
    """A batch that stays: its bytes, how many records it has, and its largest timestamp."""

    data: bytes | memoryview
    records: int
    max_timestamp: int


class _Retained(NamedTuple):
    """The result of `KeyMap.retain` for a batch that is in order."""

    records: int
    keyless: int
    tombstones: bool
    base: int
    max_timestamp: int
    section: bytes


@dataclass
class BatchFilter:
    """The rules, for one pass.

    Attributes: `now_ms`, `delete_retention_ms`: for delete horizons; `end_offset`: the bound of the pass;
    `producers`: the live ones; `keyless`: how many records without a key were dropped.
    """

    # Complete before the first batch is filtered: a record goes only if a newer record is surely in the log.
    keys: KeyMap
    # Moves with the batches, which therefore have to come in the order of the log, each once.
    transactions: TransactionReader
    # As of the job's making. A producer that wrote since has its newest batch above the bound of the pass,
    # and a batch that is kept for it in vain goes with the next pass.
    producers: dict[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    end_offset: int
    keyless: int = 0

    def apply(
        self, header: BatchHeader, batch: memoryview, marker: EndTransactionMarker | None
    ) -> Kept | None:
        """Return what is kept of a batch, None if nothing is.

        Raises:
            KafkaError: the records do not parse.
        """
        if header.is_control:
            return self._control(header, batch, self.transactions.on_marker(header, marker))
        # Without records: an earlier pass has emptied it, and it goes once its producer has a newer batch.
        if self.transactions.on_data(header) or not header.record_count:
            return self._emptied(header)
        horizon = header.delete_horizon_ms
        section = records_section(header, batch)
        retained = self._retain(header, section, horizon)
        self.keyless += retained.keyless
        if not retained.records:
            return self._emptied(header)
        if retained.tombstones and horizon is None:
            # The horizon takes the place of the base timestamp (KIP-534), so all deltas are written anew.
            horizon = self.now_ms + self.delete_retention_ms
            retained = self._retain(header, section, horizon)
        elif retained.records == header.record_count:
            # Nothing goes, so the bytes stay as they are: to pack them again would change them for nothing.
            return Kept(batch, header.record_count, header.max_timestamp)
        max_timestamp = header.max_timestamp
        # With LogAppendTime the batch's largest timestamp is that of all its records.
        if header.timestamp_type is TimestampType.CREATE_TIME:
            max_timestamp = retained.max_timestamp
        data = _rebuilt(header, retained.section, retained.records, horizon, retained.base, max_timestamp)
        return Kept(data, retained.records, max_timestamp)

    def _retain(self, header: BatchHeader, section: memoryview, horizon: int | None) -> _Retained:
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        problem, looked_at, records, keyless, tombstones, base, max_timestamp, kept = self.keys.retain(
            section,
            header.record_count,
            header.base_offset,
            header.max_timestamp if append_time else header.base_timestamp,
            append_time,
            header.delete_horizon_ms is None or self.now_ms < header.delete_horizon_ms,
            horizon,
        )
        if problem:
            raise_for_problem(problem, looked_at, header.base_offset)
        return _Retained(records, keyless, tombstones, base, max_timestamp, kept)

    def _control(self, header: BatchHeader, batch: memoryview, done: bool) -> Kept | None:
        horizon = header.delete_horizon_ms
        if done and (not header.record_count or (horizon is not None and horizon <= self.now_ms)):
            return self._emptied(header)
        if not done or horizon is not None:
            return Kept(batch, header.record_count, header.max_timestamp)
        # The transaction's last records have just gone. A consumer may have read some of them and still wait
        # for the marker: it has `delete.retention.ms` from now on.
        builder = _builder(header, self.now_ms + self.delete_retention_ms)
        for record in batch_records(header, batch):
            delta = record.offset - header.base_offset
            builder.append(record.timestamp, record.key, record.value, record.headers, offset_delta=delta)
        data = builder.build(last_offset_delta=header.last_offset_delta)
        return Kept(data, header.record_count, header.max_timestamp)

    def _emptied(self, header: BatchHeader) -> Kept | None:
        # The last batch of the pass stays for its offset alone (Kafka: `upperBoundOffsetOfCleaningRound`).
        if not (self._is_last_of_producer(header) or header.next_offset == self.end_offset):
            return None
        return Kept(_empty_batch(header), 0, header.max_timestamp)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset is not None:
            return header.last_offset == last.offset
        # Only markers are known of it: the marker of its epoch stays, which fences those with an older epoch.
        return header.is_control and header.producer_epoch == last.epoch


_KEPT_ATTRIBUTES = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""Not the codec, as an empty batch has nothing to unpack; nor a delete horizon, as it has no tombstones."""


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


def _rebuilt(
    header: BatchHeader, section: bytes, count: int, horizon: int | None, base: int, max_timestamp: int
) -> bytes:
    """The batch with other records, its offsets and sequences as they were."""
    batch = bytearray(HEADER_BYTES)
    # In its own codec, whatever `compression.type` says by now: as with Kafka, that is for appends.
    batch += section if header.codec is Codec.NONE else compress(header.codec, section)
    attributes = header.attributes & (_KEPT_ATTRIBUTES | CODEC_MASK)
    if horizon is not None:
        attributes |= DELETE_HORIZON_BIT
    finish_batch(
        batch,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=count,
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
