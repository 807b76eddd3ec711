"""Offsets in the metadata store, where OffsetCommit and OffsetFetch version 0 keep them.

`/consumers/<group>/offsets/<topic>/<partition>` holds the offset as text, as Kafka's first consumers left it
in ZooKeeper; they and Kafka's old tools read it there.
"""

from __future__ import annotations

from odradek.cluster.store.store import BadArguments, MetadataStore, NoNode, ensure_path
from odradek.errors import InvalidGroupIdError


class StoredOffsets:
    """The offsets of version 0."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """Keep an offset.

        Raises:
            InvalidGroupIdError: the group's name cannot be the name of a node.
            StoreError: the store did not take it.
        """
        path = _path(group_id, topic, partition)
        data = str(offset).encode()
        try:
            self._store.set(path, data)
        except NoNode:
            ensure_path(self._store, path)
            self._store.set(path, data)

    def fetch(self, group_id: str, topic: str, partition: int) -> int | None:
        """The offset, or `None`.

        Raises:
            InvalidGroupIdError: the group's name cannot be the name of a node.
            StoreError: the store did not answer.
        """
        try:
            data, _ = self._store.get(_path(group_id, topic, partition))
        except NoNode:
            return None
        except BadArguments:
            raise InvalidGroupIdError from None
        try:
            return int(data or b"")
        except ValueError:
            # Not an offset: whoever wrote it, there is none here.
            return None


def _path(group_id: str, topic: str, partition: int) -> str:
    if not group_id or "/" in group_id or "\0" in group_id or group_id in (".", ".."):
        raise InvalidGroupIdError
    return f"/consumers/{group_id}/offsets/{topic}/{partition}"
