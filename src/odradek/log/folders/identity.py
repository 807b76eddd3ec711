"""The identity of data folders: what their `meta.properties` say, compared with who we are, and completed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from odradek.log.folders import meta_properties
from odradek.log.folders.data_directories import DataDirectories
from odradek.log.folders.meta_properties import MetaProperties
from odradek.log.folders.roster import Roster
from odradek.log.storage.data_directory import DataDirectory
from odradek.log.storage.file_names import META_PROPERTIES
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock


class _Missing(NamedTuple):
    """The content that a folder's `meta.properties` lacks: see `meta_properties.write`."""

    broker_id: int
    cluster_id: str | None
    now_ms: int
    meta: MetaProperties | None


class Identity:
    """The `meta.properties` of a broker's data folders, those offline aside.

    A folder that cannot be read or written is given up.

    Attributes: `roster`: whether all folders are there.
    """

    def __init__(self, files: FileSystem, directories: DataDirectories, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._directories = directories
        self.roster = Roster(files, directories)
        self._missing: dict[Path, _Missing] = {}
        self._has_begun = False

    def _stored_metas(self) -> list[tuple[DataDirectory, MetaProperties | None]]:
        metas: list[tuple[DataDirectory, MetaProperties | None]] = []

        def read(directory: DataDirectory) -> None:
            metas.append((directory, meta_properties.read(self._files, directory.path / META_PROPERTIES)))

        self._directories.in_each("{} cannot be read", read)
        return metas

    def stored_cluster_id(self) -> str | None:
        """The cluster id that a folder's `meta.properties` names. Raises `InconsistentIdentityError`."""
        metas = [meta for _, meta in self._stored_metas() if meta is not None]
        return next((meta.cluster_id for meta in metas if meta.cluster_id is not None), None)

    def stored_broker_id(self) -> int | None:
        """The broker id that a folder's `meta.properties` names. Raises `InconsistentIdentityError`."""
        metas = [meta for _, meta in self._stored_metas() if meta is not None]
        return next((meta.broker_id for meta in metas if meta.broker_id is not None), None)

    def check(self, broker_id: int, cluster_id: str | None) -> None:
        """Compare the folders' `meta.properties` with who we are, and have what is missing written.

        That waits for `begin`: a start that is refused by then leaves the folders as they were.

        Raises `InconsistentIdentityError`, nothing being written then; `DataDirectoryError`.
        """
        now_ms, metas = self._clock.now_ms(), self._stored_metas()
        for _, meta in metas:
            if meta is not None:
                meta_properties.check(meta, broker_id, cluster_id)
        self.roster.call({directory.path for directory, meta in metas if meta is None})
        self._missing = {
            directory.path: _Missing(broker_id, cluster_id, now_ms, meta)
            for directory, meta in metas
            if meta is None or (meta.cluster_id is None and cluster_id is not None)
        }
        if self._has_begun:
            self._write()

    def begin(self) -> None:
        """Write what is missing, now and from here on at once: nothing refuses the start any more.

        Raises `DataDirectoryError`.
        """
        self._has_begun = True
        self._write()

    def _write(self) -> None:
        # Before the newcomers cannot be told from the others any more.
        self.roster.write()
        self._directories.in_each(f"{{}}/{META_PROPERTIES} cannot be written", self._complete)

    def _complete(self, directory: DataDirectory) -> None:
        missing = self._missing.pop(directory.path, None)
        if missing is not None:
            meta_properties.write(self._files, directory.path / META_PROPERTIES, *missing)
