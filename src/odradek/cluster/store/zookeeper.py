"""The metadata store of a cluster: a session with ZooKeeper.

The wire is kazoo's (`zookeeper_connection.py`), watchers are called in `zookeeper_watchers.py`; here are the
session, and what an operation does when the connection is lost.

**A lost connection.** Operations wait for another one, at most for `request_timeout_ms` each, and are then
sent again, as Kafka's brokers do it. A write may have been done although its answer was lost, and its second
sending then fails. So a refusal after a loss is followed by a look: do the nodes stand as the write would
have left them, with the session's own ephemeral nodes, and all by one transaction that is newer than the
write's first sending? Then it was done, and succeeds. (Kafka looks in the same way at the owner of an
ephemeral node and at the state of a partition.) What cannot be told: a sequence node may be there twice; a
write for which the time ran out raises `StoreUnavailable` with `outcome_unknown`, and may even be done later,
while the session lasts. Writes that must not be done twice check a version.

**The end of the session** is told by the server alone. From then on this object raises `SessionExpired`;
whoever wants another session makes another object.

**Threads.** Operations may be called by any thread that may wait. Watchers and the callbacks of `on_expired`
are called in one thread of a session, one after the other; they may call the store.
"""

from __future__ import annotations

import importlib.util
import logging
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from odradek.cluster.store.store import (
    ANY_VERSION,
    BadArguments,
    Check,
    Create,
    Delete,
    NodeContent,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    StoreUnavailable,
    Watcher,
    check_path,
    ensure_path,
)
from odradek.cluster.store.zookeeper_access import Auth, ConnectString, SaslAuth, acl_of
from odradek.cluster.store.zookeeper_watchers import Look, ZooKeeperWatchers
from odradek.util.extras import install

logger = logging.getLogger(__name__)

IN_FLIGHT = 1000
"""How many requests `get_many` sends before it waits for their answers, so that neither side holds more of
them. Kafka: `zookeeper.max.in.flight.requests`."""

TOGETHER = 100
"""How many nodes one request of `get_many` reads, so that others' requests come between."""


