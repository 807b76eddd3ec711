"""The batches and messages of something too large to be held in memory, read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.records.batch import HEADER_BYTES, LOG_OVERHEAD
from odradek.records.message_sets.message_set import INT32, Entry, iter_entries

BLOCK_BYTES = 128 * 1024


def read_entries(
    pread: Callable[[int, int], bytes], size: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[Entry, memoryview]]:
    """As `iter_entries`, of `size` bytes that are read as they are needed.

    Args:
        pread: `(size, position) -> bytes`; may raise `OSError`.
        size: how many bytes there are.
        block_bytes: how many are read at once; more for an entry that is larger.

    Raises:
        KafkaError: as `iter_entries`.
        OSError: as `pread`.
    """
    position = 0
    block_size = max(block_bytes, HEADER_BYTES)
    while position < size:
        block = pread(min(block_size, size - position), position)
        consumed = 0
        for header, entry in iter_entries(block):
            yield header, entry
            consumed += len(entry)
        if consumed:
            block_size = max(block_bytes, HEADER_BYTES)
        elif position + len(block) >= size or len(block) < min(block_size, size - position):
            return
        else:
            block_size = max(INT32.unpack_from(block, 8)[0] + LOG_OVERHEAD, 2 * block_size)
        position += consumed
