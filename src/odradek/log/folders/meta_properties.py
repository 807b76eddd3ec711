"""The owner of a data folder: `meta.properties`, with `version`, `broker.id` (or `node.id`) and `cluster.id`.

Brokers up to 2.2 write no `cluster.id`, a 0.8 broker with a configured id writes no file: what is missing is
no contradiction, and is added. Keys that are not known are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from odradek.log.errors import InconsistentIdentityError
from odradek.log.storage.files import FileSystem
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


def read(files: FileSystem, path: Path) -> MetaProperties | None:
    """The file's content; None where there is none. Raises `InconsistentIdentityError`, `OSError`."""
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


def check(meta: MetaProperties, broker_id: int, cluster_id: str | None) -> None:
    """Raise `InconsistentIdentityError` if the folder is another broker's or another cluster's."""
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


def write(
    files: FileSystem,
    path: Path,
    broker_id: int,
    cluster_id: str | None,
    now_ms: int,
    meta: MetaProperties | None = None,
) -> None:
    """Write the file, keeping what `meta` has. Raises `OSError`."""
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
