"""A record batch into smaller ones with the same records in the same order."""

from __future__ import annotations

from typing import NamedTuple

from odradek.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    batch_records,
    records_section,
)
from odradek.records.builder import compress_records, finish_batch
from odradek.records.compression import Codec
from odradek.records.kernel import kernel


class Part(NamedTuple):
    """A batch without producer id and sequence."""

    data: bytearray
    records: int


def unpacked_size(data: bytes | bytearray | memoryview) -> int:
    """Return how many bytes a batch takes before compression."""
    header = BatchHeader.parse(data)
    if header.codec is Codec.NONE:
        return len(data)
    return HEADER_BYTES + len(records_section(header, data))


def split_batch(data: bytes | bytearray | memoryview, max_bytes: int, level: int | None = None) -> list[Part]:
    """Split a whole batch, of two records or more, into at least two.

    Args:
        max_bytes: of a part as it is sent. A single record may exceed it.
        level: of the compression.
    """
    header = BatchHeader.parse(data)
    records = batch_records(header, data)
    unpacked = unpacked_size(data)
    # So that parts pass that compress like the whole; those that do not are split once more.
    part_bytes = max_bytes * unpacked // len(data)
    # About as many records in each, rather than a few in the last.
    number = -(-unpacked // max(1, part_bytes))
    part_bytes = min(part_bytes, unpacked // number + unpacked // len(records) + HEADER_BYTES)
    groups = _groups(records, part_bytes)
    if len(groups) == 1:
        groups = _halves(records)
    return [part for group in groups for part in _parts(header, group, max_bytes, level)]


def _groups(records: list[Record], part_bytes: int) -> list[list[Record]]:
    groups: list[list[Record]] = []
    batch = bytearray()
    base = 0
    for record in records:
        if groups:
            _append(batch, len(groups[-1]), base, record)
        if not groups or len(batch) > part_bytes:
            groups.append([])
            batch = bytearray(HEADER_BYTES)
            base = record.timestamp
            _append(batch, 0, base, record)
        groups[-1].append(record)
    return groups


def _append(batch: bytearray, index: int, base: int, record: Record) -> None:
    kernel.append_record(batch, index, record.timestamp - base, record.key, record.value, record.headers)


def _parts(header: BatchHeader, records: list[Record], max_bytes: int, level: int | None) -> list[Part]:
    data = _build(header, records, level)
    if len(data) <= max_bytes or len(records) == 1:
        return [Part(data, len(records))]
    return [part for half in _halves(records) for part in _parts(header, half, max_bytes, level)]


def _halves(records: list[Record]) -> list[list[Record]]:
    middle = len(records) // 2
    return [records[:middle], records[middle:]]


def _build(header: BatchHeader, records: list[Record], level: int | None) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    base = records[0].timestamp
    for index, record in enumerate(records):
        _append(batch, index, base, record)
    if header.codec is not Codec.NONE:
        batch = compress_records(batch, header.codec, level)
    finish_batch(
        batch,
        base_offset=0,
        partition_leader_epoch=-1,
        attributes=header.attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=len(records),
    )
    return batch
