"""Blocking sockets around the sans-I/O core that the asyncio clients have, too: for one thread, without a
loop, safe to make after a fork.
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

    Args:
        approach: how the handshake is opened.
        is_dead: tells whether the broker is to be given up. It is asked when an answer is due and nothing has
            come for `patience_ms`, and from time to time until something comes.
        patience_ms: see `is_dead`.
        outages: is told of a peer that says nothing.

    Attributes:
        closed: nothing is sent or received any more.
        hung_up: the peer closed or reset the connection; in a handshake an old broker may have done so.
        state: the protocol's side: what is in flight, the versions, the login.

    Raises:
        ConnectionFailedError: by every method, when the peer is gone or too slow; the connection is then
            closed.
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
        # When to log in again, before the broker ends the login (KIP-368); infinite: never.
        self._renew_at_ms = math.inf
        login = config.security.login()
        mechanism = None if login is None else login.start(host)
        self.state = ConnectionState(config.client_id or None, approach, mechanism, self.address)
        self.hung_up = False
        self._config = config
        # The process whose calls `_uses` counts.
        self._process = os.getpid()
        # Calls that use the socket at present: of another thread, or interrupted by a signal.
        self._uses = 0
        self._tls: ssl.SSLSocket | None = None
        # Until there is a socket, there is nothing to close.
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
        # A small request must not wait for the acknowledgement of the request before (Nagle); as Kafka's
        # Selector.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _shake_tls_hands(self, tls: ssl.SSLSocket) -> None:
        began = now_ms()
        deadline = began + self._config.socket_connection_setup_timeout_ms
        while True:
            # In steps, so that a server that says nothing is told of while it is still waited for.
            tls.settimeout(max(1.0, min(MUTE_MS, deadline - now_ms())) / 1000)
            try:
                tls.do_handshake()
                return
            except TimeoutError:
                # OpenSSL keeps its state: the next call goes on where this one stood.
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
        brokers: KnownBrokers | None = None,
        is_dead: Callable[[], bool] | None = None,
        patience_ms: float = SILENCE_MS,
        outages: Outages | None = None,
    ) -> BlockingConnection:
        """Connect and shake hands.

        Args:
            brokers: what is known of brokers that do not know ApiVersions; is added to.
            is_dead, patience_ms, outages: see the class.

        Raises:
            ConnectionFailedError: it does not come about.
            KafkaError: the broker refuses.
        """
        brokers = brokers or KnownBrokers()
        approach: Approach | None = brokers.approach(f"{host}:{port}")
        failed: ConnectionFailedError | None = None
        while approach is not None:
            connection = None
            try:
                connection = cls(host, port, config, approach, is_dead, patience_ms, outages)
                connection._shake_hands()
            except ConnectionFailedError as problem:
                # The first reason is told: what follows are only tries, in case that the broker is old.
                failed = failed or problem
                approach = None
                if connection is not None and connection.hung_up:
                    approach = connection.state.after_hang_up()
                continue
            assert connection.state.versions is not None
            brokers.learned(connection.address, connection.state.versions)
            return connection
        brokers.lost(f"{host}:{port}")
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
                # To ApiVersions a broker of 0.9 says nothing, and is asked something that it knows.
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
        """Return the version to speak.

        Raises:
            UnsupportedByBrokerError: there is none that both sides know.
        """
        assert self.state.versions is not None
        return self.state.versions.pick(key, at_most, at_least)

    @property
    def in_flight(self) -> int:
        """Return how many answers are due."""
        return len(self.state.in_flight)

    def send(self, message: Any, version: int, token: Any = None, *, answered: bool = True) -> None:
        """Write a request, and `receive` its answer later.

        Args:
            token: what `receive` gives with the answer.
            answered: whether there is an answer (to Produce with acks=0 there is none).
        """
        # Only while nothing is in flight: answers would come amid the steps of the login.
        if not self.state.in_flight and now_ms() >= self._renew_at_ms:
            self._log_in_again()
        self._write(self.state.request(message, version, token, self._deadline(), answered=answered))

    def receive(self) -> tuple[Any, Any]:
        """Wait for the oldest request's answer. Returns (its token, the message)."""
        try:
            request, message = self.state.receive(self._read_frame())
            self.state.note_throttle(message, now_ms())
        except ProtocolError as problem:
            self.close()
            raise ConnectionFailedError(f"{self.address}: {problem}") from problem
        return request.token, message

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
        """Return whether TLS has decrypted bytes of an answer already, of which `select` does not know."""
        return self._tls is not None and self._tls.pending() > 0

    def fileno(self) -> int:
        """Return the socket's number, for `select`; see `has_bytes`."""
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
                # Joined, as each write would be a packet, and with TLS a record, of its own.
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
        # A server of another kind (HTTP, TLS) is recognised by its first bytes.
        is_foreign = self.state.versions is None and foreign(size)
        if is_foreign or not 0 <= size <= self._config.receive_message_max_bytes:
            self.close()
            raise ConnectionFailedError(f"{self.address} announced a frame of {size} bytes{foreign(size)}")
        return memoryview(self._read_exactly(size))

    def _read_exactly(self, count: int) -> bytearray:
        # Grows with what arrives: a peer that only announces much must not take the memory.
        data = bytearray(min(count, 1 << 24))
        received = 0
        deadline = self.state.next_deadline_ms() or self._deadline()
        heard = now_ms()
        # When the broker is looked after next (`core.silence`).
        look = heard + self.patience_ms
        try:
            while received < count:
                if received == len(data):
                    data.extend(bytes(min(count - received, len(data))))
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
                    # Released at once, as a bytearray with a view cannot grow.
                    with memoryview(data) as view:
                        got = self._socket.recv_into(view[received:])
                except TimeoutError:
                    continue
                if not got:
                    raise ConnectionResetError("the broker closed the connection")
                received += got
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
        # A fetch is held back at the client's wish (`may_wait_ms`): that is no silence.
        if silent_ms < self.patience_ms - SILENCE_MS + MUTE_MS:
            return
        symptom, why = silent(self.address), f"nothing has come for {silent_ms / 1000:.0f} s"
        if self.state.versions is None:
            symptom, why = unreachable(self.address), mute_hint(silent_ms, self._config.security.protocol)
        self._outages.failed(symptom, why, now_ms())

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
        """Keep the socket's number while a call uses it: once closed it might become another socket's."""
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1
            if self.closed and not self._uses:
                self._socket.close()

    def close(self) -> None:
        """Close. A call that waits for an answer, in another thread or interrupted by a signal whose handler
        closes, sees the connection fail.
        """
        if self.closed:
            return
        self.closed = True
        if self._uses and self._process == os.getpid():
            with contextlib.suppress(OSError):
                # Wakes the call, at whose end the socket is closed. Of TLS, too, the socket below is shut
                # down: that call uses the session.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        else:
            self._socket.close()


