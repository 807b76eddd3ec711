"""Messages of magic 0 and 1, written: byte for byte what Kafka's own writer makes of the same records."""

from __future__ import annotations

import zlib

from odradek.records.batch import LOG_OVERHEAD, MAGIC_AT, TIMESTAMP_TYPE_BIT, TimestampType
from odradek.records.compression import Buffer, Codec
from odradek.records.message_sets.message_compression import compress_messages
from odradek.records.message_sets.message_set import FIELDS_AT, HEAD, INT32, INT64, MESSAGE_CRC_AT

_NULL = INT32.pack(-1)

MESSAGE_OVERHEAD = (26, 34)
"""Bytes of a message beside its key and value, by magic; Kafka's `LOG_OVERHEAD` plus record overhead."""


def append_message(
    out: bytearray,
    magic: int,
    offset: int,
    timestamp: int,
    attributes: int,
    key: Buffer | None,
    value: Buffer | None,
) -> None:
    """Write one message behind `out`. At magic 0 the timestamp is left away."""
    start = len(out)
    length = FIELDS_AT[magic] - LOG_OVERHEAD + 8
    length += (0 if key is None else len(key)) + (0 if value is None else len(value))
    out += HEAD.pack(offset, length, 0, magic, attributes)
    if magic:
        out += INT64.pack(timestamp)
    for field in (key, value):
        if field is None:
            out += _NULL
        else:
            out += INT32.pack(len(field))
            out += field
    with memoryview(out) as view:
        crc = zlib.crc32(view[start + MAGIC_AT :])
    out[start + MESSAGE_CRC_AT : start + MAGIC_AT] = crc.to_bytes(4, "big")


def wrapper(
    messages: Buffer,
    magic: int,
    codec: Codec,
    *,
    last_offset: int,
    timestamp: int,
    timestamp_type: TimestampType,
    level: int | None = None,
) -> bytearray:
    """The compressed message that holds `messages`.

    Args:
        messages: A whole message set, uncompressed: at magic 1 with offsets that count from 0.
        magic: 0 or 1.
        codec: Not NONE.
        last_offset: The true offset of the last message inside.
        timestamp: The largest one inside, or the time of the append; milliseconds.
        timestamp_type: Of all messages inside.
        level: The codec's; None is Kafka's default.
    """
    out = bytearray()
    packed = compress_messages(codec, messages, magic, level)
    append_message(
        out, magic, last_offset, timestamp, message_attributes(magic, codec, timestamp_type), None, packed
    )
    return out


def message_attributes(magic: int, codec: Codec, timestamp_type: TimestampType) -> int:
    """A message's attributes: the codec, and from magic 1 on who set the timestamp."""
    if magic and timestamp_type is TimestampType.LOG_APPEND_TIME:
        return codec | TIMESTAMP_TYPE_BIT
    return int(codec)
