"""An embedded store for the processes of one machine: many sessions, over a Unix socket.

Each connection is a session, with its own ephemeral nodes and watches; it ends with its connection, which the
kernel closes as soon as the process at the other end is dead. A peer that hangs is given up after the
session's timeout: it is pinged, and has to answer. What a peer says that is against the protocol closes its
own connection and no other.

Two threads serve a connection: one does its requests in order, one sends. A watch's event is put in line
while the write takes effect, so a session sees events in the order of the changes, those of its own write
before the write's answer, and an event before anything that was read after it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import selectors
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.local import LocalSession
from odradek.cluster.store.store import (
    Op,
    OpResult,
    StoreError,
    StoreUnavailable,
    WatchEvent,
)
from odradek.cluster.store.store_protocol import (
    BATCH_BYTES,
    MAX_FRAME_BYTES,
    MAX_GREETING_BYTES,
    PROTOCOL_VERSION,
    FrameReader,
    StoreProtocolError,
    error_message,
    event_message,
    flag,
    frame,
    items,
    node_to_json,
    number,
    op_from_json,
    text,
)

logger = logging.getLogger(__name__)

DEFAULT_SESSION_TIMEOUT_MS = 18_000
PINGS_PER_TIMEOUT = 3
MAX_CONNECTIONS = 1_024
"""Far more than the workers of a machine have: a client that leaks connections takes no descriptors that
the store's own file needs."""
MAX_WAITING = 100_000
"""The most answers and events that wait for a peer: a peer with more of them does not read."""
_RECEIVE_BYTES = 256 * 1024
_RETRY_S = 0.1
_PING: list[Any] = [0, "ping"]


class StoreServer:
    """Serves a store at a Unix socket that only the user of this process may connect to.

    Args:
        store: what it serves. It is closed by its owner, after `stop`.
        path: the socket; a socket that a dead server has left is replaced.
        session_timeout_ms: after how long a silence a session is ended whose connection still stands.
    """

    def __init__(
        self, store: EmbeddedStore, path: Path, *, session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    ) -> None:
        self.store = store
        self.path = path
        self.session_timeout_ms = session_timeout_ms
        self._connections: set[_Connection] = set()
        """Each until both of its threads have ended; changed with `_connections_lock` held."""
        self._connections_lock = threading.Lock()
        self._sessions: dict[int, _Session] = {}  # changed with `store.effects` held
        self._stopping = threading.Event()
        self._listener: socket.socket | None = None
        """None unless the server runs."""
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        """Closed by `stop`, by which its other end wakes the thread that waits for connections."""

    def start(self) -> None:
        """Accept connections from now on.

        Raises:
            StoreUnavailable: the socket cannot be made; the message says why.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Nobody serves there: this process has locked the store's file (`EmbeddedStore`).
            _remove_socket(self.path)
            listener.bind(str(self.path))
            # Before `listen`: until then nobody can connect.
            self.path.chmod(0o600)
            listener.listen(128)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            raise StoreUnavailable(
                str(self.path), f"the socket {self.path} cannot be made: {error.strerror or error}"
            ) from error
        self._listener = listener
        self._wake, woken = socket.socketpair()
        self.store.on_events = self._collect
        self._thread = threading.Thread(
            target=self._accept, args=(listener, woken), name="store-accept", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more, and end all sessions. Harmless when it does not run."""
        if self._listener is None or self._thread is None or self._wake is None:
            return
        self._stopping.set()
        self._wake.close()
        self._thread.join()
        with self._connections_lock:
            connections = list(self._connections)
        # All of them first: each may take a while to end.
        for connection in connections:
            connection.cut()
        for connection in connections:
            connection.reader.join()
        self._listener.close()
        self._listener = None
        self.store.on_events = None
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, woken:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                selector.select()
                if self._stopping.is_set():
                    return
                try:
                    accepted, _ = listener.accept()
                except BlockingIOError:
                    continue  # who wanted to connect has gone again
                except OSError as error:
                    # Out of file descriptors; some may be free soon.
                    logger.warning("a connection to the metadata store is not accepted: %s", error)
                    self._stopping.wait(_RETRY_S)
                    continue
                self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        with self._connections_lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                logger.warning("too many connections to the metadata store limit=%d", MAX_CONNECTIONS)
                accepted.close()
                return
            connection = _Connection(self, accepted)
            self._connections.add(connection)
        connection.reader.start()

    def _collect(self, events: Sequence[WatchEvent]) -> None:
        for session in self._sessions.values():
            session.collect(events)

    def begin_session(self, tell: Callable[[WatchEvent], None]) -> _Session:
        """Begin a session whose events go to `tell`."""
        session = _Session(self.store, tell)
        with self.store.effects:
            self._sessions[session.session_id] = session
        return session

    def end_session(self, session: _Session) -> None:
        """End a session: it hears of nothing more, and its ephemeral nodes go."""
        # Before the session's nodes go: it is not to hear of that.
        with self.store.effects:
            self._sessions.pop(session.session_id, None)
        session.close()

    def forget(self, connection: _Connection) -> None:
        """A connection is closed."""
        with self._connections_lock:
            self._connections.discard(connection)


