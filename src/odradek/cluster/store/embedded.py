"""The metadata store of a single broker, or of the workers of one machine: an SQLite file.

All reads are answered from memory; a write goes to the file, is synced, and only then takes effect and is
seen. SQLite (WAL, `synchronous=FULL`) makes a transaction whole or absent whenever the process or the machine
dies. Ephemeral nodes are never written: they end with the process anyway.

The upper half of a zxid is the *generation* of the file, raised by each opening, so that broker epochs (the
`czxid` of an ephemeral node) grow across restarts although ephemeral nodes leave no trace.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from odradek.cluster.store.local import LocalSession
from odradek.cluster.store.store import (
    Delete,
    Op,
    OpResult,
    SessionExpired,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)
from odradek.cluster.store.tree import Node, NodeTree, Plan
from odradek.util.clock import Clock, SystemClock

APPLICATION_ID = 0x6F647261
"""`odra`: what the header of such an SQLite file says about whose it is."""
FORMAT_VERSION = 1
GENERATION_SHIFT = 32
"""The lower half of a zxid counts the writes since the file was opened."""

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE node (
    path TEXT PRIMARY KEY, data BLOB, czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, ctime INTEGER NOT NULL,
    mtime INTEGER NOT NULL, version INTEGER NOT NULL, creates INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('generation', 0);
"""


class StoreFileError(StoreError):
    """The store's file cannot be used; the message names it and the remedy. Nothing was changed."""


