"""One ZooKeeper session over kazoo, which is imported here alone.

What kazoo does otherwise than a broker needs: after the end of a session it begins another session (here it
stops), and it forgets all watches when the connection is lost (`zookeeper.py` arms them again).
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.protocol.states import Callback, KazooState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id

from odradek.cluster.store.store import (
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
    NotPermitted,
    Op,
    SetData,
    Stat,
    StoreError,
)
from odradek.cluster.store.zookeeper_access import Acl, DigestAuth, SaslAuth
from odradek.cluster.store.zookeeper_tls import TlsHandler

_ERRORS: dict[Any, type[StoreError]] = {
    kz.NoNodeError: NoNode,
    kz.NodeExistsError: NodeExists,
    kz.BadVersionError: BadVersion,
    kz.NotEmptyError: NotEmpty,
    kz.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    kz.BadArgumentsError: BadArguments,
    kz.InvalidACLError: BadArguments,
    kz.NoAuthError: NotPermitted,
}
_EVENTS = {
    "CREATED": EventType.CREATED,
    "DELETED": EventType.DELETED,
    "CHANGED": EventType.CHANGED,
    "CHILD": EventType.CHILDREN,
}
_POLL_S = 0.2
"""How often who waits looks whether the session is over."""


_HANDSHAKE_S = 5.0
"""How long a server may take to answer a handshake before the next server is asked, at most."""


class ConnectionLost(Exception):
    """The connection was lost while an operation was under way, or the server asks for it to be repeated:
    it may have been done, or not."""


class SessionOver(Exception):
    """The session is over: expired, refused, or closed."""


class NotKnown(Exception):
    """The server is too old for the request."""


class WaitedTooLong(Exception):
    """No answer within the time given."""


class ZooKeeperConnection:
    """A session and its connection, which kazoo restores while the session lasts.

    Args:
        servers: `host:port`, separated by commas.
        session_timeout_ms: asked of the server, which may bound it.
        auth: who the session is.
        tls: how the connection is encrypted; None for a plain connection.
        on_state: called in kazoo's thread for events, in order with them: True when the connection is there
            again after a loss, False when the session is over (not at `close`).
    """

    def __init__(
        self,
        servers: str,
        session_timeout_ms: int,
        auth: DigestAuth | SaslAuth | None,
        on_state: Callable[[bool], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._on_state = on_state
        self._connected_once = False
        """Whether the first connection was there: only further ones are told as restored."""
        self.is_over = False
        """Stays True: no further session is begun here."""
        self._closing = False
        """Whether `close` was called: what kazoo says from then on is told to nobody."""
        self._log = _DiscreetLog(logging.getLogger("odradek.cluster.store.zookeeper.kazoo"))
        self._client = KazooClient(
            hosts=servers,
            timeout=session_timeout_ms / 1000,
            handler=SequentialThreadingHandler() if tls is None else TlsHandler(tls),
            auth_data=[("digest", f"{auth.username}:{auth.password}")]
            if isinstance(auth, DigestAuth)
            else None,
            sasl_options=_sasl_options(auth),
            # By default kazoo's pauses grow to a minute, in which the session would be over.
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0),
            logger=self._log,
        )
        _bound_handshakes(self._client, session_timeout_ms / 1000)
        self._client.add_listener(self._state_changed)
        self._live: threading.Event = threading.Event()
        """kazoo's event once it has started: set while the connection is there."""

    def start(self, timeout_s: float) -> None:
        """Begin the session.

        Raises:
            SessionOver: the server refuses the credentials.
            WaitedTooLong: no server answers.
        """
        self._live = self._client.start_async()
        self.await_connected(time.monotonic() + timeout_s)

    @property
    def session(self) -> tuple[int, bytes]:
        """The session's id and password; meaningful once connected."""
        return self._client._session_id, self._client._session_passwd

    @property
    def peer(self) -> tuple[str, int]:
        """The address of the server; meaningful while connected."""
        host, port = self._client._connection._socket.getpeername()[:2]
        return host, port

    @property
    def requests_sent(self) -> int:
        """The number of requests on the present connection; pings and credentials are not counted."""
        return int(self._client._connection._xid or 0)

    @property
    def last_zxid(self) -> int:
        """The newest transaction that this session has heard of."""
        return int(self._client.last_zxid)

    def await_connected(self, deadline: float) -> None:
        """Wait for the connection until `deadline` (`time.monotonic`).

        Raises:
            SessionOver: the session is over.
            WaitedTooLong: there is none by then.
        """
        while not self.is_over:
            left = deadline - time.monotonic()
            if self._live.wait(max(0.0, min(left, _POLL_S))):
                return
            if left <= 0:
                raise WaitedTooLong
        raise SessionOver

    def result(self, pending: Any, path: str, deadline: float) -> Any:
        """The result of an operation that was sent.

        Raises:
            StoreError: the server refuses it.
            NotKnown: the server does not know such a request.
            ConnectionLost: whether it was done is not known.
            SessionOver: as for `ConnectionLost`, and the session is over.
            WaitedTooLong: as for `ConnectionLost`, and it may still be done.
        """
        while True:
            left = deadline - time.monotonic()
            try:
                return pending.get(timeout=max(0.0, min(left, _POLL_S)))
            except KazooTimeoutError:
                # kazoo forgets what is asked of it in the very moment in which a session ends.
                if self.is_over:
                    raise SessionOver from None
                if left <= 0:
                    raise WaitedTooLong from None
            except (kz.SessionExpiredError, kz.AuthFailedError, kz.SessionClosedRequireSaslError):
                raise SessionOver from None
            except (kz.ConnectionLoss, kz.OperationTimeoutError, kz.RequestTimeoutError):
                raise ConnectionLost from None
            # The session is at another server by now, or this one has too much to do: both ask for a retry.
            except (kz.SessionMovedError, kz.ThrottledOpError):
                time.sleep(min(_POLL_S, max(0.0, left)))
                raise ConnectionLost from None
            except kz.UnimplementedError:
                raise NotKnown from None
            except kz.KazooException as error:
                raise translated(error, path) from None

    # --- operations, sent but not waited for --------------------------------------------------------------

    def get(self, path: str, watch: Callable[[WatchedEvent], None] | None = None) -> Any:
        """Ask for a node's data and stat."""
        return self._client.get_async(path, watch)

    def get_together(self, paths: Sequence[str]) -> Any:
        """Ask for the data and stats of nodes, None for one that is not there, in one request (ZooKeeper 3.6;
        an older server refuses it with `NotKnown`)."""
        pending = self._client.handler.async_result()
        self._client._call(_MultiRead(tuple(paths)), pending)
        return pending

    def exists(self, path: str, watch: Callable[[WatchedEvent], None] | None = None) -> Any:
        """Ask for a node's stat, None for no node."""
        return self._client.exists_async(path, watch)

    def children(self, path: str, watch: Callable[[WatchedEvent], None] | None = None) -> Any:
        """Ask for a node's children and stat."""
        # With the stat (`getChildren2`), whose `pzxid` tells whether the children have changed.
        return self._client.get_children_async(path, watch, include_data=True)

    def write(self, op: Op, path: str, acl: Acl) -> Any:
        """Ask for one change; `path` is that of the server."""
        if isinstance(op, Create):
            return self._client.create_async(path, op.data, _acls(acl), op.ephemeral, op.sequence)
        if isinstance(op, SetData):
            return self._client.set_async(path, op.data, op.version)
        assert isinstance(op, Delete)
        return self._client.delete_async(path, op.version)

    def transaction(self, ops: list[tuple[Op, str, Acl]]) -> Any:
        """Ask for all of these, or none."""
        request = self._client.transaction()
        # kazoo's `TransactionRequest.create` and `set_data` do not take null data.
        request.operations = [_operation(*op) for op in ops]
        return request.commit_async()

    # --- events and the end -------------------------------------------------------------------------------

    def dispatch(self, call: Callable[[], None]) -> None:
        """Make a call in kazoo's thread for events, after those of the events that have arrived."""
        self._client.handler.dispatch_callback(Callback("session", call, ()))

    def _state_changed(self, state: str) -> None:
        # In kazoo's thread for the connection, which must not wait.
        if self._closing:
            return
        if state == KazooState.LOST:
            self.is_over = True
            # Otherwise kazoo begins a new session, in which what still waits here would be done.
            self._client._stopped.set()
            self.dispatch(lambda: self._on_state(False))
        elif state == KazooState.CONNECTED:
            if self._connected_once:
                self.dispatch(lambda: self._on_state(True))
            self._connected_once = True

    def close(self) -> None:
        """End the session at the server, if it can be reached, and the threads."""
        self._closing = self._log.closing = True
        was_over, self.is_over = self.is_over, True
        try:
            if was_over:
                # `stop` does nothing after the end of a session, and would leave kazoo's threads.
                self._client._safe_close()
            else:
                self._client.stop()
        finally:
            self._client.close()


