"""The identity of data folders: what their `meta.properties` say, compared with who we are, and completed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from odradek.log.folders import meta_properties
from odradek.log.folders.meta_properties import MetaProperties
from odradek.log.folders.roster import Roster
from odradek.log.storage.data_directory import DataDirectory
from odradek.log.storage.file_names import META_PROPERTIES
from odradek.log.storage.files import FileSystem


class _Missing(NamedTuple):
    """The content that a folder's `meta.properties` lacks: see `meta_properties.write`."""

    broker_id: int
    cluster_id: str | None
    now_ms: int
    meta: MetaProperties | None


class Identity:
    """The `meta.properties` of a broker's data folders, those offline aside.

    Args: `directories`: looked at anew each time. `give_up`: told of a folder that cannot be read or written,
    what failed, and the error; it may raise `DataDirectoryError`.

    Attributes: `roster`: whether all folders are there.
    """

    def __init__(
        self,
        files: FileSystem,
        directories: Sequence[DataDirectory],
        give_up: Callable[[DataDirectory, str, OSError], None],
    ) -> None:
        self._files = files
        self._directories = directories
        self._give_up = give_up
        self.roster = Roster(files, directories, give_up)
        self._missing: dict[Path, _Missing] = {}
        self._has_begun = False

    def _stored_metas(self) -> list[tuple[DataDirectory, MetaProperties | None]]:
        metas = []
        for directory in self._directories:
            if directory.is_online:
                try:
                    meta = meta_properties.read(self._files, directory.path / META_PROPERTIES)
                except OSError as error:
                    self._give_up(directory, f"{directory.path} cannot be read", error)
                else:
                    metas.append((directory, meta))
        return metas

    def stored_cluster_id(self) -> str | None:
        """The cluster id that a folder's `meta.properties` names. Raises `InconsistentIdentityError`."""
        metas = [meta for _, meta in self._stored_metas() if meta is not None]
        return next((meta.cluster_id for meta in metas if meta.cluster_id is not None), None)

    def stored_broker_id(self) -> int | None:
        """The broker id that a folder's `meta.properties` names. Raises `InconsistentIdentityError`."""
        metas = [meta for _, meta in self._stored_metas() if meta is not None]
        return next((meta.broker_id for meta in metas if meta.broker_id is not None), None)

    def check(self, broker_id: int, cluster_id: str | None, now_ms: int) -> None:
        """Compare the folders' `meta.properties` with who we are, and have what is missing written.

        That waits for `begin`: a start that is refused by then leaves the folders as they were.

        Raises `InconsistentIdentityError`, nothing being written then; `DataDirectoryError`.
        """
        metas = self._stored_metas()
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
        for directory in self._directories:
            missing = self._missing.pop(directory.path, None)
            if missing is not None and directory.is_online:
                path = directory.path / META_PROPERTIES
                try:
                    meta_properties.write(self._files, path, *missing)
                except OSError as error:
                    self._give_up(directory, f"{path} cannot be written", error)
