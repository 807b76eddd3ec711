"""Blocking sockets around the same sans-I/O core: for one thread, without a loop, safe to make after a
fork.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from odradek.client.config import CommonConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.connection import ConnectionState
from odradek.client.core.handshake import PATIENCE_MS, Approach, KnownBrokers, Opening, known_brokers
from odradek.client.core.metadata import CREATION_FROM, MetadataCache, asks_for_all, metadata_topics
from odradek.client.core.outages import (
    MUTE_MS,
    ORDINARY_MS,
    Outages,
    hung_up_hint,
    mute_hint,
    silent,
    unreachable,
    without_address,
)
from odradek.client.core.silence import SILENCE_MS, next_look_ms, silent_and_dead
from odradek.client.errors import (
    ClientTimeoutError,
    ClosedError,
    ConnectionFailedError,
    IllegalStateError,
    NoBrokersAvailableError,
    SslAuthenticationError,
    nobody_reached,
)
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, NetworkError, OdradekError, ProtocolError, error_for
from odradek.sasl.client_authenticator import RENEW_AT, Work
from odradek.security.tls_failures import is_tls_failure
from odradek.wire.api import ApiKey
from odradek.wire.foreign import foreign

if TYPE_CHECKING:
    import ssl

_SIZE = struct.Struct(">i")


def now_ms() -> float:
    """Monotonic milliseconds."""
    return time.monotonic() * 1000


class BlockingConnection:
    """One connection; requests may be pipelined: `send` several, then `receive` as many.

    Raises `ConnectionFailedError` from every method when the peer is gone or too slow; it is then closed.

    Args:
        approach: how the handshake is opened.
        is_dead: asked when an answer is due and nothing has come for `patience_ms`, and from time to time
            until something comes; whether the broker is to be given up.
        patience_ms: after how long.
        outages: where it is told of a peer that says nothing.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: CommonConfig,
        approach: Approach = Opening.ASK,
        is_dead: Callable[[], bool] | None = None,
        patience_ms: float = SILENCE_MS,
        outages: Outages | None = None,
    ) -> None:
        self.address = f"{host}:{port}"
        self.is_dead = is_dead
        self._outages = outages or Outages(config.client_id)
        self.patience_ms = patience_ms
        self._host = host
        self._renew_at_ms = math.inf
        """When to log in again, before the broker ends the login."""
        login = config.security.login()
        mechanism = None if login is None else login.start(host)
        self.state = ConnectionState(config.client_id or None, approach, mechanism, self.address)
        self.hung_up = False
        self._config = config
        self._process = os.getpid()
        self._uses = 0
        self._tls: ssl.SSLSocket | None = None
        self.closed = True
        try:
            self._socket: socket.socket = socket.create_connection(
                (host, port), config.socket_connection_setup_timeout_ms / 1000
            )
            self.closed = False
            context = config.security.ssl_context()
            if context is not None:
                self._socket = self._tls = context.wrap_socket(
                    self._socket, server_hostname=host, do_handshake_on_connect=False
                )
                self._shake_tls_hands(self._tls)
        except OSError as problem:
            self.close()
            if is_tls_failure(problem):
                raise self._ssl_error(problem) from problem
            raise ConnectionFailedError(f"{self.address}: {problem.strerror or problem}") from problem
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _shake_tls_hands(self, tls: ssl.SSLSocket) -> None:
        began = now_ms()
        deadline = began + self._config.socket_connection_setup_timeout_ms
        while True:
            tls.settimeout(max(1.0, min(MUTE_MS, deadline - now_ms())) / 1000)
            try:
                tls.do_handshake()
                return
            except TimeoutError:  # what has been said stays said: the next call goes on with it
                why = mute_hint(now_ms() - began, self._config.security.protocol)
                if now_ms() >= deadline:
                    raise TimeoutError(why) from None
                self._outages.failed(unreachable(self.address), why, now_ms())

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        config: CommonConfig,
        known: KnownBrokers | None = None,
        is_dead: Callable[[], bool] | None = None,
        patience_ms: float = SILENCE_MS,
        outages: Outages | None = None,
    ) -> BlockingConnection:
        """Connect and shake hands.

        Args:
            known: what is known of brokers that do not know ApiVersions; is added to.
            is_dead, patience_ms, outages: see the class.

        Raises `ConnectionFailedError`, and `KafkaError` if the broker refuses.
        """
        known = known or KnownBrokers()
        approach: Approach | None = known.approach(f"{host}:{port}")
        failed: ConnectionFailedError | None = None
        while approach is not None:
            connection = None
            try:
                connection = cls(host, port, config, approach, is_dead, patience_ms, outages)
                connection._shake_hands()
            except ConnectionFailedError as problem:
                # The first reason is the one to tell: what follows are only tries to find an old broker.
                failed = failed or problem
                approach = None
                if connection is not None and connection.hung_up:
                    approach = connection.state.after_hang_up()
                continue
            assert connection.state.versions is not None
            known.learned(connection.address, connection.state.versions)
            return connection
        known.lost(f"{host}:{port}")
        assert failed is not None
        raise failed

    def _shake_hands(self) -> None:
        self._go_through_handshake(self.state.start_handshake(self._deadline()))

    def _log_in_again(self) -> None:
        """Log in anew on this connection (KIP-368), on which nothing is in flight."""
        login = self._config.security.login()
        assert login is not None
        self._renew_at_ms = math.inf
        self._go_through_handshake(self.state.log_in_again(login.start(self._host), self._deadline()))

    def _go_through_handshake(self, opening: list[Any]) -> None:
        if opening:
            self._write(opening)
        try:
            while self.state.versions is None or self.state.is_logging_in:
                if not self.readable(PATIENCE_MS) and (more := self.state.broker_is_silent()):
                    self._write(more)
                again = self.state.continue_handshake(self._read_frame())
                if isinstance(again, Work):
                    again = self.state.worked_off(self.state.work_off(again))
                if again:
                    self._write(again)
        except ProtocolError as problem:
            self.close()
            raise ConnectionFailedError(f"{self.address}: {problem}") from problem
        except KafkaError:
            self.close()
            raise
        if self.state.session_lifetime_ms:
            self._renew_at_ms = now_ms() + RENEW_AT * self.state.session_lifetime_ms

    def _deadline(self, timeout_ms: float | None = None) -> float:
        timeout_ms = timeout_ms if timeout_ms is not None else self._config.request_timeout_ms
        return self.state.deadline_ms(now_ms(), timeout_ms)

    def pick(self, key: int, at_most: int | None = None, at_least: int | None = None) -> int:
        """The version to speak; raises `UnsupportedByBrokerError`."""
        assert self.state.versions is not None
        return self.state.versions.pick(key, at_most, at_least)

    @property
    def in_flight(self) -> int:
        """The number of answers that are due."""
        return len(self.state.in_flight)

    def send(self, message: Any, version: int, token: Any = None, *, answered: bool = True) -> None:
        """Write a request."""
        if not self.state.in_flight and now_ms() >= self._renew_at_ms:
            self._log_in_again()
        self._write(self.state.request(message, version, token, self._deadline(), answered=answered))

    def receive(self) -> tuple[Any, Any]:
        """Wait for the oldest request's answer. Returns (its token, the message)."""
        try:
            asked, message = self.state.receive(self._read_frame())
            self.state.note_throttle(message, now_ms())
        except ProtocolError as problem:
            self.close()
            raise ConnectionFailedError(f"{self.address}: {problem}") from problem
        return asked.token, message

    def readable(self, timeout_ms: float) -> bool:
        """Return whether an answer begins to come in within that time."""
        import select

        if self.closed:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        if self.has_bytes:
            return True
        with self.in_use():
            return bool(select.select([self._socket], [], [], max(0.0, timeout_ms) / 1000)[0])

    @property
    def has_bytes(self) -> bool:
        """True if bytes of an answer are here that `select` knows nothing of: TLS has decrypted them."""
        return self._tls is not None and self._tls.pending() > 0

    def fileno(self) -> int:
        """For `select`, which does not see what `has_bytes` tells of."""
        return self._socket.fileno()

    def call(self, message: Any, *, at_most: int | None = None, at_least: int | None = None) -> Any:
        """Ask and wait; nothing else may be in flight."""
        self.send(message, self.pick(message.API_KEY, at_most, at_least))
        return self.receive()[1]

    def _write(self, buffers: list[Any]) -> None:
        if self.closed:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        try:
            with self.in_use():
                self._socket.settimeout(self._config.request_timeout_ms / 1000)
                self._socket.sendall(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        except OSError as problem:
            self._broken(problem)

    def _read_frame(self) -> memoryview:
        if self.closed:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        with self.in_use():
            return self._read_frame_now()

    def _read_frame_now(self) -> memoryview:
        size = _SIZE.unpack(self._read_exactly(4))[0]
        is_foreign = self.state.versions is None and foreign(size)
        if is_foreign or not 0 <= size <= self._config.receive_message_max_bytes:
            self.close()
            raise ConnectionFailedError(f"{self.address} announced a frame of {size} bytes{foreign(size)}")
        return memoryview(self._read_exactly(size))

    def _read_exactly(self, count: int) -> bytearray:
        # Grows with what arrives: a peer that only announces much holds nothing.
        data = bytearray(min(count, 1 << 24))
        have = 0
        deadline = self.state.next_deadline_ms() or self._deadline()
        heard = now_ms()
        look = heard + self.patience_ms
        try:
            while have < count:
                if have == len(data):
                    data.extend(bytes(min(count - have, len(data))))
                now = now_ms()
                if now >= deadline:
                    why = "no answer in time"
                    if self.state.versions is None:
                        why = mute_hint(self._config.request_timeout_ms, self._config.security.protocol)
                    raise TimeoutError(why)
                if now >= look:
                    self.tell_of_silence(now - heard)
                    self._give_up_if_dead(now - heard)
                    look = now_ms() + next_look_ms(now - heard)
                self._socket.settimeout(max(min(deadline, look) - now_ms(), 1.0) / 1000)
                try:
                    with memoryview(data) as view:
                        got = self._socket.recv_into(view[have:])
                except TimeoutError:
                    continue
                if not got:
                    raise ConnectionResetError("the broker closed the connection")
                have += got
                heard = now_ms()
                if self._outages:
                    self._outages.ended(silent(self.address), heard)
                look = heard + self.patience_ms
        except OSError as problem:
            self.hung_up = isinstance(problem, ConnectionError)
            self._broken(problem)
        return data

    def tell_of_silence(self, silent_ms: float) -> None:
        """Log a warning if a peer that owes an answer has said nothing for long."""
        if silent_ms < self.patience_ms - SILENCE_MS + MUTE_MS:
            return
        what, why = silent(self.address), f"nothing has come for {silent_ms / 1000:.0f} s"
        if self.state.versions is None:
            what, why = unreachable(self.address), mute_hint(silent_ms, self._config.security.protocol)
        self._outages.failed(what, why, now_ms())

    def _give_up_if_dead(self, silent_ms: float) -> None:
        if self.is_dead is not None and self.is_dead():
            self.close()
            raise ConnectionFailedError(silent_and_dead(self.address, silent_ms))

    def _ssl_error(self, problem: ssl.SSLError) -> SslAuthenticationError:
        from odradek.security.explain import explain

        return SslAuthenticationError(f"{self.address}: SSL handshake failed: {explain(problem)}")

    def _broken(self, problem: OSError) -> None:
        self.close()
        if is_tls_failure(problem) and self.state.versions is None:
            # Of TLS 1.3, a broker looks at the client's certificate when the client's handshake is over.
            raise self._ssl_error(problem) from problem
        reason = f"{problem.strerror or problem}"
        if isinstance(problem, ConnectionError) and self.state.versions is None:
            reason += f" before it had answered anything: {hung_up_hint(self._config.security.protocol)}"
        raise ConnectionFailedError(f"{self.address}: {reason}") from problem

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the socket's number while somebody is in a call with it: it might become another socket's."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if self.closed and not self._uses:
                self._socket.close()

    def close(self) -> None:
        """Close. Whoever waits for an answer, in another thread or interrupted by a signal whose handler
        closes, sees the connection fail.
        """
        if self.closed:
            return
        self.closed = True
        if self._uses and self._process == os.getpid():
            with contextlib.suppress(OSError):
                # Of TLS, too, the socket below: the session is another's to end.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        else:
            self._socket.close()


class BlockingCluster:
    """Metadata and one connection per broker, over blocking sockets.

    Args:
        config: of the client; `default_api_timeout_ms` bounds every step.
        allow_auto_create: whether asking for a topic may create it.
        first_contact_ms: how long no broker may be reachable before a first one was; then what is asked
            fails with `NoBrokersAvailableError`.
        may_wait_ms: how long a broker may hold an answer back because this client asks it to (a long fetch).
    """

    def __init__(
        self,
        config: CommonConfig,
        *,
        allow_auto_create: bool,
        first_contact_ms: float = math.inf,
        may_wait_ms: float = 0.0,
    ) -> None:
        self.config = config
        self._first_contact_until_ms = now_ms() + first_contact_ms
        self.metadata = MetadataCache()
        self._allow_auto_create = allow_auto_create
        self._connections: dict[int, BlockingConnection] = {}
        self._wanted: set[str] = set()
        self._known_brokers = known_brokers(config)
        self.patience_ms = may_wait_ms + SILENCE_MS
        self._is_looking = False
        self._outages = Outages(config.client_id)
        self.closed = False
        self._process = os.getpid()

    def check_usable(self) -> None:
        """Raise `ClosedError`; `IllegalStateError` in a process that was forked when there were connections,
        which are the other process's.
        """
        if self.closed:
            raise ClosedError("the client is closed")
        if self._process != os.getpid():
            if self._connections:
                raise IllegalStateError(
                    f"the client is that of process {self._process}, of which this one is a fork: its "
                    "connections are that one's. Make a client after the fork"
                )
            self._process = os.getpid()

    @property
    def is_forked(self) -> bool:
        """Return whether this process was forked since."""
        return self._process != os.getpid()

    def connection(self, node_id: int) -> BlockingConnection:
        """The connection to a broker. Raises `ConnectionFailedError`."""
        connection = self._connections.get(node_id)
        if connection is None or connection.closed:
            if connection is not None and connection.hung_up:
                self._known_brokers.lost(connection.address)
            node = self.metadata.brokers.get(node_id)
            if node is None:
                raise ConnectionFailedError(f"broker {node_id} is not in the cluster's metadata")
            connection = self._connections[node_id] = self.open(node.host, node.port, node_id)
        return connection

    def open(self, host: str, port: int, node_id: int = -1) -> BlockingConnection:
        """A connection of the caller's own. Raises as `BlockingConnection.open`.

        Args:
            node_id: the broker's, where it is known.
        """
        self.check_usable()
        what, address = unreachable(f"{host}:{port}"), f"{host}:{port}"
        try:
            connection = BlockingConnection.open(
                host,
                port,
                self.config,
                self._known_brokers,
                lambda: bool(self.dead_of([node_id])),
                self.patience_ms,
                self._outages,
            )
        except OdradekError as problem:
            if not self.closed:
                self._outages.failed(what, without_address(problem, address), now_ms())
            raise
        self._outages.ended(what, now_ms())
        if self.closed:
            connection.close()
            self.check_usable()
        self._first_contact_until_ms = math.inf
        return connection

    def dead_of(self, silent: Collection[int]) -> list[int]:
        """Ask the others once about brokers that owe answers for long; return those not to be waited for.

        Those are they when another one answers that does not count them as alive; or does not know them by
        their ids (-1, …), as any other one will do then.
        """
        if self._is_looking:
            return list(silent)  # who is silent has nothing to tell of others
        self._is_looking = True
        try:
            self.refresh([])
        except OdradekError:
            return []
        finally:
            self._is_looking = False
        return [node for node in silent if node not in self.metadata.brokers]

    def hopeless(self, problem: OdradekError, at_ms: float) -> bool:
        """Return whether no broker was reached so far, and `first_contact_ms` will have passed by then."""
        return isinstance(problem, NoBrokersAvailableError) and at_ms > self._first_contact_until_ms

    def any_connection(self) -> BlockingConnection:
        """A connection to any broker on which nothing is in flight. Raises `NoBrokersAvailableError`."""
        self.check_usable()
        for connection in self._connections.values():
            if not connection.closed and not connection.in_flight:
                return connection
        problems: list[OdradekError] = []
        brokers = list(self.metadata.brokers.values())
        random.shuffle(brokers)
        for node in brokers:
            if self._connections.get(node.id) is None or self._connections[node.id].closed:
                try:
                    return self.connection(node.id)
                except OdradekError as problem:
                    problems.append(problem)
        for index, (host, port) in enumerate(self.config.bootstrap_servers):
            known = self._connections.get(-1 - index)
            if known is not None and not known.closed:
                continue  # it owes an answer
            try:
                connection = self._connections[-1 - index] = self.open(host, port)
                return connection
            except OdradekError as problem:
                problems.append(problem)
        raise nobody_reached(problems)

    def refresh(self, topics: Iterable[str] | None) -> None:
        """Ask once for the metadata of some topics (none named: those asked for before; None: of all)."""
        from odradek.wire.messages.metadata import MetadataRequest

        names = None
        if topics is not None:
            named = set(topics)
            self._wanted |= named
            # Those alone: who reads thousands one after the other would ask for all before it each time.
            names = sorted(named or self._wanted)
        connection = self.any_connection()
        version = connection.pick(ApiKey.METADATA)
        request = MetadataRequest(
            topics=metadata_topics(names, version, self._allow_auto_create),
            allow_auto_topic_creation=version < CREATION_FROM
            or (self._allow_auto_create and names is not None),
        )
        connection.send(request, version)
        expected = names if asks_for_all(names, version, self._allow_auto_create) else None
        self.metadata.update(connection.receive()[1], replace_all=names is None, expected=expected or ())

    def retrying(self, what: str) -> Retrying:
        """Bounds a step that is tried again; see `Retrying`."""
        return Retrying(self.config, what, self.hopeless, self.check_usable)

    def ensure_topic(self, topic: str) -> list[int]:
        """The partitions of a topic, ascending. Raises its error, or `ClientTimeoutError`."""
        retrying = self.retrying(f"topic {topic!r}")
        while topic not in self.metadata.topics:
            try:
                self.refresh([topic])
                error = self.metadata.errors.get(topic)
                if error is None:
                    break
                creating = self._allow_auto_create and error.retriable
                problem = error_for(error, f"topic {topic!r}: {error.message}")
                if not creating and not (error.retriable and error.name == "LEADER_NOT_AVAILABLE"):
                    raise problem
                retrying.failed(problem)
            except ConnectionFailedError as problem:
                retrying.failed(problem)
            except NoBrokersAvailableError as problem:
                retrying.failed(problem)
        return sorted(self.metadata.topics[topic].partitions)

    def leader(self, tp: TopicPartition | tuple[str, int]) -> int | None:
        """The leader's id, None while there is none."""
        return self.metadata.leader(tp)

    def leaderless(self, tp: TopicPartition) -> KafkaError:
        """Return the error for who needs the leader of a partition, and there is none."""
        return error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp}: {self.metadata.no_leader(tp)}")

    def close(self) -> None:
        """Close all connections. A call under way raises `ClosedError`."""
        self.closed = True
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()


