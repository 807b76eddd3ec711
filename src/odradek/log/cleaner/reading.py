"""The batches and messages of a segment, read in pieces and checked: damage is never copied on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from odradek.errors import CorruptRecordError
from odradek.log.producers.producer_replay import read_marker
from odradek.log.storage.files import FileSystem
from odradek.records.batch import BatchHeader
from odradek.records.control import EndTransactionMarker
from odradek.records.message_sets.message_set import Entry, check_entry, iter_entries, parse_entry


def read_batches(
    files: FileSystem,
    path: Path,
    size: int,
    io_bytes: int,
    on_read: Callable[[int], None],
    position: int = 0,
) -> Iterator[tuple[Entry, memoryview]]:
    """Every batch, and message of magic 0 or 1, of a segment from a batch boundary on.

    Args:
        path, size: the segment; what stands behind `size` bytes does not count.
        io_bytes: how much is read at once; more for a batch that is larger.
        on_read: called with the number of bytes of each read, before it.

    Raises:
        KafkaError: CORRUPT_MESSAGE for a batch that is damaged or not whole.
        OSError: reading failed.
    """
    file = files.open(path)
    try:
        while position < size:
            wanted = min(io_bytes, size - position)
            on_read(wanted)
            block = file.pread(wanted, position)
            taken = 0
            for header, batch in iter_entries(block):
                check_entry(header, batch)
                yield header, batch
                taken += header.size
            if not taken:
                header, batch = _large_batch(file.pread, path, position, size, block, on_read)
                yield header, batch
                taken = header.size
            position += taken
    finally:
        file.close()


def _large_batch(
    pread: Callable[[int, int], bytes],
    path: Path,
    position: int,
    size: int,
    block: bytes,
    on_read: Callable[[int], None],
) -> tuple[Entry, memoryview]:
    try:
        header = parse_entry(block)
    except CorruptRecordError:
        raise CorruptRecordError(f"{path} has no whole batch at position {position}") from None
    if header.size > size - position:
        raise CorruptRecordError(f"{path} has no whole batch at position {position}")
    on_read(header.size)
    batch = memoryview(pread(header.size, position))
    if len(batch) < header.size:
        raise CorruptRecordError(f"{path} ends within the batch at position {position}")
    check_entry(header, batch)
    return header, batch


def marker_of(header: BatchHeader, batch: memoryview) -> EndTransactionMarker | None:
    """The marker of a control batch; None for other batches, empty ones and other control records."""
    return read_marker(header, batch) if header.is_control and header.record_count else None
