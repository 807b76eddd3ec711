"""The metadata store: a tree of versioned nodes with ZooKeeper's semantics.

Everything above is written once against `MetadataStore`, so that one broker over a file runs the same code as
a hundred over ZooKeeper. One object is one *session*: its ephemeral nodes live as long as it does.

What the semantics are, in short (ZooKeeper Programmer's Guide):

- every change gets the next *zxid*; a node remembers the one that created it (`czxid`) and the one that last
  set its data (`mzxid`); `version` counts the sets of its data, from 0;
- `multi` does all of its operations or none; whoever reads sees none or all;
- an ephemeral node has no children and vanishes with the session that made it;
- a sequence node's name ends in ten digits that grow among its siblings;
- a watch armed by a read fires once, for the first change after that read; a persistent watch stays. A
  session gets its events in the order of the changes, after its own write has taken effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from odradek.errors import OdradekError

ANY_VERSION = -1
"""As the expected version: whatever the version is."""


class StoreError(OdradekError):
    """An operation that the store refused or could not do."""

    def __init__(self, path: str, message: str | None = None) -> None:
        super().__init__(message or f"{type(self).__name__}: {path}")
        self.path = path
        self.op_index: int | None = None
        """Which operation of a `multi` failed, from 0; None outside of one."""


class NoNode(StoreError):
    """The node, or the parent of a node to be created, does not exist."""


class NodeExists(StoreError):
    """The node to be created exists already."""


class BadVersion(StoreError):
    """The node has another version than the expected one: somebody else changed it."""


class NotEmpty(StoreError):
    """The node to be deleted has children."""


class NoChildrenForEphemerals(StoreError):
    """The parent of the node to be created is ephemeral."""


class BadArguments(StoreError):
    """Not a path, or not an operation."""


class NotPermitted(StoreError):
    """The node's ACL does not permit this session to do it."""


class SessionExpired(StoreError):
    """The session is over: its ephemeral nodes are gone, and it can do nothing more."""


class StoreUnavailable(StoreError):
    """The store could not do the operation now (disk, network).

    Attributes:
        outcome_unknown: a write was sent, and the connection lost before the answer: it may have been done,
            or may yet be. Otherwise nothing was changed.
    """

    def __init__(self, path: str, message: str | None = None, outcome_unknown: bool = False) -> None:
        super().__init__(path, message)
        self.outcome_unknown = outcome_unknown


class Stat(NamedTuple):
    """The facts about a node besides its data.

    Attributes:
        czxid: the transaction that created it. Of a broker's registration: the broker epoch.
        mzxid: the transaction that last set its data.
        ctime: wall-clock milliseconds of the creation.
        mtime: wall-clock milliseconds of the last set.
        version: how often its data was set; 0 after the creation.
        cversion: how often a child was created or deleted.
        ephemeral_owner: the id of the session that it lives with; 0 for a persistent node.
        data_length: bytes of data.
        num_children: how many children it has.
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int


class NodeContent(NamedTuple):
    """A node as it was read."""

    data: bytes | None
    stat: Stat


class Check(NamedTuple):
    """In a multi: the node exists and has this version (`ANY_VERSION`: it exists)."""

    path: str
    version: int = ANY_VERSION


class Create(NamedTuple):
    """Create a node. Its result is the path, with the digits of a sequence node."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False


class SetData(NamedTuple):
    """Replace a node's data. Its result is the new `Stat`."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node that has no children. Its result is None."""

    path: str
    version: int = ANY_VERSION


Op = Check | Create | SetData | Delete
OpResult = str | Stat | None


class EventType(Enum):
    """An event that a watch reports."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"
    """The set of children changed; the path is the parent's."""


class WatchEvent(NamedTuple):
    """One firing of a watch."""

    type: EventType
    path: str


Watcher = Callable[[WatchEvent], None]


class MetadataStore(Protocol):
    """One session with a store.

    Raises:
        SessionExpired: by all methods, once the session is over.
        BadArguments: by all methods, for what is no path.
        StoreUnavailable: by all methods, when the store cannot be reached or written.
        NotPermitted: by all methods, where ACLs forbid it.
    """

    @property
    def session_id(self) -> int:
        """The id of this session, as in `Stat.ephemeral_owner`; never 0."""
        ...

    def create(
        self, path: str, data: bytes | None = None, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Create a node and return its path.

        Raises:
            NodeExists: there is such a node.
            NoNode: its parent does not exist.
            NoChildrenForEphemerals: its parent is ephemeral.
        """
        ...

    def get(self, path: str, watch: Watcher | None = None) -> NodeContent:
        """A node's data and stat. `watch` fires once, when it is changed or deleted.

        Raises:
            NoNode: no such node; nothing is watched then (use `exists` for that).
        """
        ...

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """A node's stat, None if there is no such node. `watch` fires once, when it is created, changed or
        deleted."""
        ...

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """The names (not paths) of a node's children, sorted. `watch` fires once, when a child is created or
        deleted or the node itself is deleted.

        Raises:
            NoNode: no such node.
        """
        ...

    def get_many(self, paths: Sequence[str]) -> list[NodeContent | None]:
        """The data and stats of many nodes, each as of its own moment, None for one that is not there. All
        are asked for at once: over a network this takes far less time than one after the other."""
        ...

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """The stats of many nodes, as with `get_many`."""
        ...

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace a node's data, if it has `version`.

        Raises:
            NoNode: no such node.
            BadVersion: it has another version.
        """
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node, if it has `version`.

        Raises:
            NoNode: no such node.
            BadVersion: it has another version.
            NotEmpty: it has children.
        """
        ...

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Do all of `ops`, in order, as one transaction, or none.

        Returns:
            One result for each operation.

        Raises:
            StoreError: the first operation that cannot be done; its `op_index` says which. Nothing was done.
        """
        ...

    def watch_persistent(self, path: str, watcher: Watcher, recursive: bool = False) -> None:
        """Watch a node, which need not exist, for good: created, changed, deleted, its children changed. With
        `recursive` every node below as well, and then no `CHILDREN` events (ZooKeeper 3.6's addWatch)."""
        ...

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """Take back a persistent watch; harmless when there is none."""
        ...

    def on_expired(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the session expires by itself (not at `close`)."""
        ...

    def close(self) -> None:
        """End the session: its ephemeral nodes go, its watches are forgotten. Harmless the second time."""
        ...


def check_path(path: str) -> None:
    """Check that `path` is one that ZooKeeper takes.

    Raises:
        BadArguments: it is not.
    """
    if path == "/":
        return
    if not path.startswith("/") or path.endswith("/"):
        raise BadArguments(path, f"not a path: {path!r} must start with a slash and not end with one")
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            raise BadArguments(path, f"not a path: {path!r} has an empty or relative part")
    if not path.isprintable() and any(
        c <= "\x1f" or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\uf8ff" or "\ufff0" <= c <= "\uffff"
        for c in path
    ):
        raise BadArguments(path, f"not a path: {path!r} has a control character")


def parent_of(path: str) -> str:
    """The path of the node above."""
    return path[: path.rfind("/")] or "/"


def ensure_path(store: MetadataStore, path: str) -> None:
    """Create `path` and its parents where they are missing, as persistent nodes without data."""
    try:
        store.create(path)
    except NodeExists:
        return
    except NoNode:
        ensure_path(store, parent_of(path))
        try:
            store.create(path)
        except NodeExists:
            return
