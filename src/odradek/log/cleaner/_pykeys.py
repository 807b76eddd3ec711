"""The newest offset of each key, in bounded memory, and the loops over records that use it; pure Python.

The twin of `_cleaner`. Keys are kept as 16-byte hashes under a secret of the map, so that nobody can
make two keys of theirs fall together; like Kafka's map it takes two different keys of the same hash for one
(2^-128).
"""

from __future__ import annotations

import os
from hashlib import blake2b

from odradek.records._pyscan import read_varint, scan, wrap64
from odradek.records.problems import OK, TRAILING
from odradek.records.varint import encode_varint, encode_varlong

Buffer = bytes | bytearray | memoryview

SLOT_BYTES = 200
"""What an entry of a dict takes, with its key and its offset. (The compiled map takes 24, as Kafka's.)"""

HASH_BYTES = 16


class KeyMap:
    """A map of at most `capacity` keys.

    Attributes: `latest_offset`: how far the log has been looked at, -1 for not at all.
    """

    def __init__(self, dedupe_bytes: int, load_factor: float) -> None:
        """Room for as many keys as fit `dedupe_bytes`, filled up to `load_factor`; at least one."""
        self.capacity = max(1, int(dedupe_bytes // SLOT_BYTES * load_factor))
        self.latest_offset = -1
        self._secret = os.urandom(32)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """Return how full the map is, 0 to 1."""
        return len(self._offsets) / self.capacity

    def note_read(self, offset: int) -> None:
        """Everything up to this offset is in the map."""
        self.latest_offset = max(self.latest_offset, offset)

    def _hash(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=HASH_BYTES, key=self._secret).digest()

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a record; false, and nothing is noted, when the map is full."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[self._hash(key)] = offset
        return True

    def get(self, key: bytes) -> int:
        """The newest offset of a key, -1 if none is known."""
        return self._offsets.get(self._hash(key), -1)

    def index(
        self, section: Buffer, count: int, base_offset: int, start_offset: int
    ) -> tuple[int, int, bool]:
        """Note the offsets of a batch's records.

        Args:
            section: the uncompressed records, and nothing else.
            count: how many there must be.
            base_offset: the batch's.
            start_offset: records below are passed over; so are those without a key.

        Returns:
            The problem (0 when all is well), the index of the record that has it or that found the map full,
            and whether the map was full.
        """
        data = bytes(section)
        size, position, count = len(data), 0, max(count, 0)
        for number in range(count):
            problem, position, _, offset_delta, key_at, key_length, *_ = scan(data, position, size)
            if problem:
                return problem, number, False
            offset = base_offset + offset_delta
            if (
                key_length >= 0
                and offset >= start_offset
                and not self.put(data[key_at : key_at + key_length], offset)
            ):
                return OK, number, True
        return (OK if position == size else TRAILING), count, False

    def retain(
        self,
        section: Buffer,
        count: int,
        base_offset: int,
        timestamp: int,
        append_time: bool,
        keep_tombstones: bool,
        horizon: int | None,
    ) -> tuple[int, int, int, int, bool, int, int, bytes]:
        """The records of a batch that stay.

        A record stays when it is beyond `latest_offset`; or it has a key, no newer record of that key is
        known, and it is no tombstone or tombstones are kept.

        Args:
            section: the uncompressed records, and nothing else.
            count: how many there must be.
            base_offset: the batch's.
            timestamp: the batch's base timestamp; with `append_time` the timestamp of all records.
            keep_tombstones: whether a null value may stay.
            horizon: the base timestamp of the new batch; None for that of its first record.

        Returns:
            The problem (0 when all is well), how many records were looked at, how many stay, how many had no
            key, whether a tombstone stays, the base timestamp (0 without a record), the largest timestamp
            (at least -1), and the records, their timestamps relative to that base.
        """
        data = bytes(section)
        size, position, count = len(data), 0, max(count, 0)
        kept: list[bytes] = []
        keyless, tombstones, base, max_timestamp = 0, False, horizon, -1
        for number in range(count):
            start = position
            problem, position, timestamp_delta, offset_delta, key_at, key_length, _, value_length, _, _ = (
                scan(data, position, size)
            )
            if problem:
                count = number
                break
            offset = base_offset + offset_delta
            if offset <= self.latest_offset:
                if key_length < 0:
                    keyless += 1
                    continue
                if offset < self.get(data[key_at : key_at + key_length]):
                    continue
                if value_length < 0 and not keep_tombstones:
                    continue
            tombstones |= value_length < 0
            own = timestamp if append_time else wrap64(timestamp + timestamp_delta)
            if base is None:
                base = own
            max_timestamp = max(max_timestamp, own)
            kept.append(_with_timestamp(data, start, position, wrap64(own - base)))
        else:
            problem = OK if position == size else TRAILING
        return problem, count, len(kept), keyless, tombstones, base or 0, max_timestamp, b"".join(kept)


def _with_timestamp(data: bytes, start: int, end: int, timestamp_delta: int) -> bytes:
    """A record as it is, but for its timestamp."""
    _, at = read_varint(data, start, end)
    _, rest = read_varint(data, at + 1, end, 10)
    body = data[at : at + 1] + encode_varlong(timestamp_delta) + data[rest:end]
    return encode_varint(len(body)) + body
