"""The node tree behind the stores of this package: pure, without clock, file or session timeout.

`plan` checks a transaction and says what it would change; `apply` makes it so and says which watch events
that means. Between the two a durable store writes. A transaction that cannot be done whole changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.cluster.store.store import (
    ANY_VERSION,
    BadArguments,
    BadVersion,
    Check,
    Create,
    Delete,
    EventType,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
    check_path,
    parent_of,
)


class Node:
    """One node. `creates` counts the children ever created; it is where sequence numbers come from."""

    __slots__ = ("children", "creates", "ctime", "czxid", "data", "mtime", "mzxid", "owner", "version")

    def __init__(
        self,
        data: bytes | None,
        czxid: int,
        mzxid: int,
        ctime: int,
        mtime: int,
        version: int = 0,
        owner: int = 0,
        creates: int = 0,
    ) -> None:
        self.data = data
        self.czxid = czxid
        self.mzxid = mzxid
        self.ctime = ctime
        self.mtime = mtime
        self.version = version
        self.owner = owner
        self.creates = creates
        self.children: set[str] = set()

    def stat(self) -> Stat:
        """The node's stat. As in ZooKeeper, `cversion` counts creations and deletions of children."""
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            # Deletions are not counted: they are the creations that have left no child.
            self.creates * 2 - len(self.children),
            self.owner,
            len(self.data or b""),
            len(self.children),
        )


class NodeChange(NamedTuple):
    """A transaction's change of one node. `node` is its new state without children, None for a deletion."""

    path: str
    node: Node | None


class Plan(NamedTuple):
    """A transaction that can be done.

    Attributes:
        zxid: its number.
        changes: per touched node the final state, parents before children.
        results: one per operation.
        events: what watches would see, in order.
    """

    zxid: int
    changes: tuple[NodeChange, ...]
    results: tuple[OpResult, ...]
    events: tuple[WatchEvent, ...]


class _Draft:
    """The tree as a transaction under way sees it: changed nodes over the unchanged ones."""

    def __init__(self, tree: NodeTree) -> None:
        self.tree = tree
        self.changed: dict[str, Node | None] = {}
        """Copies of the nodes that operations have changed; None for a deleted node."""

    def find(self, path: str) -> Node | None:
        if path in self.changed:
            return self.changed[path]
        return self.tree.nodes.get(path)

    def writable(self, path: str) -> Node | None:
        if path in self.changed:
            return self.changed[path]
        node = self.tree.nodes.get(path)
        if node is None:
            return None
        copy = Node(
            node.data, node.czxid, node.mzxid, node.ctime, node.mtime, node.version, node.owner, node.creates
        )
        copy.children = set(node.children)
        self.changed[path] = copy
        return copy


class NodeTree:
    """The nodes by path, and the number of the last transaction."""

    def __init__(self, zxid: int = 0) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0, 0)}
        """Each node's parent is in it, and names it among its children; `apply` replaces nodes whole."""
        self.zxid = zxid

    def plan(self, ops: Sequence[Op], session: int, now_ms: int) -> Plan:
        """Check `ops` for `session` and say what they would do.

        Raises:
            StoreError: the first operation that cannot be done, with its `op_index`.
        """
        draft = _Draft(self)
        zxid = self.zxid + 1
        results: list[OpResult] = []
        events: list[WatchEvent] = []
        for index, op in enumerate(ops):
            try:
                check_path(op.path)
                results.append(_do(draft, op, session, zxid, now_ms, events))
            except StoreError as error:
                error.op_index = index
                raise
        # Sorted by path, a parent stands before what is below it.
        changes = tuple(NodeChange(path, node) for path, node in sorted(draft.changed.items()))
        return Plan(zxid, changes, tuple(results), tuple(events))

    def apply(self, plan: Plan) -> None:
        """Make the tree what `plan` says; the plan must be of this very tree."""
        assert plan.zxid == self.zxid + 1
        self.zxid = plan.zxid
        for change in plan.changes:
            if change.node is None:
                self.nodes.pop(change.path, None)
            else:
                self.nodes[change.path] = change.node

    def load(self, nodes: Iterable[tuple[str, Node]]) -> None:
        """Fill an empty tree; parents need not come first.

        Raises:
            NoNode: a node has no parent.
        """
        self.nodes.update(nodes)
        for path in self.nodes:
            if path != "/":
                parent = self.nodes.get(parent_of(path))
                if parent is None:
                    raise NoNode(path, f"node {path} has no parent")
                parent.children.add(path[path.rfind("/") + 1 :])

    def get(self, path: str) -> Node:
        """The node at `path`.

        Raises:
            NoNode: no such node.
        """
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def ephemerals_of(self, session: int) -> list[str]:
        """The paths of a session's ephemeral nodes."""
        return [path for path, node in self.nodes.items() if node.owner == session]


def _do(draft: _Draft, op: Op, session: int, zxid: int, now: int, events: list[WatchEvent]) -> OpResult:
    if isinstance(op, Create):
        return _create(draft, op, session, zxid, now, events)
    if isinstance(op, SetData):
        node = _expect(draft.writable(op.path), op.path, op.version)
        node.data, node.mzxid, node.mtime = op.data, zxid, now
        node.version += 1
        events.append(WatchEvent(EventType.CHANGED, op.path))
        return node.stat()
    if isinstance(op, Delete):
        _delete(draft, op, events)
        return None
    if isinstance(op, Check):
        _expect(draft.find(op.path), op.path, op.version)
        return None
    raise BadArguments(str(op), f"not an operation: {op!r}")


def _expect(node: Node | None, path: str, version: int) -> Node:
    if node is None:
        raise NoNode(path)
    if version not in (ANY_VERSION, node.version):
        raise BadVersion(path, f"BadVersion: {path} has version {node.version}, not {version}")
    return node


def _create(draft: _Draft, op: Create, session: int, zxid: int, now: int, events: list[WatchEvent]) -> str:
    parent_path = parent_of(op.path)
    parent = draft.find(parent_path)
    if op.path == "/" and not op.sequence:
        raise NodeExists(op.path)
    if parent is None:
        raise NoNode(op.path, f"NoNode: {op.path}: there is no {parent_path}")
    # By what was ever created: the number of a child that was deleted must not come again.
    path = f"{op.path}{parent.creates:010d}" if op.sequence else op.path
    if draft.find(path) is not None:
        raise NodeExists(path)
    if parent.owner:
        raise NoChildrenForEphemerals(path)
    writable = draft.writable(parent_path)
    assert writable is not None
    writable.creates += 1
    writable.children.add(path[path.rfind("/") + 1 :])
    draft.changed[path] = Node(op.data, zxid, zxid, now, now, owner=session if op.ephemeral else 0)
    events.append(WatchEvent(EventType.CREATED, path))
    events.append(WatchEvent(EventType.CHILDREN, parent_path))
    return path


def _delete(draft: _Draft, op: Delete, events: list[WatchEvent]) -> None:
    if op.path == "/":
        raise BadArguments(op.path, "the root cannot be deleted")
    node = _expect(draft.find(op.path), op.path, op.version)
    if node.children:
        raise NotEmpty(op.path)
    parent_path = parent_of(op.path)
    parent = draft.writable(parent_path)
    assert parent is not None
    parent.children.discard(op.path[op.path.rfind("/") + 1 :])
    draft.changed[op.path] = None
    events.append(WatchEvent(EventType.DELETED, op.path))
    events.append(WatchEvent(EventType.CHILDREN, parent_path))