class BlockingCluster:
    """Metadata and one connection per broker, over blocking sockets.

    Args:
        config: of the client; `default_api_timeout_ms` bounds every step.
        allow_auto_create: whether asking for a topic may create it.
        first_contact_ms: how long to look for a first broker; then every step fails with
            `NoBrokersAvailableError`. Once a broker was reached, `default_api_timeout_ms` alone counts.
        may_wait_ms: how long a broker may hold an answer back because this client asks it to (a long fetch).

    Attributes:
        metadata: as of the newest answers, of the topics that were asked for.
        patience_ms: how long a broker may be silent until others are asked about it.
        closed: every call raises `ClosedError`.
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
        # Infinite once a broker was reached.
        self._first_contact_until_ms = now_ms() + first_contact_ms
        self.metadata = MetadataCache()
        self._allow_auto_create = allow_auto_create
        # By broker; bootstrap servers have the ids -1, -2, … One that is closed stays until it is replaced.
        self._connections: dict[int, BlockingConnection] = {}
        # All topics that were ever asked for: `refresh([])` asks for these.
        self._wanted: set[str] = set()
        self._known_brokers = known_brokers(config)
        self.patience_ms = may_wait_ms + SILENCE_MS
        # `dead_of` is asking: a broker that is silent meanwhile is not looked after in turn.
        self._is_looking = False
        self._outages = Outages(config.client_id)
        self.closed = False
        self._process = os.getpid()

    def check_usable(self) -> None:
        """Check that the connections can be used.

        Raises:
            ClosedError: the client is closed.
            IllegalStateError: in a process that was forked when there were connections, which are the other
                process's.
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
        """Return whether this is a fork of the process that used the client last."""
        return self._process != os.getpid()

    def connection(self, node_id: int) -> BlockingConnection:
        """Return the connection to a broker, made if there is none.

        Raises:
            ConnectionFailedError: as `BlockingConnection.open`, or the broker is not in the metadata.
        """
        connection = self._connections.get(node_id)
        if connection is None or connection.closed:
            # The broker that comes back may be of another release.
            if connection is not None and connection.hung_up:
                self._known_brokers.lost(connection.address)
            node = self.metadata.brokers.get(node_id)
            if node is None:
                raise ConnectionFailedError(f"broker {node_id} is not in the cluster's metadata")
            connection = self._connections[node_id] = self.open(node.host, node.port, node_id)
        return connection

    def open(self, host: str, port: int, node_id: int = -1) -> BlockingConnection:
        """Make a connection of the caller's own.

        Args:
            node_id: the broker's, where it is known.

        Raises:
            KafkaError: as `BlockingConnection.open`.
        """
        self.check_usable()
        symptom, address = unreachable(f"{host}:{port}"), f"{host}:{port}"
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
                self._outages.failed(symptom, without_address(problem, address), now_ms())
            raise
        self._outages.ended(symptom, now_ms())
        # Closed meanwhile, by another thread or a signal's handler, which did not know of the connection.
        if self.closed:
            connection.close()
            self.check_usable()
        self._first_contact_until_ms = math.inf
        return connection

    def dead_of(self, silent: Collection[int]) -> list[int]:
        """Ask another broker once about brokers that owe answers for long; return those not to wait for.

        Not to wait for is a broker that the other broker does not count as alive; and a bootstrap server
        (-1, …), which others do not know by that id: any broker will do in its place.
        """
        if self._is_looking:
            return list(silent)  # the broker that is being asked is silent, too, and tells nothing of others
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
        """Return a connection to any broker, on which nothing is in flight.

        Raises:
            NoBrokersAvailableError: no broker can be reached.
        """
        self.check_usable()
        for connection in self._connections.values():
            if not connection.closed and not connection.in_flight:
                return connection
        problems: list[OdradekError] = []
        brokers = list(self.metadata.brokers.values())
        # Clients that lose a broker at the same time must not all go to the same other broker.
        random.shuffle(brokers)
        for node in brokers:
            if self._connections.get(node.id) is None or self._connections[node.id].closed:
                try:
                    return self.connection(node.id)
                except OdradekError as problem:
                    problems.append(problem)
        for index, (host, port) in enumerate(self.config.bootstrap_servers):
            bootstrap = self._connections.get(-1 - index)
            if bootstrap is not None and not bootstrap.closed:
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
            # The named alone: a reader of thousands of topics, one after the other, would else ask for all
            # those before each time.
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

    def retrying(self, action: str) -> Retrying:
        """Return what bounds a step that is tried again; see `Retrying`."""
        return Retrying(self.config, action, self.hopeless, self.check_usable)

    def ensure_topic(self, topic: str) -> list[int]:
        """Return the partitions of a topic, ascending.

        Raises:
            KafkaError: the topic's error, if it cannot be retried.
            ClientTimeoutError: nothing got on in time.
        """
        retrying = self.retrying(f"topic {topic!r}")
        while topic not in self.metadata.topics:
            try:
                self.refresh([topic])
                if topic in self.metadata.topics:
                    break
                # An answer that says nothing of a topic says as little as that there is none.
                error = self.metadata.errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                # A topic that is just being created is answered with UNKNOWN_TOPIC_OR_PARTITION, or has no
                # leader yet.
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
        """Return the leader's id; None while there is none."""
        return self.metadata.leader(tp)

    def leaderless(self, tp: TopicPartition) -> KafkaError:
        """Return the error that says that a partition has no leader, and why."""
        return error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp}: {self.metadata.no_leader(tp)}")

    def close(self) -> None:
        """Close all connections. A call under way ends with `ClosedError`."""
        self.closed = True
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()


