"""Randomness as something handed in. `random.Random(seed)` fulfils it in tests."""

from __future__ import annotations

import os
from typing import Protocol


class RandomSource(Protocol):
    """A source of random numbers."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to `stop` - 1."""
        ...

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""
        ...


class SystemRandomSource:
    """The operating system's randomness."""

    def randrange(self, stop: int, /) -> int:
        """See `RandomSource.randrange`. The bias is below `stop` / 2**64."""
        return int.from_bytes(os.urandom(8), "big") % stop

    def randbytes(self, n: int, /) -> bytes:
        """See `RandomSource.randbytes`."""
        return os.urandom(n)


def random_uuid(rng: RandomSource) -> bytes:
    """A random UUID (version 4) that is not reserved and whose text does not begin with a dash, as Kafka
    wants topic ids and cluster ids to be."""
    while True:
        value = bytearray(rng.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        # The text's first character is a dash when the first six bits are 62.
        if value[0] >> 2 != 62:
            return bytes(value)