class _Session(LocalSession):
    """A further session with an embedded store. Reads and watches are for who holds `store.effects`."""

    def __init__(self, store: EmbeddedStore, tell: Callable[[WatchEvent], None]) -> None:
        super().__init__(store.tree, store.next_session_id())
        self.store = store
        self.tell = tell

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`."""
        return self.store.commit(ops, self._session_id)

    def close(self) -> None:
        """See `MetadataStore.close`."""
        if self._open:
            self._open = False
            self.store.end_session(self._session_id)

    def collect(self, events: Sequence[WatchEvent]) -> None:
        """Hand on what the session watches of `events`."""
        self._watches.collect(events)
        self._watches.deliver()


class _Connection:
    """A connection: its session, and the two threads that serve it."""

    def __init__(self, server: StoreServer, accepted: socket.socket) -> None:
        self._server = server
        self._socket = accepted
        self._silence_s = server.session_timeout_ms / 1000 / PINGS_PER_TIMEOUT
        # A timeout of the socket is a silence; so many make the session's.
        accepted.settimeout(self._silence_s)
        self._session: _Session | None = None
        """None until the greeting: a peer that has not greeted is not pinged, only given up."""
        self._outgoing: queue.Queue[list[Any] | None] = queue.Queue()
        """What leaves, in order; None ends the thread that sends. Not bounded as a queue: who puts an event
        holds `store.effects` and must not wait for a peer. `MAX_WAITING` cuts the peer off instead."""
        self._writer = threading.Thread(target=self._write, name="store-write", daemon=True)
        self.reader = threading.Thread(target=self._serve, name="store-read", daemon=True)
        self._methods: dict[str, Callable[[_Session, int, list[Any]], None]] = {
            "children": self._children,
            "exists": self._exists,
            "exists_many": self._exists_many,
            "get": self._get,
            "get_many": self._get_many,
            "multi": self._multi,
            "unwatch": self._unwatch,
            "watch": self._watch,
        }

    def cut(self) -> None:
        """Break the connection off; its threads end, and with them the session."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    # ------------------------------------------------------------------ requests

    def _serve(self) -> None:
        why = "closed"
        try:
            why = self._serve_requests()
        except StoreProtocolError as error:
            why = str(error)
            logger.warning("a connection to the metadata store is closed: %s", error)
        except OSError as error:
            why = error.strerror or str(error)
        except Exception:
            why = "an error of its own"
            logger.exception("a connection to the metadata store is closed")
        finally:
            self._end(why)

    def _serve_requests(self) -> str:
        frames = FrameReader(MAX_GREETING_BYTES)
        while True:
            message = frames.next_message()
            if message is None:
                received = self._receive()
                if received is None:
                    return "silent for too long"
                if not received:
                    return "the connection was closed"
                frames.feed(received)
                continue
            request = number(message[0])
            if request == 0 and message[1:] == ["pong"]:
                continue
            if request < 1 or len(message) < 2:
                raise StoreProtocolError("a frame that is no request")
            method, arguments = text(message[1]), message[2:]
            if self._session is None:
                self._connect(request, method, arguments)
                frames.max_bytes = MAX_FRAME_BYTES
            elif method == "close":
                # Before the answer: whoever has it finds the ephemeral nodes gone.
                self._server.end_session(self._session)
                self._answer(request, None)
                return "closed"
            else:
                self._do(self._session, request, method, arguments)

    def _receive(self) -> bytes | None:
        """Return what the peer has sent; nothing at its end, None after a session's timeout in silence."""
        for _ in range(PINGS_PER_TIMEOUT):
            try:
                return self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                if self._session is not None:
                    self._put(_PING)
        return None

    def _connect(self, request: int, method: str, arguments: list[Any]) -> None:
        if method != "connect" or arguments != [PROTOCOL_VERSION]:
            raise StoreProtocolError(f"not a greeting of version {PROTOCOL_VERSION}: {method!r:.100}")
        self._session = self._server.begin_session(self._tell)
        logger.info("session begun id=%d", self._session.session_id)
        self._writer.start()
        self._answer(request, [self._session.session_id, self._server.session_timeout_ms])

    def _do(self, session: _Session, request: int, method: str, arguments: list[Any]) -> None:
        do = self._methods.get(method)
        if do is None:
            raise StoreProtocolError(f"no such request: {method!r:.100}")
        try:
            do(session, request, arguments)
        except StoreError as error:
            self._put(error_message(request, error))

    def _get(self, session: _Session, request: int, arguments: list[Any]) -> None:
        path, watch = _two(arguments)
        # Held until the answer is in line: no event of a later change can come before it.
        with session.store.effects:
            node = session.get(text(path), self._watcher(session, watch))
            self._answer(request, node_to_json(node))

    def _exists(self, session: _Session, request: int, arguments: list[Any]) -> None:
        path, watch = _two(arguments)
        with session.store.effects:
            self._answer(request, session.exists(text(path), self._watcher(session, watch)))

    def _children(self, session: _Session, request: int, arguments: list[Any]) -> None:
        path, watch = _two(arguments)
        with session.store.effects:
            self._answer(request, session.children(text(path), self._watcher(session, watch)))

    def _get_many(self, session: _Session, request: int, arguments: list[Any]) -> None:
        """Answer with the first of the nodes, as many as have room."""
        if len(arguments) != 1:
            raise StoreProtocolError("get_many takes one list of paths")
        nodes: list[Any] = []
        size = 0
        with session.store.effects:
            for path in items(arguments[0]):
                (node,) = session.get_many([text(path)])
                if node is not None:
                    size += node.stat.data_length
                    if nodes and size > BATCH_BYTES:
                        break
                nodes.append(node_to_json(node))
            self._answer(request, nodes)

    def _exists_many(self, session: _Session, request: int, arguments: list[Any]) -> None:
        if len(arguments) != 1:
            raise StoreProtocolError("exists_many takes one list of paths")
        with session.store.effects:
            self._answer(request, session.exists_many([text(path) for path in items(arguments[0])]))

    def _multi(self, session: _Session, request: int, arguments: list[Any]) -> None:
        if len(arguments) != 1:
            raise StoreProtocolError("multi takes one list of operations")
        # Without `effects`, which `commit` holds by itself, after it has waited for the disk.
        self._answer(request, session.multi([op_from_json(op) for op in items(arguments[0])]))

    def _watch(self, session: _Session, request: int, arguments: list[Any]) -> None:
        path, recursive = _two(arguments)
        with session.store.effects:
            session.watch_persistent(text(path), session.tell, flag(recursive))
            self._answer(request, None)

    def _unwatch(self, session: _Session, request: int, arguments: list[Any]) -> None:
        if len(arguments) != 1:
            raise StoreProtocolError("unwatch takes a path")
        with session.store.effects:
            session.unwatch(text(arguments[0]), session.tell)
            self._answer(request, None)

    def _watcher(self, session: _Session, watch: object) -> Callable[[WatchEvent], None] | None:
        return session.tell if flag(watch) else None

    # ------------------------------------------------------------------ what leaves

    def _tell(self, event: WatchEvent) -> None:
        self._put(event_message(event))

    def _answer(self, request: int, result: object) -> None:
        self._put([request, True, result])

    def _put(self, message: list[Any]) -> None:
        if self._outgoing.qsize() >= MAX_WAITING:
            self.cut()
            return
        self._outgoing.put(message)

    def _write(self) -> None:
        try:
            while True:
                try:
                    message = self._outgoing.get(timeout=self._silence_s)
                except queue.Empty:
                    # The peer waits for an answer, perhaps, which waits for the disk.
                    message = _PING
                if message is None:
                    return
                self._send(_framed(message))
        except OSError:
            self.cut()

    def _send(self, data: bytes) -> None:
        """Send all of it, however long that takes a peer that does read."""
        rest = memoryview(data)
        silences = 0
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
                silences = 0
            except TimeoutError:
                silences += 1
                if silences == PINGS_PER_TIMEOUT:
                    raise

    def _end(self, why: str) -> None:
        session = self._session
        if session is not None:
            try:
                self._server.end_session(session)
            except StoreError:
                logger.exception("the session's ephemeral nodes stay id=%d", session.session_id)
            # The answer to `close` still has to leave.
            if why != "closed":
                self.cut()
            self._outgoing.put(None)
            self._writer.join()
            logger.info("session ended id=%d why=%s", session.session_id, why)
        self.cut()
        self._socket.close()
        self._server.forget(self)


def _framed(message: list[Any]) -> bytes:
    try:
        return frame(message)
    except StoreProtocolError as error:
        # Who asks for too much is told so, and keeps the session.
        return frame(error_message(message[0], StoreUnavailable("/", f"too much for one answer: {error}")))


def _two(arguments: list[Any]) -> list[Any]:
    if len(arguments) != 2:
        raise StoreProtocolError(f"{len(arguments)} arguments where two are expected")
    return arguments


def _remove_socket(path: Path) -> None:
    """Remove a socket that a dead server has left; nothing else."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(0, "there is another file of this name, which is no socket", str(path))
    path.unlink()
