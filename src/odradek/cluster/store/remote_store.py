"""A session with the store of a `StoreServer`, for the brokers that are workers of one machine.

Calls are synchronous, from any thread; those of several threads are under way together. One thread receives,
another calls the watchers, in order: a watcher may use the store. The session is the connection. When that
breaks, or the server says nothing for the session's timeout, the session is over for good: every call raises
`SessionExpired`, also the ones under way, whose writes may or may not have been done. A new object is a new
session.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from odradek.cluster.store.store import (
    ANY_VERSION,
    BadArguments,
    Create,
    Delete,
    NodeContent,
    Op,
    OpResult,
    SessionExpired,
    SetData,
    Stat,
    StoreUnavailable,
    Watcher,
    WatchEvent,
    check_path,
)
from odradek.cluster.store.store_protocol import (
    PROTOCOL_VERSION,
    FrameReader,
    StoreProtocolError,
    error_from_message,
    event_from_message,
    flag,
    frame,
    items,
    node_from_json,
    number,
    op_result_from_json,
    op_to_json,
    stat_from_json,
    text,
)
from odradek.cluster.store.watchers_thread import WatchersThread
from odradek.cluster.store.watches import WatchTable

logger = logging.getLogger(__name__)

_RECEIVE_BYTES = 256 * 1024
_PATHS_AT_ONCE = 10_000
"""How many paths a request names at most: others' requests come between, and a frame has room for them."""


