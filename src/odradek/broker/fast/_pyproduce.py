"""The usual Produce request read and checked, and its response written, in pure Python.

The twin of `odradek._produce`. What is not usual gives None, and the ordinary handler looks at it: these
functions never say what is wrong with a request.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Any

from odradek.broker.fast._pyframes import INT16, INT32, Unusual, count, length, no_tags, text, uvarint
from odradek.errors import KafkaError
from odradek.records.batch import ATTRIBUTES_AT, MAX_TIMESTAMP_AT
from odradek.records.validate import validate_batches

PRODUCE = 0
VERSIONS = range(3, 14)
UNUSUAL_ATTRIBUTES = 0x6F
"""A codec, LogAppendTime, control, a delete horizon."""

Parts = list[tuple[int, int, int]]
"""Of each partition: its index, and where its records begin and end in the frame."""

Parsed = tuple[int, int, int, int, list[tuple[Any, Parts]], bool]
"""Version, correlation id, acks, timeout in ms, the topics (name, or id from version 13 on; partitions), and
whether there is a transactional id."""

Checked = tuple[int, int, int]
"""Of a batch: its last offset delta, its largest timestamp, its producer id (-1: none)."""

_HEAD = Struct(">hhi")
_ACKS_TIMEOUT = Struct(">hi")
_INT64 = Struct(">q")
_PLACE = Struct(">ihqq")


def parse_produce(frame: Any) -> Parsed | None:
    """Read a frame without its size.

    Returns:
        None unless it is a Produce request of version 3 to 13 with names in ASCII, without tagged fields and
        null records, and with acks -1, 0 or 1.
    """
    try:
        return _parse(bytes(frame))
    except (Unusual, IndexError, struct.error):
        return None


def _parse(data: bytes) -> Parsed:
    key, version, correlation_id = _HEAD.unpack_from(data)
    if key != PRODUCE or version not in VERSIONS:
        raise Unusual
    flexible = version >= 9
    size, at = INT16.unpack_from(data, _HEAD.size)[0], _HEAD.size + 2
    if size < -1:
        raise Unusual
    if size > 0:
        at = text(data, at, size)[1]
    if flexible:
        at = no_tags(data, at)
    size, at = length(data, at, flexible)
    if size < -1:
        raise Unusual
    transactional = size != -1
    if size > 0:
        at = text(data, at, size)[1]
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, at)
    if not -1 <= acks <= 1:
        raise Unusual
    topics, at = count(data, at + _ACKS_TIMEOUT.size, flexible)
    found: list[tuple[Any, Parts]] = []
    for _ in range(topics):
        topic: Any
        if version >= 13:
            topic, at = data[at : at + 16], at + 16
            if len(topic) < 16:
                raise Unusual
        else:
            size, at = length(data, at, flexible)
            topic, at = text(data, at, size)
        parts, at = _partitions(data, at, flexible)
        found.append((topic, parts))
    if flexible:
        no_tags(data, at)
    return version, correlation_id, acks, timeout_ms, found, transactional


def _partitions(data: bytes, at: int, flexible: bool) -> tuple[Parts, int]:
    number, at = count(data, at, flexible)
    parts: Parts = []
    for _ in range(number):
        index, at = INT32.unpack_from(data, at)[0], at + 4
        if flexible:
            size, at = uvarint(data, at)
            size -= 1
        else:
            size, at = INT32.unpack_from(data, at)[0], at + 4
        if not 0 <= size <= len(data) - at:
            raise Unusual
        parts.append((index, at, at + size))
        at += size
        if flexible:
            at = no_tags(data, at)
    return parts, no_tags(data, at) if flexible else at


def check_batch(
    frame: Any, start: int, end: int, max_bytes: int, earliest: int, latest: int, require_key: bool
) -> Checked | None:
    """Check a batch as `validate_batches` does for one that a client sends.

    Args:
        frame: what it is in.
        start, end: where.
        max_bytes: the largest batch that the topic takes.
        earliest, latest: the timestamps that are taken, both included, milliseconds; -1 always is.
        require_key: whether a null key is refused.

    Returns:
        None unless it is one batch of magic 2 in order, not compressed, with the sender's timestamps and
        their true maximum, and with a producer if it is transactional.
    """
    size = end - start
    if not 0 <= start <= end <= len(frame) or size <= MAX_TIMESTAMP_AT or size > max_bytes:
        return None
    batch = memoryview(frame)[start:end]
    if batch[ATTRIBUTES_AT + 1] & UNUSUAL_ATTRIBUTES:
        return None
    try:
        (header,) = validate_batches(
            batch,
            max_message_bytes=max_bytes,
            now_ms=0,
            timestamp_before_max_ms=-earliest,
            timestamp_after_max_ms=latest,
            compacted=require_key,
            produce_version=3,
        )
    except KafkaError:
        return None
    (stored,) = _INT64.unpack_from(batch, MAX_TIMESTAMP_AT)
    if header.max_timestamp != stored or (header.is_transactional and header.producer_id < 0):
        return None
    return header.last_offset_delta, header.max_timestamp, header.producer_id


def encode_produce(
    version: int, correlation_id: int, topics: list[tuple[Any, list[tuple[int, int, int]]]]
) -> bytes:
    """Write a Produce response without errors, size and header included.

    Args:
        version: of the request, 3 to 13.
        correlation_id: of the request.
        topics: name (16 bytes from version 13 on) and partitions: index, base offset, log start offset.
    """
    flexible = version >= 9
    out = bytearray(INT32.pack(0) + INT32.pack(correlation_id))
    if flexible:
        out.append(0)
    _put_count(out, len(topics), flexible)
    for topic, parts in topics:
        if version >= 13:
            out += topic
        else:
            name = topic.encode()
            if flexible:
                _put_count(out, len(name), flexible)
            else:
                out += INT16.pack(len(name))
            out += name
        _put_count(out, len(parts), flexible)
        for index, base_offset, log_start in parts:
            out += _PLACE.pack(index, 0, base_offset, -1)
            if version >= 5:
                out += _INT64.pack(log_start)
            if flexible:
                out += b"\1\0\0"
            elif version == 8:
                out += b"\0\0\0\0\xff\xff"
        if flexible:
            out.append(0)
    out += bytes(4)
    if flexible:
        out.append(0)
    out[:4] = INT32.pack(len(out) - 4)
    return bytes(out)


def _put_count(out: bytearray, number: int, flexible: bool) -> None:
    if not flexible:
        out += INT32.pack(number)
        return
    number += 1
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
