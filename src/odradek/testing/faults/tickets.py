"""Numbers that are drawn, each once: by the threads of a process, or by several processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Tickets(Protocol):
    """A counter."""

    def draw(self) -> int:
        """Return the next number, from 1."""
        ...

    @property
    def drawn(self) -> int:
        """The last number that was drawn."""
        ...


class OwnTickets:
    """Tickets of one process; whoever draws holds a lock."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self) -> int:
        """See `Tickets.draw`."""
        self.drawn += 1
        return self.drawn


class SharedTickets:
    """Tickets of all processes that name the same file: each is a byte at its end.

    The kernel appends under a lock of its own, which no process can die or be stopped with.
    """

    def __init__(self, path: Path) -> None:
        """
        Args:
            path: of a file in a folder that there is.
        """
        self.path = path
        self._seen = 0

    def draw(self) -> int:
        """See `Tickets.draw`."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, b".")
            # Where that byte ended, whatever others have appended since.
            return os.lseek(file, 0, os.SEEK_CUR)
        finally:
            os.close(file)

    @property
    def drawn(self) -> int:
        """See `Tickets.drawn`. When the file is gone: what was seen last."""
        with suppress(FileNotFoundError):
            self._seen = self.path.stat().st_size
        return self._seen
