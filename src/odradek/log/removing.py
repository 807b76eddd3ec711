"""Removing what was marked as deleted: large files take the file system its time, so that is done elsewhere.

What is to be removed is renamed first (`.deleted`, `-delete`), so nothing depends on when it goes: a start
removes whatever is left.
"""

from __future__ import annotations

import logging
from pathlib import Path

from odradek.log.files import FileSystem

logger = logging.getLogger(__name__)


class RemovalJob:
    """Files and folders whose time has come. `run` may be called in another thread.

    Attributes: `left`: the folders that could not be removed.
    """

    def __init__(self, files: FileSystem, paths: list[Path], folders: list[Path]) -> None:
        self._files = files
        self.paths = paths
        self.folders = folders
        self.left: list[Path] = []

    def __len__(self) -> int:
        """How many files and folders."""
        return len(self.paths) + len(self.folders)

    def run(self) -> int:
        """Remove them; how many could be. Never raises `OSError`: what is left the next start removes."""
        removed = 0
        for path in self.paths:
            try:
                self._files.remove(path)
                removed += 1
            except OSError as error:
                logger.error("removing %s failed: %s", path, error)
        for folder in self.folders:
            try:
                self._files.remove_tree(folder)
                removed += 1
            except OSError as error:
                logger.error("removing %s failed, it is tried again: %s", folder, error)
                self.left.append(folder)
        return removed
