"""Offsets in the metadata store, where OffsetCommit and OffsetFetch version 0 keep them.

`/consumers/<group>/offsets/<topic>/<partition>` holds the offset as text, as Kafka's first consumers left it
in ZooKeeper; they and Kafka's old tools read it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.cluster.store.store import BadArguments, MetadataStore, NoNode, ensure_path
from odradek.errors import InvalidGroupIdError


class StoredOffsets:
    """The offsets of version 0. Waits for the store: not to be used in the event loop's thread.

    Args:
        store: gives the present session.
    """

    def __init__(self, store: Callable[[], MetadataStore]) -> None:
        self._store = store

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """Keep an offset.

        Raises:
            InvalidGroupIdError: the group's name cannot be the name of a node.
            StoreError: the store did not take it.
        """
        path = _path(group_id, topic, partition)
        data = str(offset).encode()
        store = self._store()
        try:
            store.set(path, data)
        except NoNode:
            ensure_path(store, path)
            store.set(path, data)

    def fetch(self, group_id: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The offsets of some partitions; those that have none are left out.

        Raises:
            InvalidGroupIdError: the group's name cannot be the name of a node.
            StoreError: the store did not answer.
        """
        nodes = [_path(group_id, topic, partition) for partition in partitions]
        try:
            contents = self._store().get_many(nodes)
        except BadArguments:
            raise InvalidGroupIdError from None
        offsets: dict[int, int] = {}
        for partition, node in zip(partitions, contents, strict=True):
            try:
                offsets[partition] = int((node and node.data) or b"")
            except ValueError:
                # Not an offset: whoever wrote it, there is none here.
                continue
        return offsets


def _path(group_id: str, topic: str, partition: int) -> str:
    if not group_id or "/" in group_id or "\0" in group_id or group_id in (".", ".."):
        raise InvalidGroupIdError
    return f"/consumers/{group_id}/offsets/{topic}/{partition}"
