"""Confluent's wire format: a zero, the schema's id in four bytes, and of protobuf the path to the message.

Pure. The compiled decoders of `odradek.spark.formats` walk over the same bytes on their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.records.varint import encode_varlong

HEADER_SIZE = 5


def frame_of(schema_id: int) -> bytes:
    """Return the bytes before a record that say by which schema it was written."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def schema_id_of(data: bytes) -> int:
    """Return the id of the schema by which a record was written.

    Raises:
        ValueError: the record does not begin as the wire format does.
    """
    if len(data) < HEADER_SIZE:
        raise ValueError(f"{len(data)} bytes are too few for the wire format of schema registries")
    if data[0]:
        raise ValueError(
            f"its first byte is {data[0]}, not 0: it is not in the wire format of schema registries"
        )
    return int.from_bytes(data[1:HEADER_SIZE], "big")


def encode_message_indexes(path: Sequence[int]) -> bytes:
    """Return the path to a message type in its file; a single zero stands for the first message."""
    return b"\x00" if list(path) == [0] else b"".join(map(encode_varlong, [len(path), *path]))


def message_indexes(data: bytes, at: int = 0) -> tuple[list[int], int]:
    """Return the path to a message type, and where it ends.

    Raises:
        ValueError: the path is longer than the data, or than any path is.
    """
    count, at = _varint(data, at)
    if not 0 <= count <= len(data) - at:
        raise ValueError(f"it has {count} message indexes in {len(data) - at} bytes")
    if not count:
        return [0], at
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        # More bits than an int has are no index.
        if at == len(data) or shift > 28:
            raise ValueError("its message indexes end too early, or never")
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
