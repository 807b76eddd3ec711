"""The file `offset-gaps`: a log may have gaps between its segments (docs/log_format.md)."""

from __future__ import annotations

from pathlib import Path

from odradek.log.storage.file_names import OFFSET_GAPS
from odradek.log.storage.files import FileSystem


def note_gaps(files: FileSystem, directory: Path) -> None:
    """Write down that a log may have gaps from now on.

    Raises:
        OSError: the mark cannot be written.
    """
    path = directory / OFFSET_GAPS
    if not files.exists(path):
        files.write_atomically(path, b"")