class Retrying:
    """Waits between tries of one step and gives up when `default_api_timeout_ms` passed without progress.

    Args:
        what: the step, for the message.
        hopeless: whether a problem is final although it could be retried at that time (ms).
        check_usable: raises if the client was closed meanwhile.
    """

    def __init__(
        self,
        config: CommonConfig,
        what: str,
        hopeless: Callable[[OdradekError, float], bool],
        check_usable: Callable[[], None],
    ) -> None:
        self._config = config
        self._check_usable = check_usable
        self._what = what
        self._hopeless = hopeless
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._outages = Outages(config.client_id)
        self._no_progress = f"{what} makes no progress"
        self.progress()

    def progress(self) -> None:
        """Something came: the time starts anew."""
        self._outages.ended(self._no_progress, now_ms())
        self._failures = 0
        self._deadline = now_ms() + self._config.default_api_timeout_ms

    @property
    def over(self) -> bool:
        """Return whether the time has passed."""
        return now_ms() > self._deadline

    def failed(self, problem: OdradekError) -> None:
        """Wait before the next try. Raises `problem` if it cannot be retried, else `ClientTimeoutError` in
        the end.
        """
        self._check_usable()
        if not (isinstance(problem, KafkaError) and problem.retriable):
            raise problem
        self.tell_if_it_lasts(problem)
        self._failures += 1
        delay = self._backoff.delay_ms(self._failures)
        if self._hopeless(problem, now_ms() + delay):
            raise problem
        if now_ms() + delay > self._deadline:
            raise ClientTimeoutError(
                f"{self._what}: no progress within {self._config.default_api_timeout_ms} ms: {problem}"
            ) from problem
        time.sleep(delay / 1000)

    def tell_if_it_lasts(self, problem: OdradekError) -> None:
        """Log a warning when the step fails for longer than is ordinary. What cannot be reached is told
        already.
        """
        if not isinstance(problem, NetworkError | NoBrokersAvailableError):
            self._outages.failed(self._no_progress, problem, now_ms(), after_ms=ORDINARY_MS)

    def pause(self, at_most_ms: float = float("inf")) -> None:
        """Wait before the next try, which the caller bounds."""
        self._check_usable()
        self._failures += 1
        time.sleep(min(self._backoff.delay_ms(self._failures), at_most_ms) / 1000)

    def idle(self, why: str) -> None:
        """An answer without data: raises `ClientTimeoutError` when that lasted too long."""
        if self.over:
            raise ClientTimeoutError(
                f"{self._what}: no progress within {self._config.default_api_timeout_ms} ms: {why}"
            )