def peek(path: Path, node: str) -> bytes | None:
    """A node's data in a store that is not opened and not changed by looking; None if it cannot be told.

    What the last process left in the write-ahead log is not seen.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            row = db.execute("SELECT data FROM node WHERE path = ?", (node,)).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else row[0]


class EmbeddedStore(LocalSession):
    """The store in `path`, which is created if absent, and its own session with it.

    A `StoreServer` in front of it has sessions for others: they write by `commit`, read `tree` while they
    hold `effects`, and are told by `on_events` what to hand to their watches.

    Args:
        path: the file, such as `metadata.sqlite` in the first log directory.
        clock: gives `ctime` and `mtime`.

    Attributes:
        database: the file; written by the thread that holds the store's lock.
        effects: held while a write takes effect and its events are handed out. No file is waited for then.
        on_events: called with the events of each write, with `effects` held.

    Raises:
        StoreFileError: the file is in use by another process, damaged, not such a file, of a newer
            version, or cannot be written.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self._clock: Clock = clock if clock is not None else SystemClock()
        self.database = _open(path)
        try:
            generation, nodes = _load(self.database, path)
        except BaseException:
            self.database.close()
            raise
        tree = NodeTree(generation << GENERATION_SHIFT)
        try:
            tree.load(nodes)
        except StoreError as error:
            self.database.close()
            raise StoreFileError(
                str(path), f"{path} is damaged: {error}. Restore it from a backup of the data folder."
            ) from error
        super().__init__(tree, generation)
        self.effects = threading.Lock()
        self.on_events: Callable[[Sequence[WatchEvent]], None] | None = None
        """None without a `StoreServer`: only the store's own session watches then."""
        self._lock = threading.Lock()
        """Held for a whole write, the disk included, and never while watchers are called: they may write."""
        self._further_sessions = 0
        """Counts the ids given out since the file was opened; the generation above it keeps them apart."""

    @property
    def tree(self) -> NodeTree:
        """The nodes."""
        return self._tree

    def next_session_id(self) -> int:
        """An id for a further session, never used before nor after the next opening."""
        with self._lock:
            self._further_sessions += 1
            return (self._session_id << GENERATION_SHIFT) + self._further_sessions

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`."""
        return self.commit(ops, self._session_id)

    def commit(self, ops: Sequence[Op], session_id: int) -> list[OpResult]:
        """Do a transaction for a session. Errors are those of `MetadataStore.multi`."""
        with self._lock:
            results = self._commit(ops, session_id)
        self._watches.deliver()
        return results

    def end_session(self, session_id: int) -> None:
        """Delete the ephemeral nodes of a session that is over. Harmless once the store is closed."""
        with self._lock:
            paths = self._tree.ephemerals_of(session_id)
            if not paths or not self._open:
                return
            self._commit([Delete(path) for path in sorted(paths)], session_id)
        self._watches.deliver()

    def _commit(self, ops: Sequence[Op], session_id: int) -> list[OpResult]:
        if not self._open:
            raise SessionExpired(ops[0].path if ops else "/", "the metadata store is closed")
        plan = self._tree.plan(ops, session_id, self._clock.now_ms())
        # The disk first: nobody reads, nor hears of, what a loss of power could take back.
        self._write(plan)
        with self.effects:
            self._tree.apply(plan)
            self._watches.collect(plan.events)
            if self.on_events is not None:
                self.on_events(plan.events)
        return list(plan.results)

    def _write(self, plan: Plan) -> None:
        gone, put = _durable(plan, self._tree)
        if not gone and not put:
            return
        try:
            self.database.execute("BEGIN IMMEDIATE")
            self.database.executemany("DELETE FROM node WHERE path = ?", gone)
            self.database.executemany("INSERT OR REPLACE INTO node VALUES (?,?,?,?,?,?,?,?)", put)
            self.database.execute("COMMIT")
        except sqlite3.Error as error:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise StoreUnavailable(str(self.path), f"{self.path} cannot be written: {error}") from error

    def close(self) -> None:
        """See `MetadataStore.close`. The file is folded into one and unlocked."""
        if self._open:
            self._open = False
            self._watches.clear()
            self.database.close()


class _NodeRow(NamedTuple):
    """A node as the table has it; the columns are ZooKeeper's fields of the same names."""

    path: str
    data: bytes | None
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    creates: int

    def node(self) -> Node:
        """As the tree has it."""
        return Node(
            self.data, self.czxid, self.mzxid, self.ctime, self.mtime, self.version, creates=self.creates
        )


def _durable(plan: Plan, tree: NodeTree) -> tuple[list[tuple[str]], list[_NodeRow]]:
    """The rows that a plan deletes and writes: what is ephemeral leaves none, nor does a parent of which only
    the children count has changed by an ephemeral node."""
    gone: list[tuple[str]] = []
    put: list[_NodeRow] = []
    for change in plan.changes:
        node, before = change.node, tree.nodes.get(change.path)
        if node is None:
            if before is not None and not before.owner:
                gone.append((change.path,))
        elif not node.owner:
            put.append(
                _NodeRow(
                    change.path,
                    node.data,
                    node.czxid,
                    node.mzxid,
                    node.ctime,
                    node.mtime,
                    node.version,
                    node.creates,
                )
            )
    if not gone and all(_only_children_changed(row, tree) for row in put):
        return [], []
    return gone, put


def _only_children_changed(row: _NodeRow, tree: NodeTree) -> bool:
    before = tree.nodes.get(row.path)
    return before is not None and before.mzxid == row.mzxid and before.version == row.version


def _keep_others_out(path: Path) -> None:
    """Shut others out of the file, as credentials of users stand in it. Its journal gets the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        mode = path.stat().st_mode
        # A group may have been given access on purpose, say for backups; the world never is.
        if mode & 0o007:
            path.chmod(mode & 0o7770)
    except OSError:
        return  # whoever opens it next says why it cannot be


def _open(path: Path) -> sqlite3.Connection:
    _keep_others_out(path)
    try:
        # No wait for a lock: it is another broker's, and held for as long as that one lives. Threads take
        # turns by `EmbeddedStore._lock`.
        db = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StoreFileError(
            str(path), f"{path} cannot be opened: {error}. Check that its folder exists and may be written."
        ) from error
    try:
        # Exclusive: one broker per data folder, no shared-memory file, and the lock ends with the process.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        _check_header(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        # The tables and the first generation come with one commit: a start that dies leaves an empty file.
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA application_id").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";"):
                if statement.strip():
                    db.execute(statement)
        db.execute("UPDATE counter SET value = value + 1 WHERE name = 'generation'")
        db.execute("COMMIT")
    except sqlite3.Error as error:
        db.close()
        raise StoreFileError(str(path), _explain(path, error)) from error
    except BaseException:
        db.close()
        raise
    return db


def _check_header(db: sqlite3.Connection, path: Path) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application == APPLICATION_ID:
        if version > FORMAT_VERSION:
            raise StoreFileError(
                str(path),
                f"{path} has format {version}, written by a newer odradek; this one reads up to "
                f"{FORMAT_VERSION}. Start the version that wrote it, or a newer one.",
            )
    elif application != 0 or tables != 0:
        raise StoreFileError(
            str(path),
            f"{path} is an SQLite file of another program. Move it away, or give the broker another data "
            "folder.",
        )


def _explain(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is in use by another broker. Stop that one, or give this one another data folder."
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return (
            f"{path} is damaged or not a metadata store ({error}). Restore it from a backup of the data "
            "folder; to begin anew without the topics' metadata, move it away."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return (
            f"{path} cannot be written ({error}). Check the owner and the permissions of it and its folder."
        )
    return f"{path} cannot be opened: {error}."


def _load(db: sqlite3.Connection, path: Path) -> tuple[int, Iterator[tuple[str, Node]]]:
    try:
        generation = db.execute("SELECT value FROM counter WHERE name = 'generation'").fetchone()[0]
        rows = db.execute(
            "SELECT path, data, czxid, mzxid, ctime, mtime, version, creates FROM node"
        ).fetchall()
    except (sqlite3.Error, TypeError) as error:
        message = (
            _explain(path, error)
            if isinstance(error, sqlite3.Error)
            else f"{path} is damaged: no generation."
        )
        raise StoreFileError(str(path), message) from error
    nodes = map(_NodeRow._make, rows)
    return generation, ((row.path, row.node()) for row in nodes)