def _sasl_options(auth: DigestAuth | SaslAuth | None) -> dict[str, Any] | None:
    if not isinstance(auth, SaslAuth):
        return None
    # Its package is needed here alone.
    from odradek.cluster.store.zookeeper_sasl import options_of

    return options_of(auth)


class _MultiRead:
    """ZooKeeper's `multiRead` (ZOOKEEPER-3402), of nodes' data alone, in kazoo's form."""

    type = 22
    """ZooKeeper: `OpCode.multiRead`."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        """The request's body: a header before each path, and a last header at the end."""
        header = serialization.MultiHeader(serialization.GetData.type, False, -1).serialize()
        parts = []
        for path in self._paths:
            parts += [header, serialization.GetData(path, None).serialize()]
        return b"".join([*parts, serialization.MultiHeader(-1, True, -1).serialize()])

    def deserialize(self, buffer: bytes, offset: int) -> list[Any]:
        """For each path what was read, None for no node, the server's error for any other refusal."""
        results: list[Any] = []
        header, offset = serialization.MultiHeader.deserialize(buffer, offset)
        while not header.done:
            if header.type == serialization.GetData.type:
                data, offset = serialization.read_buffer(buffer, offset)
                stat = serialization.ZnodeStat._make(serialization.stat_struct.unpack_from(buffer, offset))
                offset += serialization.stat_struct.size
                results.append((data, stat))
            else:
                code = serialization.int_struct.unpack_from(buffer, offset)[0]
                offset += serialization.int_struct.size
                results.append(None if code == kz.NoNodeError.code else kz.EXCEPTIONS[code]())
            header, offset = serialization.MultiHeader.deserialize(buffer, offset)
        return results