class Retrying:
    """Waits between tries of one step and gives up when `default_api_timeout_ms` passed without progress.

    Args:
        action: the step, for the message.
        hopeless: tells whether a problem that may be retried is final all the same, at that time (ms).
        check_usable: raises if the client was closed meanwhile.
    """

    def __init__(
        self,
        config: CommonConfig,
        action: str,
        hopeless: Callable[[OdradekError, float], bool],
        check_usable: Callable[[], None],
    ) -> None:
        self._config = config
        self._check_usable = check_usable
        self._action = action
        self._hopeless = hopeless
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._outages = Outages(config.client_id)
        self._no_progress = f"{action} makes no progress"
        self.progress()

    def progress(self) -> None:
        """Note progress: the time starts anew."""
        self._outages.ended(self._no_progress, now_ms())
        self._failures = 0
        self._deadline = now_ms() + self._config.default_api_timeout_ms

    @property
    def over(self) -> bool:
        """Return whether the time has passed."""
        return now_ms() > self._deadline

    def failed(self, problem: OdradekError) -> None:
        """Wait before the next try.

        Raises:
            KafkaError: `problem`, if it cannot be retried.
            ClientTimeoutError: in the end.
        """
        self._check_usable()
        if not (isinstance(problem, KafkaError) and problem.retriable):
            raise problem
        self.tell_if_it_lasts(problem)
        self._failures += 1
        delay = self._backoff.delay_ms(self._failures)
        # Raised now rather than after a pause behind which nothing would be tried.
        if self._hopeless(problem, now_ms() + delay):
            raise problem
        if now_ms() + delay > self._deadline:
            raise ClientTimeoutError(
                f"{self._action}: no progress within {self._config.default_api_timeout_ms} ms: {problem}"
            ) from problem
        time.sleep(delay / 1000)

    def tell_if_it_lasts(self, problem: OdradekError) -> None:
        """Log a warning when the step fails for longer than is ordinary. Brokers that cannot be reached are
        told of already.
        """
        if not isinstance(problem, NetworkError | NoBrokersAvailableError):
            self._outages.failed(self._no_progress, problem, now_ms(), after_ms=ORDINARY_MS)

    def pause(self, at_most_ms: float = float("inf")) -> None:
        """Wait before the next try, which the caller bounds."""
        self._check_usable()
        self._failures += 1
        time.sleep(min(self._backoff.delay_ms(self._failures), at_most_ms) / 1000)

    def idle(self, why: str) -> None:
        """Take an answer without data.

        Raises:
            ClientTimeoutError: that lasted too long.
        """
        if self.over:
            raise ClientTimeoutError(
                f"{self._action}: no progress within {self._config.default_api_timeout_ms} ms: {why}"
            )
