"""The identity of data folders: what their `meta.properties` say, compared with who we are, and completed.

The file names `version`, `broker.id` (or `node.id`) and `cluster.id`.
Brokers up to 2.2 write no `cluster.id`, a 0.8 broker with a configured id writes no file: what is missing is
no contradiction, and is added. Keys that are not known are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from odradek.log.errors import InconsistentIdentityError
from odradek.log.folders.data_directories import DataDirectories
from odradek.log.folders.roster import Roster
from odradek.log.storage.data_directory import DataDirectory
from odradek.log.storage.file_names import META_PROPERTIES
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock
from odradek.util.properties import parse_properties

KNOWN_VERSIONS = (0, 1)


@dataclass(frozen=True)
class MetaProperties:
    """One folder's file. `pairs` are all its keys and values."""

    path: Path
    pairs: dict[str, str]

    @property
    def broker_id(self) -> int | None:
        """The broker's id, if it is written down."""
        text = self.pairs.get("broker.id", self.pairs.get("node.id"))
        return int(text) if text is not None else None

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, if it is written down."""
        return self.pairs.get("cluster.id")


def _read(files: FileSystem, path: Path) -> MetaProperties | None:
    """The file's content; None where there is none.

    Raises:
        InconsistentIdentityError: the file cannot be understood.
        OSError: it cannot be read.
    """
    if not files.exists(path):
        return None
    try:
        meta = MetaProperties(path, parse_properties(files.read(path).decode("latin-1")))
        version = int(meta.pairs.get("version", "0"))
        if version not in KNOWN_VERSIONS:
            raise ValueError(f"version {version} is not known")
        _ = meta.broker_id
    except ValueError as error:
        raise InconsistentIdentityError(
            f"{path} cannot be understood: {error}. Restore it, or give the broker another folder (log.dirs)."
        ) from None
    return meta


def _check(meta: MetaProperties, broker_id: int, cluster_id: str | None) -> None:
    """Check that the folder is this broker's and this cluster's.

    Raises:
        InconsistentIdentityError: it is another's.
    """
    if meta.broker_id is not None and meta.broker_id != broker_id:
        raise InconsistentIdentityError(
            f"{meta.path} says broker.id={meta.broker_id}, but this broker's id is {broker_id}. "
            f"Set broker.id={meta.broker_id}, or give this broker another folder (log.dirs)."
        )
    if cluster_id is not None and meta.cluster_id not in (None, cluster_id):
        raise InconsistentIdentityError(
            f"{meta.path} says cluster.id={meta.cluster_id}, but this cluster's id is {cluster_id}. "
            f"The folder belongs to another cluster; give this broker another folder (log.dirs)."
        )


def _write(
    files: FileSystem,
    path: Path,
    broker_id: int,
    cluster_id: str | None,
    now_ms: int,
    meta: MetaProperties | None = None,
) -> None:
    """Write the file, keeping what `meta` has.

    Raises:
        OSError: it cannot be written.
    """
    pairs = dict(meta.pairs) if meta else {}
    pairs.setdefault("version", "0")
    if "node.id" not in pairs:
        pairs["broker.id"] = str(broker_id)
    if cluster_id is not None:
        pairs["cluster.id"] = cluster_id
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = ["#", f"#{when}", *(f"{key}={_escaped(value)}" for key, value in pairs.items())]
    files.write_atomically(path, "".join(f"{line}\n" for line in lines).encode("latin-1"))


def _escaped(value: str) -> str:
    return re.sub(r"([\\=:#!])", r"\\\1", value)


class _Missing(NamedTuple):
    """The content that a folder's `meta.properties` lacks: see `_write`."""

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
            metas.append((directory, _read(self._files, directory.path / META_PROPERTIES)))

        self._directories.in_each("{} cannot be read", read)
        return metas

    def stored_cluster_id(self) -> str | None:
        """The cluster id that a folder's `meta.properties` names.

        Raises:
            InconsistentIdentityError: a file cannot be understood.
        """
        metas = [meta for _, meta in self._stored_metas() if meta is not None]
        return next((meta.cluster_id for meta in metas if meta.cluster_id is not None), None)

    def stored_broker_id(self) -> int | None:
        """The broker id that a folder's `meta.properties` names.

        Raises:
            InconsistentIdentityError: a file cannot be understood.
        """
        metas = [meta for _, meta in self._stored_metas() if meta is not None]
        return next((meta.broker_id for meta in metas if meta.broker_id is not None), None)

    def check(self, broker_id: int, cluster_id: str | None) -> None:
        """Compare the folders' `meta.properties` with who we are, and have what is missing written.

        That waits for `begin`: a start that is refused by then leaves the folders as they were.

        Raises:
            InconsistentIdentityError: a folder is another broker's, or another cluster's; nothing is written
                then.
            DataDirectoryError: no data folder is left that can be read and written to.
        """
        now_ms, metas = self._clock.now_ms(), self._stored_metas()
        for _, meta in metas:
            if meta is not None:
                _check(meta, broker_id, cluster_id)
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

        Raises:
            DataDirectoryError: no data folder can be written to.
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
            _write(self._files, directory.path / META_PROPERTIES, *missing)
