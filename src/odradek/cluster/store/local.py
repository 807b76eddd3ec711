"""The common part of the two stores over a `NodeTree`: one session's reads and watches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from odradek.cluster.store.store import (
    ANY_VERSION,
    Create,
    Delete,
    NodeContent,
    Op,
    OpResult,
    SessionExpired,
    SetData,
    Stat,
    Watcher,
    check_path,
)
from odradek.cluster.store.tree import NodeTree
from odradek.cluster.store.watches import WatchTable


class LocalSession(ABC):
    """A `MetadataStore` whose tree is in this process; how it writes is the subclass's."""

    def __init__(self, tree: NodeTree, session_id: int) -> None:
        self._tree = tree
        self._session_id = session_id
        self._open = True
        self._watches = WatchTable()
        self._expired_callbacks: list[Callable[[], None]] = []

    @property
    def session_id(self) -> int:
        """See `MetadataStore.session_id`."""
        return self._session_id

    @abstractmethod
    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`."""

    @abstractmethod
    def close(self) -> None:
        """See `MetadataStore.close`."""

    def create(
        self, path: str, data: bytes | None = None, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """See `MetadataStore.create`."""
        result = self.multi([Create(path, data, ephemeral, sequence)])[0]
        assert isinstance(result, str)
        return result

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        result = self.multi([SetData(path, data, version)])[0]
        assert isinstance(result, Stat)
        return result

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        self.multi([Delete(path, version)])

    def get(self, path: str, watch: Watcher | None = None) -> NodeContent:
        """See `MetadataStore.get`."""
        self._check_open(path)
        node = self._tree.get(path)
        if watch is not None:
            self._watches.arm_data(path, watch)
        return NodeContent(node.data, node.stat())

    def get_many(self, paths: Sequence[str]) -> list[NodeContent | None]:
        """See `MetadataStore.get_many`."""
        nodes: list[NodeContent | None] = []
        for path in paths:
            self._check_open(path)
            node = self._tree.nodes.get(path)
            nodes.append(None if node is None else NodeContent(node.data, node.stat()))
        return nodes

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """See `MetadataStore.exists`."""
        self._check_open(path)
        if watch is not None:
            self._watches.arm_data(path, watch)
        node = self._tree.nodes.get(path)
        return None if node is None else node.stat()

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """See `MetadataStore.exists_many`."""
        return [self.exists(path) for path in paths]

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """See `MetadataStore.children`."""
        self._check_open(path)
        node = self._tree.get(path)
        if watch is not None:
            self._watches.arm_children(path, watch)
        return sorted(node.children)

    def watch_persistent(self, path: str, watcher: Watcher, recursive: bool = False) -> None:
        """See `MetadataStore.watch_persistent`."""
        self._check_open(path)
        self._watches.add_persistent(path, watcher, recursive)

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """See `MetadataStore.unwatch`."""
        self._watches.remove_persistent(path, watcher)

    def on_expired(self, callback: Callable[[], None]) -> None:
        """See `MetadataStore.on_expired`."""
        self._expired_callbacks.append(callback)

    def _check_open(self, path: str) -> None:
        if not self._open:
            raise SessionExpired(path, "the session with the metadata store is over")
        check_path(path)
