"""The usual Fetch request read, and its response written. Compiled twin: `odradek._fetch`.

The layouts are those of `odradek.wire.messages.fetch`; what is here knows them by heart, and leaves
everything rare (tagged fields, forgotten topics, followers, topics named twice, negative sizes, text that is
not ASCII) to the declared codec.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any

from odradek.broker.fast import _pyframes as frames
from odradek.broker.fast._pyframes import Unusual

INLINE_BYTES = 8192
"""Records up to here are copied into the response; beyond, they are buffers of their own."""

_HEAD = Struct(">hhih")
_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_INT32 = Struct(">i")
_INT16 = Struct(">h")
_V4 = Struct(">iqi")
_V5 = Struct(">iqqi")
_V9 = Struct(">iiqqi")
_V12 = Struct(">iiqiqib")

Partition = tuple[int, int, int, int, int, int]
"""Index, fetch offset, partition_max_bytes, current leader epoch, log start offset, last fetched epoch."""

Parsed = tuple[int, int, int, int, int, int, int, int, list[tuple[Any, list[Partition]]]]
"""Version, correlation id, max_wait_ms, min_bytes, max_bytes, isolation level, session id, session epoch, and
the partitions by topic: a name, or the 16 bytes of an id from version 13 on."""


def parse_fetch(frame: Any) -> Parsed | None:
    """Read a frame that holds a usual Fetch request.

    Args:
        frame: a request without its size, of any content.

    Returns:
        What is in it, or None where the declared codec is to judge.
    """
    try:
        return _parse(bytes(frame))
    except (Unusual, error, IndexError):
        return None


def _parse(data: bytes) -> Parsed:
    key, version, correlation_id, length = _HEAD.unpack_from(data)
    if key != 1 or not 4 <= version <= 18 or length < -1:
        raise Unusual
    flexible = version >= 12
    at = _HEAD.size
    if length > 0:
        at = frames.text(data, at, length)[1]
    if flexible:
        at = frames.no_tags(data, at)
    if version < 15:
        if _INT32.unpack_from(data, at)[0] >= 0:
            raise Unusual
        at += 4
    max_wait, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(data, at)
    at += _LIMITS.size
    session_id, session_epoch = 0, -1
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(data, at)
        at += _SESSION.size
    count, at = frames.count(data, at, flexible)
    wanted: list[tuple[Any, list[Partition]]] = []
    seen: set[Any] = set()
    topic: Any
    for _ in range(count):
        if version >= 13:
            topic, at = data[at : at + 16], at + 16
            if len(topic) < 16:
                raise Unusual
        else:
            length, at = frames.length(data, at, flexible)
            topic, at = frames.text(data, at, length)
        if topic in seen:
            raise Unusual
        seen.add(topic)
        partitions, at = frames.count(data, at, flexible)
        if partitions == 0:
            raise Unusual
        parts: list[Partition] = []
        for _ in range(partitions):
            part, at = _partition(data, at, version)
            parts.append(part)
        if flexible:
            at = frames.no_tags(data, at)
        wanted.append((topic, parts))
    if version >= 7:
        forgotten, at = frames.count(data, at, flexible)
        if forgotten:
            raise Unusual
    if version >= 11:
        length, at = frames.length(data, at, flexible)
        at = frames.text(data, at, length)[1]
    if flexible:
        frames.no_tags(data, at)
    return (
        version,
        correlation_id,
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        wanted,
    )


def _partition(data: bytes, at: int, version: int) -> tuple[Partition, int]:
    epoch = last_epoch = log_start = -1
    if version >= 12:
        index, epoch, offset, last_epoch, log_start, most, tags = _V12.unpack_from(data, at)
        if tags:
            raise Unusual
        at += _V12.size
    elif version >= 9:
        index, epoch, offset, log_start, most = _V9.unpack_from(data, at)
        at += _V9.size
    elif version >= 5:
        index, offset, log_start, most = _V5.unpack_from(data, at)
        at += _V5.size
    else:
        index, offset, most = _V4.unpack_from(data, at)
        at += _V4.size
    if most < 0:
        raise Unusual
    return (index, offset, most, epoch, log_start, last_epoch), at


def encode_fetch(
    version: int, correlation_id: int, session_id: int, committed: bool, answers: list[Any]
) -> list[Any]:
    """Write a Fetch response without errors, aborted transactions or tagged fields, size and header included.

    Args:
        version: of the request, 4 to 18.
        correlation_id: of the request.
        session_id: 0 for none.
        committed: whether the fetch was read_committed: then its list of aborted transactions is empty, else
            null.
        answers: `(topic, partitions)` in order; a topic is a name, or 16 bytes from version 13 on; a
            partition is `(index, high_watermark, last_stable_offset, log_start_offset, records)`, records
            being bytes or whatever has a length.

    Returns:
        Buffers; the records that are large or no bytes among them as they were given.
    """
    flexible = version >= 12
    out = bytearray(_INT32.pack(0) + _INT32.pack(correlation_id))
    if flexible:
        out.append(0)
    out += bytes(4)
    if version >= 7:
        out += b"\0\0" + _INT32.pack(session_id)
    _put_count(out, len(answers), flexible)
    cuts: list[tuple[int, Any]] = []
    for topic, partitions in answers:
        if version >= 13:
            out += topic
        else:
            text = topic.encode()
            if flexible:
                _put_uvarint(out, len(text) + 1)
            else:
                out += _INT16.pack(len(text))
            out += text
        _put_count(out, len(partitions), flexible)
        for index, high_watermark, last_stable, log_start, records in partitions:
            out += _PARTITION.pack(index, 0, high_watermark, last_stable)
            if version >= 5:
                out += _INT64.pack(log_start)
            if flexible:
                out.append(1 if committed else 0)
            else:
                out += _INT32.pack(0 if committed else -1)
            if version >= 11:
                out += _INT32.pack(-1)
            size = len(records)
            _put_count(out, size, flexible)
            if size <= INLINE_BYTES and records.__class__ is bytes:
                out += records
            else:
                cuts.append((len(out), records))
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    _INT32.pack_into(out, 0, len(out) - 4 + sum(len(records) for _, records in cuts))
    whole = bytes(out)
    if not cuts:
        return [whole]
    buffers: list[Any] = []
    done = 0
    for at, records in cuts:
        buffers += whole[done:at], records
        done = at
    if done < len(whole):
        buffers.append(whole[done:])
    return buffers


_PARTITION = Struct(">ihqq")
_INT64 = Struct(">q")


def _put_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        _put_uvarint(out, count + 1)
    else:
        out += _INT32.pack(count)


def _put_uvarint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
