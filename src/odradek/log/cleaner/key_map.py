"""The newest offset of each key, in bounded memory.

Keys are kept as 16-byte hashes under a secret of this map, so that nobody can make two keys of theirs fall
together; like Kafka's map it takes two different keys of the same hash for one (2^-128).
"""

from __future__ import annotations

import os
from hashlib import blake2b

SLOT_BYTES = 24
"""What Kafka's map takes for a key: the hash and the offset. `log.cleaner.dedupe.buffer.size` is in these."""

PYTHON_SLOT_BYTES = 200
"""What an entry of a dict takes, with its key and its offset."""

HASH_BYTES = 16


class KeyMap:
    """A map of at most `capacity` keys.

    Attributes: `latest_offset`: how far the log has been looked at, -1 for not at all.
    """

    def __init__(self, dedupe_bytes: int, load_factor: float) -> None:
        """Room for as many keys as fit `dedupe_bytes`, filled up to `load_factor`; at least one."""
        self.capacity = max(1, int(dedupe_bytes / PYTHON_SLOT_BYTES * load_factor))
        self.latest_offset = -1
        self._secret = os.urandom(32)
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a record; false, and nothing is noted, when the map is full."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[blake2b(key, digest_size=HASH_BYTES, key=self._secret).digest()] = offset
        return True

    def get(self, key: bytes) -> int:
        """The newest offset of a key, -1 if none is known."""
        return self._offsets.get(blake2b(key, digest_size=HASH_BYTES, key=self._secret).digest(), -1)

    def note_read(self, offset: int) -> None:
        """Everything up to this offset is in the map."""
        self.latest_offset = max(self.latest_offset, offset)

    @property
    def utilization(self) -> float:
        """How full the map is, 0 to 1."""
        return len(self._offsets) / self.capacity
