"""One record's structure, in pure Python: where its fields are, or what is wrong with it.

length     varint     of all that follows
attributes int8       unused
timestamp  varlong    delta to the batch's base timestamp
offset     varint     delta to the batch's base offset
key        varint length (-1: null), bytes
value      varint length (-1: null), bytes
headers    varint count, each: varint length + UTF-8 key, varint length (-1: null) + value
"""

from __future__ import annotations

from odradek.records.problems import HEADER_COUNT, LENGTH, MISMATCH, OK, STRUCTURE, TRUNCATED

Scan = tuple[int, int, int, int, int, int, int, int, int, int]
"""(problem, next record's position, timestamp delta, offset delta, key position, key length (-1: null),
value position, value length (-1: null), position of the first header, number of headers)"""

INT64_MIN = -0x8000_0000_0000_0000
INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MASK = 0xFFFF_FFFF_FFFF_FFFF


def wrap64(value: int) -> int:
    """`value` as a signed 64-bit integer, wrapped around as Java (and C) does."""
    value &= _INT64_MASK
    return value - 0x1_0000_0000_0000_0000 if value >= 0x8000_0000_0000_0000 else value


def read_varint(data: bytes, position: int, end: int, max_bytes: int = 5) -> tuple[int, int]:
    """(value, position after it); position -1: the bytes end first, -2: the varint is too long."""
    if position + 1 < end:
        # One or two bytes, nearly all there are, without the loop.
        raw = data[position]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        byte = data[position + 1]
        if byte < 0x80:
            raw = (raw & 0x7F) | byte << 7
            return (raw >> 1) ^ -(raw & 1), position + 2
    raw = shift = 0
    stop = position + max_bytes
    while position < end:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFF_FFFF if max_bytes == 5 else _INT64_MASK
            return (raw >> 1) ^ -(raw & 1), position
        if position == stop:
            return 0, -2
        shift += 7
    return 0, -1


def _bad(problem: int) -> Scan:
    return (problem, 0, 0, 0, 0, 0, 0, 0, 0, 0)


_BAD_STRUCTURE = _bad(STRUCTURE)


def scan(data: bytes, position: int, size: int) -> Scan:
    """The record at `position` of `data`, whose records end at `size`. Nothing is copied."""
    # One-byte varints, nearly all there are, are read in place: a call would cost more than the rest.
    if position < size and (byte := data[position]) < 0x80:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = read_varint(data, position, size)
        if position < 0:
            return _bad(TRUNCATED) if position == -1 else _BAD_STRUCTURE
    if length < 0 or length > size - position:
        return _bad(LENGTH)
    end = position + length
    if length == 0:
        return _BAD_STRUCTURE
    position += 1  # attributes

    if position < end and (byte := data[position]) < 0x80:
        timestamp_delta = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        timestamp_delta, position = read_varint(data, position, end, 10)
        if position < 0:
            return _BAD_STRUCTURE
    if position < end and (byte := data[position]) < 0x80:
        offset_delta = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        offset_delta, position = read_varint(data, position, end)
        if position < 0:
            return _BAD_STRUCTURE

    if position < end and (byte := data[position]) < 0x80:
        key_length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        key_length, position = read_varint(data, position, end)
        if position < 0:
            return _BAD_STRUCTURE
    if key_length < -1 or key_length > end - position:
        return _BAD_STRUCTURE
    key_position = position
    if key_length > 0:
        position += key_length

    if position < end and (byte := data[position]) < 0x80:
        value_length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        value_length, position = read_varint(data, position, end)
        if position < 0:
            return _BAD_STRUCTURE
    if value_length < -1 or value_length > end - position:
        return _BAD_STRUCTURE
    value_position = position
    if value_length > 0:
        position += value_length

    header_count, position = read_varint(data, position, end)
    if position < 0:
        return _BAD_STRUCTURE
    headers_position = position
    if header_count:
        # A header takes two bytes at least: a larger count cannot be, and would keep the loop busy.
        if header_count < 0 or header_count > end - position:
            return _bad(HEADER_COUNT)
        position = _skip_headers(data, position, end, header_count)
        if position < 0:
            return _BAD_STRUCTURE
    if position != end:
        return _bad(MISMATCH)
    return (
        OK,
        end,
        timestamp_delta,
        offset_delta,
        key_position,
        key_length,
        value_position,
        value_length,
        headers_position,
        header_count,
    )


def _skip_headers(data: bytes, position: int, end: int, count: int) -> int:
    """The position after `count` headers; negative when one of them does not end."""
    for _ in range(count):
        name_length, position = read_varint(data, position, end)
        if position < 0 or name_length < 0 or name_length > end - position:
            return -1
        position += name_length
        payload_length, position = read_varint(data, position, end)
        if position < 0 or payload_length < -1 or payload_length > end - position:
            return -1
        if payload_length > 0:
            position += payload_length
    return position


def read_headers(data: bytes, position: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """`count` headers at `position`, whose structure `scan` has checked."""
    end = len(data)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(data, position, end)
        name = data[position : position + length].decode("utf-8", "replace")
        position += length
        length, position = read_varint(data, position, end)
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[position : position + length]))
            position += length
    return tuple(headers)