class ZooKeeperStore:
    """A session with ZooKeeper, 3.4 or newer.

    Args:
        connect: Kafka's `zookeeper.connect`: `h1:2181,h2:2181/chroot`. The chroot is created if missing.
        session_timeout_ms: how long the servers keep the session without hearing of it; they may bound it.
        connection_timeout_ms: how long to wait for the first connection.
        request_timeout_ms: how long an operation waits for a lost connection to come back and for its
            answer; default: the session's timeout.
        auth: who this session is.
        set_acl: give new nodes Kafka's ACLs (`zookeeper.set.acl`): all for their creator, which needs `auth`
            or a certificate, and reading for the world, but for those that hold credentials.
        tls: how connections are encrypted; None for plain ones.
        has_certificate: whether `tls` shows a certificate, which says who this session is, too.

    Attributes:
        connection: to one of the servers at a time, and its session.
        watchers: the thread that tells of events.
        reads_together: whether the server reads many nodes in one request, until it says that it does not.

    Raises:
        BadArguments: `connect` names no server, or `set_acl` without `auth` or a certificate.
        StoreUnavailable: no server answered.
        SessionExpired: the servers refuse the credentials.
        NotPermitted: the chroot is missing and may not be created.
        StoreError: kazoo, or for SASL pure-sasl, is not installed.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        request_timeout_ms: int | None = None,
        auth: Auth | None = None,
        set_acl: bool = False,
        tls: ssl.SSLContext | None = None,
        has_certificate: bool = False,
    ) -> None:
        self._servers, self._chroot = ConnectString.parse(connect)
        # As in Kafka's `KafkaZkClient.createZkClient`: nobody could change such nodes.
        if set_acl and auth is None and not has_certificate:
            raise BadArguments(
                connect, "zookeeper.set.acl=true: nodes of which nobody is the owner; give credentials, too"
            )
        self._kazoo: Any = _with_kazoo(connect, auth)
        self._timeout_s = (session_timeout_ms if request_timeout_ms is None else request_timeout_ms) / 1000
        self._set_acl = set_acl
        self._session_id = 0
        """The same for the life of this object: a new session is a new object."""
        self.reads_together = True
        self._open = True
        """Whether operations are taken; False for good after `close` or the end of the session."""
        self._shut_down = False
        """Whether `close` has been called, by the owner or by the end of the session."""
        self._expired = False
        """Whether the server has ended the session; a `close` of the owner's is no expiry."""
        self._expired_callbacks: list[Callable[[], None]] = []
        """Each is called at most once: who takes them leaves the list empty."""
        self._lock = threading.Lock()  # of the four above; never held while waiting
        self.watchers = ZooKeeperWatchers(self._armed, self._kazoo.event_type)
        self.connection: Any = self._kazoo.ZooKeeperConnection(
            self._servers, session_timeout_ms, auth, self._state_changed, tls
        )
        try:
            self._begin(connection_timeout_ms / 1000)
        except BaseException:
            self._open = False
            # Otherwise kazoo's threads would go on trying to connect for ever.
            self.connection.close()
            raise
        self.watchers.start()

    def _begin(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            self.connection.start(timeout_s)
            self._session_id, _ = self.connection.session
            # kazoo is connected before the server has looked at the credentials: ask the server something.
            self.connection.result(self.connection.exists("/"), "/", deadline)
        except self._kazoo.SessionOver:
            raise SessionExpired("/", f"ZooKeeper at {self._servers} refuses the credentials") from None
        except (self._kazoo.WaitedTooLong, self._kazoo.ConnectionLost):
            raise StoreUnavailable(
                "/",
                f"no ZooKeeper answers at {self._servers} (zookeeper.connect) within {timeout_s:g} s"
                " (zookeeper.connection.timeout.ms)",
            ) from None
        if self._chroot and self.exists("/") is None:
            # The chroot's own path is that of the server. Kafka: `KafkaZkClient.apply` makes it likewise.
            chroot, self._chroot = self._chroot, ""
            try:
                ensure_path(self, chroot)
            finally:
                self._chroot = chroot

    @property
    def session_id(self) -> int:
        """See `MetadataStore.session_id`."""
        return self._session_id

    def _full(self, path: str) -> str:
        """The path as the server knows it.

        Raises:
            BadArguments: the text is no path.
            SessionExpired: the session is over.
        """
        self._check_open(path)
        check_path(path)
        return path if not self._chroot else self._chroot if path == "/" else self._chroot + path

    def _check_open(self, path: str) -> None:
        if not self._open or self.connection.is_over:
            raise self._over(path)

    def _over(self, path: str) -> SessionExpired:
        return SessionExpired(path, "the session with ZooKeeper is over")

    def _unavailable(self, path: str, outcome_unknown: bool) -> StoreUnavailable:
        message = f"{path}: no ZooKeeper at {self._servers} has answered within {self._timeout_s:g} s"
        if outcome_unknown:
            message += "; whether the write was done, or will be, is not known"
        return StoreUnavailable(path, message, outcome_unknown)

    # --- reads --------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watcher | None = None) -> NodeContent:
        """See `MetadataStore.get`."""
        full, once = self._full(path), self.watchers.once(path, watch, of_children=False)
        data, stat = self._read(path, lambda: self.connection.get(full, once))
        return NodeContent(data, self._kazoo.stat_of(stat))

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """See `MetadataStore.exists`."""
        full, once = self._full(path), self.watchers.once(path, watch, of_children=False)
        stat = self._read(path, lambda: self.connection.exists(full, once))
        return None if stat is None else self._kazoo.stat_of(stat)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """See `MetadataStore.children`."""
        full, once = self._full(path), self.watchers.once(path, watch, of_children=True)
        names, _ = self._read(path, lambda: self.connection.children(full, once))
        return sorted(names)

    def get_many(self, paths: Sequence[str]) -> list[NodeContent | None]:
        """See `MetadataStore.get_many`. Each request reads many nodes if the server can do that."""
        stat_of = self._kazoo.stat_of
        answers = self._get_together(paths) if self.reads_together and len(paths) > 1 else None
        if answers is None:
            answers = self._read_many(paths, self.connection.get)
        return [None if answer is None else NodeContent(answer[0], stat_of(answer[1])) for answer in answers]

    def _get_together(self, paths: Sequence[str]) -> list[Any] | None:
        """The answers; None, from then on, if the server knows no such request."""
        full = [self._full(path) for path in paths]
        # Of each part's paths the first stands for all in an error about the connection.
        parts = [full[start : start + TOGETHER] for start in range(0, len(full), TOGETHER)]
        try:
            groups = self._read_all(paths[::TOGETHER], parts, self.connection.get_together)
        except self._kazoo.NotKnown:
            self.reads_together = False
            return None
        answers = [answer for group in groups for answer in group]
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, Exception):
                raise self._kazoo.translated(answer, path)
        return answers

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """See `MetadataStore.exists_many`."""
        stat_of = self._kazoo.stat_of
        answers = self._read_many(paths, self.connection.exists)
        return [None if answer is None else stat_of(answer) for answer in answers]

    def _read_many(self, paths: Sequence[str], ask: Callable[[str], Any]) -> list[Any]:
        """The answers, None for a node that is not there."""
        self._check_open(paths[0] if paths else "/")
        return self._read_all(paths, [self._full(path) for path in paths], ask)

    def _read_all(
        self, paths: Sequence[str], questions: Sequence[Any], ask: Callable[[Any], Any]
    ) -> list[Any]:
        """The answers to as many questions, None for a node that is not there; `paths` are for errors."""
        answers: list[Any] = [None] * len(questions)
        for start in range(0, len(questions), IN_FLIGHT):
            indexes = list(range(start, min(start + IN_FLIGHT, len(questions))))
            deadline = time.monotonic() + self._timeout_s
            while indexes:
                indexes = self._read_some(paths, questions, indexes, ask, answers, deadline)
        return answers

    def _read_some(
        self,
        paths: Sequence[str],
        questions: Sequence[Any],
        indexes: Sequence[int],
        ask: Callable[[Any], Any],
        answers: list[Any],
        deadline: float,
    ) -> list[int]:
        """Fill `answers` at `indexes`; returns those for which the connection was lost."""
        lost = []
        path = paths[indexes[0]]
        try:
            self.connection.await_connected(deadline)
            sent = [ask(questions[index]) for index in indexes]
            for index, pending in zip(indexes, sent, strict=True):
                path = paths[index]
                try:
                    answers[index] = self.connection.result(pending, path, deadline)
                except NoNode:
                    pass  # the answer stays None
                except self._kazoo.ConnectionLost:
                    lost.append(index)
        except self._kazoo.SessionOver:
            raise self._over(path) from None
        except self._kazoo.WaitedTooLong:
            raise self._unavailable(path, False) from None
        return lost

    def _read(self, path: str, send: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self.connection.await_connected(deadline)
                return self.connection.result(send(), path, deadline)
            except self._kazoo.ConnectionLost:
                # Unlike a write, a read may be sent any number of times.
                # Kafka: `KafkaZkClient.retryRequestUntilConnected`.
                continue
            except self._kazoo.SessionOver:
                raise self._over(path) from None
            except self._kazoo.WaitedTooLong:
                raise self._unavailable(path, False) from None

    # --- writes -------------------------------------------------------------------------------------------

    def create(
        self, path: str, data: bytes | None = None, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """See `MetadataStore.create`."""
        result = self._write_one(Create(path, data, ephemeral, sequence))
        assert isinstance(result, str)
        return result

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        result = self._write_one(SetData(path, data, version))
        assert isinstance(result, Stat)
        return result

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        self._write_one(Delete(path, version))

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`."""
        self._check_open(ops[0].path if ops else "/")
        if not ops:
            return []
        sent = []
        for index, op in enumerate(ops):
            try:
                sent.append(self._checked(op))
            except StoreError as error:
                error.op_index = index
                raise
        return self._write(ops, lambda: self.connection.transaction(sent), self._results)

    def _write_one(self, op: Op) -> OpResult:
        sent = self._checked(op)
        return self._write(
            [op],
            lambda: self.connection.write(*sent),
            lambda ops, result: [self._result(op, result)],
        )[0]

    def _checked(self, op: Op) -> tuple[Op, str, Any]:
        """Return what is sent of an operation: itself, the server's path, the ACL."""
        full = self._full(op.path)
        if op.path == "/":
            # With a chroot the server would take the root for any node.
            if isinstance(op, Delete):
                raise BadArguments(op.path, "the root cannot be deleted")
            if isinstance(op, Create) and not op.sequence:
                raise NodeExists(op.path)
        if isinstance(op, Create) and op.sequence and op.path == "/":
            # The server puts digits behind the path: without the slash they would change the chroot's name.
            full = f"{self._chroot}/"
        return op, full, acl_of(op.path, self._set_acl)

    def _results(self, ops: Sequence[Op], results: list[Any]) -> list[OpResult]:
        """The results of a transaction.

        Raises:
            StoreError: it was refused.
        """
        if (failure := self._kazoo.failed_operation(results)) is not None:
            index, error = failure
            refusal: StoreError = self._kazoo.translated(error, ops[index].path)
            refusal.op_index = index
            raise refusal
        return [self._result(op, result) for op, result in zip(ops, results, strict=True)]

    def _result(self, op: Op, result: Any) -> OpResult:
        if isinstance(op, Create):
            return str(result)[len(self._chroot) :]
        if isinstance(op, SetData):
            stat: Stat = self._kazoo.stat_of(result)
            return stat
        return None

    def _write(
        self,
        ops: Sequence[Op],
        send: Callable[[], Any],
        results: Callable[[Sequence[Op], Any], list[OpResult]],
    ) -> list[OpResult]:
        path = ops[0].path
        deadline = time.monotonic() + self._timeout_s
        # Whatever this write does has a greater zxid.
        before = self.connection.last_zxid
        was_sent = was_lost = False
        while True:
            try:
                self.connection.await_connected(deadline)
                # From here on the write may be done, whatever becomes of its answer.
                was_sent = True
                return results(ops, self.connection.result(send(), path, deadline))
            except self._kazoo.ConnectionLost:
                was_lost = True
            except self._kazoo.SessionOver:
                raise self._over(path) from None
            except self._kazoo.WaitedTooLong:
                raise self._unavailable(path, was_sent) from None
            except StoreError:
                # Sent once, and refused: there is nothing in doubt.
                if not was_lost:
                    raise
                try:
                    done = self._done_after(ops, before)
                except StoreUnavailable:
                    raise self._unavailable(path, True) from None
                if done is None:
                    raise
                return done

    def _done_after(self, ops: Sequence[Op], zxid: int) -> list[OpResult] | None:
        """The results of a write whose answer was lost, if it was done after `zxid`; None if it was not, or
        if that cannot be told."""
        left: dict[str, Op] = {}
        for op in ops:
            if isinstance(op, Create) and op.sequence:
                # The server has made up its name: none of those that are there can be told to be ours.
                return None
            earlier = left.get(op.path)
            if isinstance(op, SetData) and isinstance(earlier, Create):
                # Kafka's `CheckedEphemeral` sets what it creates, so that the node's stat is in the answer.
                left[op.path] = earlier._replace(data=op.data)
            elif not isinstance(op, Check):
                left[op.path] = op
        stats: dict[str, Stat] = {}
        for (path, op), node in zip(left.items(), self.get_many(list(left)), strict=True):
            if isinstance(op, Delete):
                if node is not None:
                    return None
                continue
            if node is None or not self._is_left_by(op, *node):
                return None
            stats[path] = node.stat
        # What an older transaction has left, or several, was written by somebody else.
        transactions = {stat.mzxid for stat in stats.values()}
        if len(transactions) > 1 or any(mzxid <= zxid for mzxid in transactions):
            return None
        return [
            op.path if isinstance(op, Create) else stats.get(op.path) if isinstance(op, SetData) else None
            for op in ops
        ]

    def _is_left_by(self, op: Op, data: bytes | None, stat: Stat) -> bool:
        if isinstance(op, Create):
            # Somebody else may have created the same ephemeral node; its owner tells (`CheckedEphemeral`).
            owner = self._session_id if op.ephemeral else 0
            return stat.ephemeral_owner == owner and data == op.data and stat.czxid == stat.mzxid
        assert isinstance(op, SetData)
        # A set that checks a version makes it one more. Kafka: `ReplicationUtils.checkLeaderAndIsrZkData`.
        return data == op.data and op.version in (ANY_VERSION, stat.version - 1)

    # --- watches ------------------------------------------------------------------------------------------

    def watch_persistent(self, path: str, watcher: Watcher, recursive: bool = False) -> None:
        """See `MetadataStore.watch_persistent`. After a lost connection there is an event for every watched
        node, whether it has changed or not. A one-shot watch then fires, too.

        Raises:
            StoreError: `recursive`, for which kazoo has no request.
        """
        self._full(path)
        if recursive:
            raise StoreError(path, f"{path}: a session with ZooKeeper has no recursive watches")
        self.watchers.add(path, watcher)

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """See `MetadataStore.unwatch`."""
        self.watchers.remove(path, watcher)

    def _armed(self, path: str, fired: Callable[[Any], None]) -> Look | None:
        """Arm the one-shot watches that a persistent watch is made of."""
        full = self._full(path)
        while True:
            deadline = time.monotonic() + self._timeout_s
            try:
                self.connection.await_connected(deadline)
                # `exists` watches a node that is not there as well; `children` leaves no watch then.
                pending = self.connection.exists(full, fired), self.connection.children(full, fired)
                stat = self.connection.result(pending[0], path, deadline)
                if stat is None:
                    return None
                try:
                    _, stat_of_children = self.connection.result(pending[1], path, deadline)
                except NoNode:
                    stat_of_children = stat  # deleted in between: the watch of its data tells
                return Look(stat.czxid, stat.mzxid, stat_of_children.pzxid)
            except self._kazoo.ConnectionLost:
                continue
            except self._kazoo.SessionOver:
                raise self._over(path) from None
            except self._kazoo.WaitedTooLong:
                raise self._unavailable(path, False) from None

    # --- the session's life -------------------------------------------------------------------------------

    def on_expired(self, callback: Callable[[], None]) -> None:
        """See `MetadataStore.on_expired`. If the session has expired already, it is called soon."""
        with self._lock:
            if not self._expired:
                self._expired_callbacks.append(callback)
                return
        # The watchers' thread has ended with the session.
        threading.Thread(target=callback, name="zookeeper-expired", daemon=True).start()

    def _state_changed(self, is_connected: bool) -> None:
        # Behind the events that have come, which were of the session as it was.
        self.watchers.later(self.watchers.reconnected if is_connected else self._expire)

    def _expire(self) -> None:
        with self._lock:
            if not self._open or self._expired:
                return
            self._expired = True
            callbacks, self._expired_callbacks = self._expired_callbacks, []
        # Unsigned, as ZooKeeper's own logs print a session's id.
        logger.warning("the session 0x%x with ZooKeeper has expired", self._session_id & (1 << 64) - 1)
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("the end of the session with ZooKeeper was not handled")
        self.close()

    def close(self) -> None:
        """See `MetadataStore.close`. Unless the connection is lost, the servers hear of it at once."""
        with self._lock:
            self._open = False
            shut_down, self._shut_down = self._shut_down, True
        if not shut_down:
            self.watchers.close()
            self.connection.close()


def _with_kazoo(connect: str, auth: Auth | None) -> ModuleType:
    # kazoo is an extra: a broker that is alone has none.
    try:
        from odradek.cluster.store import zookeeper_connection
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise  # it is installed, and something else is wrong
        raise StoreError(
            connect,
            f"zookeeper.connect={connect}: the package kazoo is not installed: {install('zookeeper')}",
        ) from error
    if isinstance(auth, SaslAuth) and importlib.util.find_spec("puresasl") is None:
        raise StoreError(connect, f"SASL to ZooKeeper needs the package pure-sasl: {install('zookeeper')}")
    return zookeeper_connection
