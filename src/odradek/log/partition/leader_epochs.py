# compiled: mypyc
"""At which offset each leader epoch began: `leader-epoch-checkpoint` (KIP-101, KIP-279).

Followers and consumers ask where an epoch ended to find out what they have that the leader has not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from odradek.log.storage.checkpoint_file import (
    CorruptCheckpointError,
    EpochEntry,
    decode_lines,
    encode_lines,
)
from odradek.log.storage.files import FileSystem

UNDEFINED_EPOCH: Final = -1


class LeaderEpochs:
    """The epochs of one partition. Invariant: epochs and start offsets both rise strictly.

    A change is written to the file before it counts, except a truncation, which loading the log repeats; it
    may be left out of the file until the next change. The file is not synced here (`writes` counts):
    until it is, the epochs are found again in the records, which are not below the recovery point either.
    """

    def __init__(self, files: FileSystem, path: Path) -> None:
        self._files = files
        self._path = path
        self._entries: list[EpochEntry] = []
        self.writes = 0
        self._written: list[EpochEntry] | None = None
        """What the file says; None while that is not known, as after a write that failed. Never changed in
        place, as it may be `_entries` itself."""

    def move_to(self, path: Path) -> None:
        """Use the file at another path from now on, which has the same content."""
        self._path = path

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptCheckpointError: the file does not parse.
            OSError: it cannot be read.
        """
        self._entries = []
        if not self._files.exists(self._path):
            return
        for epoch, start_offset in decode_lines(self._files.read(self._path), 2, self._path):
            try:
                self._entries = self._assigned(EpochEntry(int(epoch), int(start_offset)))
            except ValueError:
                raise CorruptCheckpointError(
                    f"{self._path} has the malformed line {epoch} {start_offset}"
                ) from None
        self._written = self._entries

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, oldest first."""
        return list(self._entries)

    @property
    def latest(self) -> int:
        """The latest epoch, -1 if none is known."""
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    @property
    def earliest(self) -> EpochEntry | None:
        """The first entry."""
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins at the offset, unless it is the latest and has begun before.

        Raises:
            OSError: the file cannot be written.
        """
        if self._entries:
            last = self._entries[-1]
            if last.epoch == epoch and last.start_offset <= start_offset:
                return
        self._replace(self._assigned(EpochEntry(epoch, start_offset)))

    def assign_all(self, entries: list[EpochEntry]) -> None:
        """Assign several epochs, and write the file once; see `assign`."""
        before = self._entries
        try:
            for entry in entries:
                self._entries = self._assigned(entry)
            after = self._entries
        finally:
            self._entries = before
        if after != before:
            self._replace(after)

    def _assigned(self, new: EpochEntry) -> list[EpochEntry]:
        if new.epoch < 0 or new.start_offset < 0:
            raise ValueError(f"no leader epoch is {new}")
        if self._entries:
            last = self._entries[-1]
            if last.epoch == new.epoch and last.start_offset <= new.start_offset:
                return self._entries
        # What contradicts the newest knowledge goes: it is from a leader that was superseded.
        kept = list(self._entries)
        while kept and (kept[-1].epoch >= new.epoch or kept[-1].start_offset >= new.start_offset):
            kept.pop()
        return [*kept, new]

    def _replace(self, entries: list[EpochEntry]) -> None:
        self._write(entries)
        self._entries = entries

    def _write(self, entries: list[EpochEntry]) -> None:
        if entries == self._written:
            return
        self._written = None
        lines = (f"{entry.epoch} {entry.start_offset}" for entry in entries)
        self._files.write_atomically(self._path, encode_lines(lines), sync=False)
        self._written = list(entries)
        self.writes += 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry | None:
        """The largest known epoch not above this one, and where it ended; None if that cannot be said.

        For an epoch older than all that are known it is that epoch, ending where the first known one begins.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return None
        if epoch == self.latest:
            return EpochEntry(epoch, log_end_offset)
        slot = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if slot == len(self._entries):
            return None
        end_offset = self._entries[slot].start_offset
        return EpochEntry(self._entries[slot - 1].epoch if slot else epoch, end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs from the log's end on; `save` writes that down."""
        slot = bisect_left(self._entries, end_offset, key=lambda entry: entry.start_offset)
        self._entries = self._entries[:slot]

    def truncate_from_start(self, start_offset: int) -> None:
        """Let the first epoch begin at the log's start, forgetting those before; `save` writes that down."""
        slot = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if slot:
            first = EpochEntry(self._entries[slot - 1].epoch, start_offset)
            self._entries = [first, *self._entries[slot:]]

    def save(self) -> None:
        """Write the file if it says something else.

        Raises:
            OSError: the file cannot be written.
        """
        self._write(self._entries)

    def clear(self) -> None:
        """Forget everything.

        Raises:
            OSError: the file cannot be written.
        """
        self._entries = []
        self._write([])