class RemoteStore:
    """One session over the socket at `path`.

    Args:
        path: the socket of a `StoreServer`.
        connection_timeout_ms: how long to wait for the session to begin.

    Raises:
        StoreUnavailable: nobody serves a store there, or the one who does is of another version.
    """

    def __init__(self, path: Path | str, *, connection_timeout_ms: int = 18_000) -> None:
        self.path = Path(path)
        self._frames = FrameReader()
        self._socket = _connect(self.path, connection_timeout_ms)
        try:
            self._session_id, timeout_ms = self._greet()
        except BaseException:
            self._socket.close()
            raise
        # The server pings several times in this time.
        self._socket.settimeout(timeout_ms / 1000)
        self._lock = threading.Lock()  # of what follows, up to the watches; never held while waiting
        self._open = True
        """Whether requests are taken; `close` and the end of the connection end that."""
        self._closed = False
        """Whether `close` was called: an end that was wanted is told to nobody."""
        self._broken = False
        """Whether the connection is gone; from then on `_calls` stays empty."""
        self._expired = False
        self._expired_callbacks: list[Callable[[], None]] = []
        # By number: the requests that have no answer yet. Number 1 was the greeting, 0 are the server's
        # messages.
        self._calls: dict[int, _Call] = {}
        self._last_call = 1
        self._watches = WatchTable()
        self._watches_lock = threading.Lock()
        self._persistent_lock = threading.Lock()  # nobody takes a watch back while another adds one
        self._sending = threading.Lock()
        self._calling = WatchersThread("store-watches")
        self._receiver = threading.Thread(target=self._receive, name="store-receive", daemon=True)
        self._receiver.start()
        self._calling.start()

    def _greet(self) -> tuple[int, int]:
        try:
            self._socket.sendall(frame([1, "connect", PROTOCOL_VERSION]))
            while (message := self._frames.next_message()) is None:
                received = self._socket.recv(_RECEIVE_BYTES)
                if not received:
                    raise StoreUnavailable(
                        str(self.path),
                        f"the metadata store at {self.path} does not begin a session: it is stopping, or of "
                        "another version of odradek",
                    )
                self._frames.feed(received)
            if len(message) != 3 or message[:2] != [1, True]:
                raise StoreProtocolError("no answer to the greeting")
            session_id, timeout_ms = items(message[2])
            return number(session_id), number(timeout_ms)
        except (OSError, ValueError, StoreProtocolError) as error:
            raise _unreachable(self.path, error) from error

    @property
    def session_id(self) -> int:
        """See `MetadataStore.session_id`."""
        return self._session_id

    # ------------------------------------------------------------------ reads

    def get(self, path: str, watch: Watcher | None = None) -> NodeContent:
        """See `MetadataStore.get`."""
        arm = None if watch is None else partial(self._watches.arm_data, path, watch)
        node = node_from_json(self._ask(path, ["get", path, watch is not None], arm))
        if node is None:
            raise self._over(path)
        return node

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """See `MetadataStore.exists`."""
        arm = None if watch is None else partial(self._watches.arm_data, path, watch)
        stat = self._ask(path, ["exists", path, watch is not None], arm)
        return None if stat is None else stat_from_json(stat)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """See `MetadataStore.children`."""
        arm = None if watch is None else partial(self._watches.arm_children, path, watch)
        return [text(name) for name in items(self._ask(path, ["children", path, watch is not None], arm))]

    def get_many(self, paths: Sequence[str]) -> list[NodeContent | None]:
        """See `MetadataStore.get_many`."""
        for path in paths:
            check_path(path)
        nodes: list[NodeContent | None] = []
        while len(nodes) < len(paths):
            some_paths = list(paths[len(nodes) : len(nodes) + _PATHS_AT_ONCE])
            # The answer has as many nodes as it has room for (`BATCH_BYTES`), at least the first.
            some = items(self._ask(some_paths[0], ["get_many", some_paths]))
            if not 1 <= len(some) <= len(some_paths):
                raise self._over(some_paths[0])
            nodes += [node_from_json(node) for node in some]
        return nodes

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """See `MetadataStore.exists_many`."""
        for path in paths:
            check_path(path)
        stats: list[Stat | None] = []
        for begin in range(0, len(paths), _PATHS_AT_ONCE):
            some_paths = list(paths[begin : begin + _PATHS_AT_ONCE])
            some = items(self._ask(some_paths[0], ["exists_many", some_paths]))
            stats += [None if stat is None else stat_from_json(stat) for stat in some]
        return stats

    # ------------------------------------------------------------------ writes

    def create(
        self, path: str, data: bytes | None = None, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """See `MetadataStore.create`."""
        return text(self.multi([Create(path, data, ephemeral, sequence)])[0])

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        result = self.multi([SetData(path, data, version)])[0]
        assert isinstance(result, Stat)
        return result

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        self.multi([Delete(path, version)])

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`. Those of several threads are under way together."""
        path = ops[0].path if ops else "/"
        results = items(self._ask(path, ["multi", [op_to_json(op) for op in ops]], is_write=True))
        return [op_result_from_json(result) for result in results]

    # ------------------------------------------------------------------ watches

    def watch_persistent(self, path: str, watcher: Watcher, recursive: bool = False) -> None:
        """See `MetadataStore.watch_persistent`."""
        arm = partial(self._watches.add_persistent, path, watcher, recursive)
        with self._persistent_lock:
            self._ask(path, ["watch", path, recursive], arm)

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """See `MetadataStore.unwatch`."""
        with self._persistent_lock:
            with self._watches_lock:
                had = self._watches.watches_for_good(path)
                self._watches.remove_persistent(path, watcher)
                stays = self._watches.watches_for_good(path)
            if had and not stays:
                # With the session its watches are gone as well.
                with contextlib.suppress(SessionExpired):
                    self._ask(path, ["unwatch", path])

    def on_expired(self, callback: Callable[[], None]) -> None:
        """See `MetadataStore.on_expired`. It is called in the watchers' thread, soon if the session has
        expired already."""
        with self._lock:
            if not self._expired:
                self._expired_callbacks.append(callback)
                return
        self._calling.later(callback)

    def later(self, call: Callable[[], None]) -> None:
        """Make a call in the watchers' thread, after those of the events that have come."""
        self._calling.later(call)

    def _tell(self, watcher: Watcher, event: WatchEvent) -> None:
        # Looked at when it is the watcher's turn: `close` may have come since the event.
        if not self._closed:
            watcher(event)

    # ------------------------------------------------------------------ requests and answers

    def _ask(
        self,
        path: str,
        request: list[Any],
        arm: Callable[[], None] | None = None,
        is_write: bool = False,
        is_last: bool = False,
    ) -> Any:
        """Send a request and wait for its result.

        Args:
            path: the node that the request is about, for errors.
            request: its method and arguments.
            arm: called when the request has succeeded, before any event that follows.
            is_write: the request's paths are checked by the server, which says which operation is wrong.
            is_last: whether the request ends the session.
        """
        call = _Call(arm)
        with self._lock:
            if self._broken or not (self._open or is_last):
                raise self._over(path)
            if not is_write:
                check_path(path)
            self._last_call += 1
            request_number = self._last_call
            self._calls[request_number] = call
        try:
            self._send(frame([request_number, *request]))
        except StoreProtocolError as error:
            with self._lock:
                self._calls.pop(request_number, None)
            raise BadArguments(path, str(error)) from None
        except OSError:
            # What is sent in part cannot be gone on with; the receiver sees it, and ends the call.
            self._cut()
        call.done.wait()
        message = call.message
        if message is None:
            raise self._over(path)
        if len(message) == 3:
            return message[2]
        raise error_from_message(message)

    def _send(self, data: bytes) -> None:
        with self._sending:
            self._socket.sendall(data)

    def _receive(self) -> None:
        try:
            while True:
                while (message := self._frames.next_message()) is not None:
                    self._take(message)
                received = self._socket.recv(_RECEIVE_BYTES)
                if not received:
                    why = "the connection was closed"
                    break
                self._frames.feed(received)
        except TimeoutError:
            why = "the server has said nothing for the session's timeout"
        except (OSError, StoreProtocolError) as error:
            why = str(error)
        except Exception:
            logger.exception("the session with the metadata store breaks off")
            why = "an error of its own"
        self._ended(why)

    def _take(self, message: list[Any]) -> None:
        answered = number(message[0])
        if answered == 0:
            if message[1:] == ["ping"]:
                self._pong()
                return
            event = event_from_message(message)
            with self._watches_lock:
                self._watches.collect([event])
                calls = self._watches.take()
            for watcher, of_event in calls:
                self._calling.later(partial(self._tell, watcher, of_event))
            return
        with self._lock:
            call = self._calls.pop(answered, None)
        if call is None or len(message) < 3:
            raise StoreProtocolError("an answer that nobody waits for")
        if flag(message[1]):
            if len(message) != 3:
                raise StoreProtocolError("an answer of too many fields")
            if call.arm is not None:
                with self._watches_lock:
                    call.arm()
        elif len(message) != 6:
            raise StoreProtocolError("a refusal of another size")
        call.message = message
        call.done.set()

    def _pong(self) -> None:
        # Who holds the lock is sending, which says as much.
        if self._sending.acquire(blocking=False):
            try:
                self._socket.sendall(frame([0, "pong"]))
            finally:
                self._sending.release()

    def _ended(self, why: str) -> None:
        """The connection is no more: end the calls under way and tell who wants to know."""
        self._cut()
        with self._sending:
            self._socket.close()
        with self._lock:
            self._open = False
            self._broken = True
            waiting = list(self._calls.values())
            self._calls.clear()
            callbacks: list[Callable[[], None]] = []
            if not self._closed:
                self._expired = True
                callbacks, self._expired_callbacks = self._expired_callbacks, []
        for call in waiting:
            call.done.set()
        with self._watches_lock:
            self._watches.clear()
        if self._expired:
            logger.warning("the session with the metadata store is over id=%d why=%s", self._session_id, why)
        for callback in callbacks:
            self._calling.later(callback)

    def close(self) -> None:
        """See `MetadataStore.close`. Returns when the ephemeral nodes are gone, if the server is there."""
        with self._lock:
            if self._closed:
                return
            self._open = False
            self._closed = True
        with contextlib.suppress(SessionExpired):
            self._ask("/", ["close"], is_last=True)
        self._cut()
        # A watcher that is at work may wait for the thread that closes: it is not waited for.
        self._calling.end()
        self._receiver.join()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _over(self, path: str) -> SessionExpired:
        return SessionExpired(path, "the session with the metadata store is over")


class _Call:
    """A request that waits for its answer. `message` stays None when the connection breaks before it."""

    __slots__ = ("arm", "done", "message")

    def __init__(self, arm: Callable[[], None] | None) -> None:
        self.arm = arm
        self.done = threading.Event()
        self.message: list[Any] | None = None


def _connect(path: Path, timeout_ms: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_ms / 1000)
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise _unreachable(path, error) from error
    return connection


def _unreachable(path: Path, error: Exception) -> StoreUnavailable:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return StoreUnavailable(str(path), f"the metadata store at {path} cannot be reached: {why}")
