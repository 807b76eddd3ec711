"""A segment that the cleaner writes, its files named `.cleaned`."""

from __future__ import annotations

from pathlib import Path

from odradek.log.segments.segment import Segment
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.segments.txn_index import AbortedTxn
from odradek.log.storage.file_names import CLEANED_SUFFIX, with_marker
from odradek.log.storage.files import Buffer, FileSystem


class NewSegment:
    """Takes batches in order.

    Attributes: `size`: bytes so far.

    Raises:
        OSError: by every method, where a file cannot be written.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        base_offset: int,
        index_interval: int,
        index_bytes: int,
        now_ms: int,
    ) -> None:
        self._files = files
        self._interval = max(index_interval, 1)
        segment = Segment(files, directory, base_offset, index_interval, index_bytes)
        segment.path = with_marker(segment.path, CLEANED_SUFFIX)
        for index in (segment.offset_index, segment.time_index, segment.txn_index):
            index.path = with_marker(index.path, CLEANED_SUFFIX)
        segment.create(now_ms)
        self._segment = segment
        self._waiting: list[Buffer] = []
        self._batches: list[tuple[int, int]] = []
        self._waiting_bytes = 0
        self._newest = TimestampOffset(NO_TIMESTAMP, base_offset)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._segment.size + self._waiting_bytes

    def add(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write a batch; those that are smaller than the distance of index entries together."""
        self._waiting.append(batch)
        self._batches.append((len(batch), last_offset))
        self._waiting_bytes += len(batch)
        if max_timestamp > self._newest.timestamp:
            self._newest = TimestampOffset(max_timestamp, last_offset)
        if self._waiting_bytes >= self._interval:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._segment.append(self._waiting, self._waiting_bytes, self._batches, self._newest)
            self._waiting, self._batches, self._waiting_bytes = [], [], 0
            self._newest = TimestampOffset(NO_TIMESTAMP, self._segment.base_offset)

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Name an aborted transaction in the transaction index."""
        self._segment.txn_index.append(txn)

    def complete(self, modified_ms: int) -> None:
        """Write what is left, and return when all is on the disk. The file gets a time of last writing."""
        self._write()
        self._segment.become_inactive()
        self._segment.release()
        self._files.set_modified_ms(self._segment.path, modified_ms)
        for path in self._segment.paths():
            self._files.fsync(path)

    def remove(self) -> None:
        """Give it up."""
        self._segment.release()
        for path in self._segment.paths():
            self._files.remove(path)