class _DiscreetLog(logging.LoggerAdapter[logging.Logger]):
    """kazoo's log without what it sends (passwords, credentials in nodes), and only until we close the
    connection: that it is gone then is no news."""

    closing = False

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        """See `logging.Logger.isEnabledFor`."""
        return level >= logging.INFO and not self.closing and super().isEnabledFor(level)


def stat_of(stat: Any) -> Stat:
    """kazoo's stat as ours."""
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.ephemeralOwner,
        stat.dataLength,
        stat.numChildren,
    )


def event_type(event: WatchedEvent) -> EventType | None:
    """Return kazoo's event as ours; None for an event of the connection, which ends all watches."""
    return _EVENTS.get(event.type)


def translated(error: Exception, path: str) -> StoreError:
    """The server's refusal as an error of the store."""
    kind = _ERRORS.get(type(error))
    if kind is NotPermitted:
        return NotPermitted(path, f"{path}: this session's credentials do not permit it (see the node's ACL)")
    if kind is not None:
        return kind(path)
    return StoreError(path, f"{path}: ZooKeeper refuses it: {type(error).__name__} {error}".rstrip())


def failed_operation(results: list[Any]) -> tuple[int, Exception] | None:
    """Return which operation of a transaction failed, and how; None when all were done."""
    # Operations before the failed one answer with code 0 (rolled back), those after it with another code.
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, kz.RolledBackError):
            return index, result
    return None


def _acls(acl: Acl) -> list[ACL]:
    return [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in acl]


def _operation(op: Op, path: str, acl: Acl) -> Any:
    if isinstance(op, Create):
        # The numbers of ZooKeeper's `CreateMode`.
        flags = (1 if op.ephemeral else 0) | (2 if op.sequence else 0)
        return serialization.Create(path, op.data, _acls(acl), flags)
    if isinstance(op, SetData):
        return serialization.SetData(path, op.data, op.version)
    if isinstance(op, Delete):
        return serialization.Delete(path, op.version)
    assert isinstance(op, Check)
    return serialization.CheckVersion(path, op.version)


def _bound_handshakes(client: KazooClient, session_s: float) -> None:
    """Leave a server that takes a connection and stays silent, while the session still lasts.

    A server that is about to start or to end may do that. kazoo waits as long as the session lasts, divided
    by the number of servers: with a single server the session would be over.
    """
    limit_s = min(max(session_s / 3, 1.0), _HANDSHAKE_S)
    connection = client._connection
    invoke = connection._invoke

    def bounded(timeout: float, request: Any, xid: int | None = None) -> Any:
        return invoke(min(timeout, limit_s), request, xid)

    connection._invoke = bounded
