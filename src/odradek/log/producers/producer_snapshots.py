"""Producer state on the disk: `<offset>.snapshot` (docs/log_format.md, "Producer snapshots").

A snapshot is written when a segment is rolled and at a clean stop, so that a start need not read the whole
log. A snapshot that is damaged is removed, and an older one is used: the log has all that it said.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable
from pathlib import Path

from fastcrc import crc32

from odradek.log.producers.producer_state import (
    NO_OFFSET,
    BatchMetadata,
    ProducerEntry,
    ProducerState,
    is_expired,
)
from odradek.log.storage.file_names import SNAPSHOT_SUFFIX, numbered, parse_numbered
from odradek.log.storage.files import FileSystem
from odradek.records.batch import NO_SEQUENCE

logger = logging.getLogger(__name__)

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_COVERS_FROM = 6
"""Behind the version and the CRC itself."""


class CorruptSnapshotError(Exception):
    """A snapshot that does not parse or whose CRC is wrong."""


def encode_snapshot(state: ProducerState) -> bytes:
    """The file's content, producers in the order of their ids."""
    body = bytearray()
    for producer_id in sorted(state.entries):
        entry = state.entries[producer_id]
        last = entry.last_batch
        body += _ENTRY.pack(
            producer_id,
            entry.epoch,
            last.last_sequence if last else NO_SEQUENCE,
            last.last_offset if last else NO_OFFSET,
            last.offset_delta if last else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
    content = bytearray(_HEAD.pack(VERSION, 0, len(state.entries)) + body)
    crc = crc32.iscsi(memoryview(content)[_CRC_COVERS_FROM:])
    _HEAD.pack_into(content, 0, VERSION, crc, len(state.entries))
    return bytes(content)


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """The producers in a file.

    Raises:
        CorruptSnapshotError: it does not parse, or its CRC is wrong.
    """
    try:
        version, crc, count = _HEAD.unpack_from(content)
        fields = list(_ENTRY.iter_unpack(content[_HEAD.size :]))
    except struct.error as error:
        raise CorruptSnapshotError(f"it does not parse: {error}") from None
    if version != VERSION:
        raise CorruptSnapshotError(f"it has version {version}, known is {VERSION}")
    computed = crc32.iscsi(memoryview(content)[_CRC_COVERS_FROM:])
    if crc != computed:
        raise CorruptSnapshotError(f"its CRC is {computed:#010x}, it says {crc:#010x}")
    if count != len(fields):
        raise CorruptSnapshotError(f"it has {len(fields)} producers, it says {count}")
    entries = []
    for producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn in fields:
        # Of the five batches the format has the last alone; `recall_recent_batches` reads the others.
        last = BatchMetadata(last_sequence, last_offset, delta, timestamp) if last_offset >= 0 else None
        entries.append(
            ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, max(txn, NO_OFFSET), last)
        )
    return entries


class ProducerSnapshots:
    """The snapshots in one partition's folder. `offsets` are sorted.

    Raises:
        OSError: by every method that touches the disk.
    """

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self.directory = directory
        self.offsets: list[int] = []
        self._newest = 0
        """The offset that the newest snapshot has, or needs not have because the log begins there."""

    def path(self, offset: int) -> Path:
        """The file of a snapshot."""
        return self.directory / numbered(offset, SNAPSHOT_SUFFIX)

    @property
    def latest(self) -> int | None:
        """The newest snapshot's offset."""
        return self.offsets[-1] if self.offsets else None

    def know(self, names: Iterable[str]) -> None:
        """Find the snapshots among the names in the folder."""
        parsed = (parse_numbered(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self.offsets = sorted(name[0] for name in parsed if name and name[1:] == (SNAPSHOT_SUFFIX, ""))

    def remove(self, offset: int) -> None:
        """Remove the snapshot at an offset, if there is one."""
        if offset in self.offsets:
            self._files.remove(self.path(offset))
            self.forget(offset)

    def forget(self, offset: int) -> None:
        """Forget a snapshot whose file is gone, or has been renamed to go."""
        if offset in self.offsets:
            self.offsets.remove(offset)

    def restart_at(self, offset: int) -> None:
        """Remove all snapshots, for a log that begins anew at the offset."""
        for old in list(self.offsets):
            self.remove(old)
        self._newest = offset

    def remove_strays(self, base_offsets: list[int]) -> None:
        """Remove the snapshots at no segment's base offset, except one behind all of them: a clean stop's."""
        last_base = base_offsets[-1] if base_offsets else -1
        bases = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in bases]
        # A clean stop takes one at the log's end, where the next segment need not begin.
        keep = strays[-1] if strays and strays[-1] >= last_base else None
        for offset in strays:
            if offset != keep:
                self.remove(offset)

    def load(
        self, state: ProducerState, log_start_offset: int, at_most: int, now_ms: int, expiration_ms: int
    ) -> None:
        """Fill an empty state from the newest good snapshot between the log's start and `at_most`.

        Without one it is the state at the log's start. Snapshots that are damaged or out of these bounds are
        removed.
        """
        for offset in list(self.offsets):
            if offset > at_most or offset < log_start_offset:
                self.remove(offset)
        while self.offsets:
            offset = self.offsets[-1]
            try:
                entries = decode_snapshot(self._files.read(self.path(offset)))
            except CorruptSnapshotError as error:
                logger.warning("removing the producer snapshot %s: %s", self.path(offset), error)
                # From an older one a longer replay comes to the same state.
                self.remove(offset)
                continue
            for entry in entries:
                # As if it had expired while the broker was down (`ProducerStateManager.loadFromSnapshot`).
                if not is_expired(entry, now_ms, expiration_ms):
                    state.load(entry)
            state.end_offset = self._newest = offset
            return
        state.end_offset = self._newest = log_start_offset

    def take(self, state: ProducerState, *, sync: bool) -> Path | None:
        """Write a snapshot of the state; None if there is one for its offset already."""
        offset = state.end_offset
        # Nothing has come since the last: its file says the same.
        if offset <= self._newest:
            return None
        path = self.path(offset)
        file = self._files.open(path, create=True)
        try:
            content = encode_snapshot(state)
            file.truncate(0)
            file.pwrite([content], 0)
            if sync:
                file.fsync()
        except OSError:
            # Half a snapshot would be found out by its CRC, but need not lie around.
            file.close()
            self._files.remove(path)
            raise
        file.close()
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])
        self._newest = offset
        return path
