"""The data folders that belong together: a start sees by it that one is missing, or has come anew.

Each folder has a file `log-dirs-checkpoint` (docs/log_format.md, "Checkpoints") with an id of its own and
those of all that belong to the broker. A disk that was replaced by an empty one, or was taken out of
`log.dirs`, is gone with what was in it, and nothing else in the folders that are left says so: a partition
whose folder is not there may have been in it. Where all folders are there, it was never made.

That some are missing stays written down until `settle` says that nothing of what was in them is asked for
any more. Folders without the file, Kafka's and those of earlier releases, are taken for all that there were.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from odradek.log.folders.data_directories import DataDirectories
from odradek.log.storage.data_directory import DataDirectory
from odradek.log.storage.file_names import LOG_DIRS
from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)


class _Entry(NamedTuple):
    """The content of a folder's file: its id, those of all folders, and whether all were there."""

    folder_id: str
    folder_ids: frozenset[str]
    is_whole: bool


class Roster:
    """The roster of a broker's data folders, those offline aside.

    A folder that cannot be read or written is given up.

    Attributes: `missing`: why partitions may have been in a folder that is not here any more; empty when all
    folders are.
    """

    def __init__(self, files: FileSystem, directories: DataDirectories) -> None:
        self._files = files
        self._directories = directories
        self.missing = ""
        self._found: tuple[dict[Path, _Entry], frozenset[str]] | None = None

    def call(self, newcomers: Collection[Path]) -> None:
        """Look whether all folders are there; `write` writes down what was found.

        Args: `newcomers`: folders that have no `meta.properties` yet.

        Raises:
            DataDirectoryError: no data folder can be read.
        """
        entries = self._read()
        folder_ids = frozenset[str]().union(*(entry.folder_ids for entry in entries.values()))
        missing = folder_ids - {entry.folder_id for path, entry in entries.items() if path not in newcomers}
        if newcomers:
            self.missing = f"{', '.join(sorted(map(str, newcomers)))} had nothing in it at the start"
        elif self.missing:
            pass  # a start calls twice: when the cluster's id is known, the newcomers have got their files
        elif not all(entry.is_whole for entry in entries.values()):
            self.missing = "at an earlier start a data folder was empty or missing"
        elif missing and not self._directories.offline:
            self.missing = f"log.dirs has {len(missing)} data folders less than before"
        self._found = entries, folder_ids | {entry.folder_id for entry in entries.values()}

    def write(self) -> None:
        """Write down what `call` has found last, before it is forgotten.

        Raises:
            DataDirectoryError: no data folder can be written to.
        """
        if self._found is not None:
            entries, folder_ids = self._found
            self._found = None
            self._write(entries, folder_ids, is_whole=not self.missing)

    @property
    def reason(self) -> str:
        """The reason for what is missing, to stand behind it; empty when all folders are here."""
        return f", as {self.missing}" if self.missing else ""

    def settle(self) -> None:
        """Nothing that may have been in another folder is asked for: those that are here are all.

        Raises:
            DataDirectoryError: no data folder can be read or written to.
        """
        if self.missing and not self._directories.offline:
            entries = self._read()
            self._write(entries, frozenset(entry.folder_id for entry in entries.values()), is_whole=True)
            self.missing = ""

    def _read(self) -> dict[Path, _Entry]:
        entries: dict[Path, _Entry] = {}

        def read(directory: DataDirectory) -> None:
            entries[directory.path] = self._entry(directory.path / LOG_DIRS)

        self._directories.in_each("{} cannot be read", read)
        return entries

    def _entry(self, file: Path) -> _Entry:
        if not self._files.exists(file):
            return _Entry(str(uuid4()), frozenset(), True)
        try:
            content = json.loads(self._files.read(file))
            folder_ids = frozenset(map(str, content["log_dirs"]))
            return _Entry(str(content["id"]), folder_ids, content["whole"] is True)
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("going on without %s, as if a data folder were missing: %r", file, error)
            return _Entry(str(uuid4()), frozenset(), False)

    def _write(self, entries: dict[Path, _Entry], folder_ids: frozenset[str], *, is_whole: bool) -> None:
        def write(directory: DataDirectory) -> None:
            entry = entries.get(directory.path)
            if entry is None or entry == (after := entry._replace(folder_ids=folder_ids, is_whole=is_whole)):
                return
            content = {"version": 1, "id": after.folder_id, "log_dirs": sorted(folder_ids), "whole": is_whole}
            self._files.write_atomically(directory.path / LOG_DIRS, (json.dumps(content) + "\n").encode())

        self._directories.in_each(f"{{}}/{LOG_DIRS} cannot be written", write)
