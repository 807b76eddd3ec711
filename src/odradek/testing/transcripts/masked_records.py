"""Records of a Produce or a Fetch with nothing of their keys, values and headers that could be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, Record, batch_records
from odradek.records.builder import compress_records, finish_batch
from odradek.records.compression import Buffer, Codec
from odradek.records.message_sets.message_set import (
    MessageHeader,
    inner_messages,
    iter_entries,
    key_and_value,
)
from odradek.records.message_sets.message_writer import append_message, wrapper
from odradek.records.varint import encode_varint, encode_varlong


class RecordMask(NamedTuple):
    """The parts of records that are hidden.

    Attributes:
        keys, values: whether those are, with the values of headers.
        name: gives the name of a header in place of another.
    """

    keys: bool
    values: bool
    name: Callable[[str], str]


def masked_records(buffer: Buffer, mask: RecordMask) -> bytes:
    """Return records in batches and message sets of the same kind, codec, offsets and times, as many.

    What is cut off at the end, as a fetch may have it, becomes zeros.

    Raises:
        KafkaError: they cannot be read.
    """
    out = bytearray()
    read = 0
    for header, entry in iter_entries(buffer):
        read += len(entry)
        out += (
            _batch(header, entry, mask) if isinstance(header, BatchHeader) else _message(header, entry, mask)
        )
    return bytes(out) + bytes(len(buffer) - read)


def _batch(header: BatchHeader, batch: memoryview, mask: RecordMask) -> Buffer:
    if header.is_control:
        return batch
    out = bytearray(HEADER_BYTES)
    for record in batch_records(header, batch):
        body = _record(record, header, mask)
        out += encode_varint(len(body)) + body
    codec = Codec.of(header.attributes & CODEC_MASK)
    if codec is not Codec.NONE and header.record_count:
        out = compress_records(out, codec, None)
    finish_batch(
        out,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
    )
    return out


def _record(record: Record, header: BatchHeader, mask: RecordMask) -> bytes:
    key, value = (
        hidden(field) if is_hidden else field
        for field, is_hidden in ((record.key, mask.keys), (record.value, mask.values))
    )
    body = b"\0" + encode_varlong(record.timestamp - header.base_timestamp)
    body += encode_varint(record.offset - header.base_offset) + _bytes(key) + _bytes(value)
    body += encode_varint(len(record.headers))
    for name, content in record.headers:
        body += _bytes(mask.name(name).encode()) + _bytes(hidden(content) if mask.values else content)
    return body


def _bytes(field: Buffer | None) -> bytes:
    return encode_varint(-1) if field is None else encode_varint(len(field)) + bytes(field)


def _message(header: MessageHeader, message: memoryview, mask: RecordMask) -> Buffer:
    timestamp = header.timestamp if header.magic else 0
    codec = Codec.of(header.codec_id)
    if codec is not Codec.NONE:
        inner = masked_records(inner_messages(header, message), mask)
        return wrapper(
            inner,
            header.magic,
            codec,
            last_offset=header.offset,
            timestamp=timestamp,
            timestamp_type=header.timestamp_type,
        )
    key, value = key_and_value(header, message)
    out = bytearray()
    append_message(
        out,
        header.magic,
        header.offset,
        timestamp,
        header.attributes,
        hidden(key) if mask.keys else key,
        hidden(value) if mask.values else value,
    )
    return out


def hidden(field: Buffer | None) -> bytes | None:
    """Return as many bytes that say nothing; of null, null."""
    return None if field is None else b"*" * len(field)
