"""The codecs, each packed and unpacked by a well-kept library; `records.compression` chooses one.

`pieces` yields the same in buffers of some `PIECE_BYTES`, each good until the next one is asked for.

Compressed data comes from strangers. Every `unpack` takes `max_size`, in bytes, and raises `TooLargeError`
for more; it allocates no more than that, nor more than the data could unpack to by its format's own rules.
Data that does not unpack is a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

PIECE_BYTES: Final = 256 * 1024

MAX_FRAMES: Final = 4_096
"""So many members of gzip or frames of zstd may follow one another in a batch. Writers make one; a million
bytes of empty ones would keep a broker busy."""
MAX_BLOCKS: Final = 65_536
"""So many blocks may a frame of snappy or zstd have. As writers make them that is 2 or 8 GiB; empty ones
would keep a broker busy as well."""


class TooLargeError(Exception):
    """It unpacks to more than is allowed."""


def joined(parts: Sequence[Any]) -> memoryview:
    """Return the bytes of some buffers as one; of a single one they are not copied."""
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
