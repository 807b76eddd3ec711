"""One connection to one broker: an asyncio protocol around `core.connection.ConnectionState`."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from odradek.client.config import CommonConfig
from odradek.client.core.connection import ConnectionState, pick_version
from odradek.client.core.handshake import PATIENCE_MS, Approach, KnownBrokers, Opening
from odradek.client.core.inbound import InboundFrames
from odradek.client.core.outages import MUTE_MS, Outages, hung_up_hint, mute_hint, unreachable
from odradek.client.core.silence import SILENCE_MS, next_look_ms, silent_and_dead
from odradek.client.core.traffic import Traffic
from odradek.client.errors import (
    ClientTimeoutError,
    ClosedError,
    ConnectionFailedError,
    SslAuthenticationError,
)
from odradek.errors import OdradekError, ProtocolError
from odradek.sasl.client_authenticator import RENEW_AT, Work
from odradek.security.explain import explain
from odradek.util.futures import error_of
from odradek.util.gathered_writes import gathering_write
from odradek.wire.foreign import foreign

logger = logging.getLogger("odradek.client")

_RENEWAL_SPREAD = 0.1
"""A login is renewed later than at `RENEW_AT`, by a random share of its life up to this one (as Kafka's
SaslClientAuthenticator does), so that clients that began together do not log in together."""

_EARLY_MS = 1.0
"""Timers may be so much too early."""

_SHUTDOWN_S = 0.5
"""How long a closing connection waits for the broker's farewell of TLS; Kafka's brokers send none."""


class Connection(asyncio.BufferedProtocol):
    """A connection whose handshake is done; made by `connect`.

    Requests are written as they come and answered in order. When anything goes wrong, all that is in flight
    fails with the same error, and the connection is not used again.

    Attributes:
        state: the protocol's side: what is in flight, the versions, the login.
        closed: no request is taken any more, and all that were in flight have failed.
        hung_up: the peer closed first; a broker before 0.10 does so when it is asked for ApiVersions.
        last_used: when a request was sent last; loop time.
        traffic: what has gone over it.
        on_close: called once, when `closed` is set.
        on_silence: called when nothing has come for `patience_ms` though an answer is due, and from time to
            time until something comes.
    """

    def __init__(
        self,
        config: CommonConfig,
        address: str,
        loop: asyncio.AbstractEventLoop,
        approach: Approach = Opening.ASK,
    ) -> None:
        self.address = address
        self._host = address.rpartition(":")[0]
        self._login = login = config.security.login()
        mechanism = None if login is None else login.start(self._host)
        self.state = ConnectionState(config.client_id or None, approach, mechanism, address)
        self.closed = False
        self.hung_up = False
        self.last_used = loop.time()
        self.on_close: Callable[[Connection], None] | None = None
        self.on_silence: Callable[[], None] | None = None
        self.patience_ms = SILENCE_MS
        self.traffic = Traffic()
        self._config = config
        self._loop = loop
        self._inbound = InboundFrames(config.receive_message_max_bytes)
        self._transport: asyncio.Transport | None = None
        # Done when the connection is usable, or has failed for good.
        self._handshake: asyncio.Future[None] = loop.create_future()
        # Done when the socket is gone, which may be some turns after `closed`.
        self._lost: asyncio.Future[None] = loop.create_future()
        # Fires at `_timer_at` (monotonic ms): at the first deadline of what is in flight, or before, as an
        # answer does not move it; so most requests cost no timer.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        # Fires when a broker says nothing to ApiVersions, as 0.9 does.
        self._patience: asyncio.TimerHandle | None = None
        # Requests that wait for the end of another login: a broker takes nothing between its steps (KIP-368).
        self._held: list[Any] = []
        # Fires when it is time for another login.
        self._renewal: asyncio.TimerHandle | None = None
        # When something came last, or when what is in flight was begun; loop time.
        self._heard = loop.time()
        # Fires when the broker may have become silent; armed while anything is in flight.
        self._listening: asyncio.TimerHandle | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        # uvloop's transports are transports without being subclasses.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._writelines = gathering_write(transport)
        if self.closed:  # given up while it was being made
            transport.abort()
            return
        deadline = self._loop.time() * 1000 + self._config.request_timeout_ms
        opening = self.state.start_handshake(deadline)
        if self.state.versions is not None:
            self._handshake.set_result(None)
            return
        self._write(opening)
        self._arm(deadline)
        self._wait_patiently()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """See `asyncio.BufferedProtocol`."""
        return self._inbound.space()

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._heard = self._loop.time()
        self.traffic.bytes_in += nbytes
        try:
            for frame in self._inbound.written(nbytes):
                self.traffic.responses += 1
                self._frame(frame)
            if self.state.versions is None and (size := self._inbound.announced) and foreign(size):
                # The size may be below the largest frame's, and the rest would be waited for.
                raise ProtocolError(f"a frame of {size} bytes{foreign(size)}")
        except ProtocolError as problem:
            self.close(ConnectionFailedError(f"{self.address} sent what is not Kafka's protocol: {problem}"))
        except OdradekError as problem:
            self.close(problem)

    def _frame(self, frame: Any) -> None:
        if self.state.versions is None or self.state.login_is_next:
            again = self.state.continue_handshake(frame)
            if isinstance(again, Work):
                # A password is hashed, or a token fetched: other tasks of the loop need not wait for that.
                working = self._loop.run_in_executor(None, self.state.work_off, again)
                working.add_done_callback(self._worked_off)
                return
            self._go_on_with_handshake(again)
            return
        request, message = self.state.receive(frame)
        self.state.note_throttle(message, self._loop.time() * 1000)
        # Done already where the caller was cancelled.
        if not request.token.done():
            request.token.set_result(message)

    def _worked_off(self, working: asyncio.Future[list[Any]]) -> None:
        problem = error_of(working)
        if self.closed:
            return
        if problem is None:
            try:
                self._go_on_with_handshake(self.state.worked_off(working.result()))
                return
            except Exception as bug:
                # asyncio only logs what a callback raises; the handshake would wait until its time is over.
                logger.exception("a login with %s could not go on", self.address)
                problem = ConnectionFailedError(f"the login with {self.address} could not go on: {bug!r}")
        if not isinstance(problem, Exception):
            problem = ConnectionFailedError(f"the login with {self.address} was broken off")
        self.close(problem)

    def _go_on_with_handshake(self, again: list[Any] | None) -> None:
        if again is not None:
            assert self._transport is not None
            if again:
                self._write(again)
                self._wait_patiently()
            return
        if self._patience is not None:
            self._patience.cancel()
        if not self._handshake.done():
            self._handshake.set_result(None)
        held, self._held = self._held, []
        if held:
            self._writelines(held)
        if self.state.session_lifetime_ms:
            share = RENEW_AT + random.uniform(0, _RENEWAL_SPREAD)
            self._renewal = self._loop.call_later(
                share * self.state.session_lifetime_ms / 1000, self._log_in_again
            )

    def _log_in_again(self) -> None:
        """Log in before the broker ends the login, on this very connection (KIP-368)."""
        if self.closed or self._login is None:
            return
        deadline = self._loop.time() * 1000 + self._config.request_timeout_ms
        self._write(self.state.log_in_again(self._login.start(self._host), deadline))
        self._arm_by(deadline)

    def eof_received(self) -> None:
        """See `asyncio.BufferedProtocol`; returning None closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        if not self._lost.done():
            self._lost.set_result(None)
        if isinstance(exc, ssl.SSLError) and self.state.versions is None:
            # Of TLS 1.3, a broker looks at the client's certificate when the client's handshake is over.
            self.close(SslAuthenticationError(f"{self.address}: SSL handshake failed: {explain(exc)}"))
            return
        self.hung_up = not self.closed
        reason = f": {exc}" if exc else ""
        if self.state.versions is None:
            reason += f" before it had answered anything: {hung_up_hint(self._config.security.protocol)}"
        self.close(ConnectionFailedError(f"{self.address} closed the connection{reason}"))

    # For the rest of the client

    async def handshake(self) -> None:
        """Wait until the versions are agreed on."""
        await self._handshake

    async def wait_closed(self) -> None:
        """After `close`: wait until the socket is gone."""
        if self._transport is not None:
            await self._lost

    @property
    def in_flight(self) -> int:
        """Requests not yet answered."""
        return len(self.state.in_flight)

    @property
    def silent_ms(self) -> float:
        """Return for how long nothing has come though an answer is due (milliseconds)."""
        return 1000 * (self._loop.time() - self._heard) if self.state.in_flight else 0.0

    @property
    def is_silent(self) -> bool:
        """Return whether an answer is due for longer than `patience_ms`."""
        return self.silent_ms >= self.patience_ms - _EARLY_MS

    def give_up(self) -> None:
        """Close, as the broker is silent and does not count as alive any more."""
        self.close(ConnectionFailedError(silent_and_dead(self.address, self.silent_ms)))

    def has_api(self, key: int) -> bool:
        """Return whether the broker offers a version of the API that this client speaks."""
        return self.state.versions is not None and self.state.versions.has(key)

    def pick(self, key: int, at_most: int | None = None, at_least: int | None = None) -> int:
        """Return the version to speak.

        Raises:
            UnsupportedByBrokerError: there is none that both sides know.
        """
        return pick_version(self.state, key, at_most, at_least)  # type: ignore[arg-type]

    def send(self, message: Any, version: int, timeout_ms: float | None = None) -> asyncio.Future[Any]:
        """Write a request; the future gives its answer.

        Args:
            timeout_ms: after which the connection is given up; default `request_timeout_ms`.

        Raises:
            ConnectionFailedError: the connection is closed.
            ProtocolError: the message cannot be encoded in that version.
        """
        if self.closed or self._transport is None:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        now = self._loop.time()
        self.last_used = now
        # Silence counts from the first request that is in flight, not from the last answer.
        if not self.state.in_flight:
            self._heard = now
        if self._listening is None:
            self._listen(self.patience_ms)
        timeout_ms = timeout_ms if timeout_ms is not None else self._config.request_timeout_ms
        # Later while a broker throttles this client: it reads nothing meanwhile (KIP-219).
        deadline = self.state.deadline_ms(now * 1000, timeout_ms)
        self._ask(self.state.request(message, version, future, deadline))
        self._arm_by(deadline)
        return future

    def send_unanswered(self, message: Any, version: int) -> None:
        """Write a request that has no answer (Produce with acks=0)."""
        if self.closed or self._transport is None:
            raise ConnectionFailedError(f"the connection to {self.address} is closed")
        self._ask(self.state.request(message, version, None, 0.0, answered=False))

    def _ask(self, buffers: list[Any]) -> None:
        self._count(buffers)
        if self.state.is_logging_in:
            self._held += buffers
        else:
            self._writelines(buffers)

    def _write(self, buffers: list[Any]) -> None:
        if buffers:
            self._count(buffers)
            self._writelines(buffers)

    def _count(self, buffers: list[Any]) -> None:
        self.traffic.requests += 1
        self.traffic.bytes_out += sum(map(len, buffers))

    def close(self, reason: Exception | None = None) -> None:
        """Close; what is in flight fails with `reason`."""
        if self.closed:
            return
        self.closed = True
        error = reason or ClosedError("the client was closed")
        for timer in (self._timer, self._patience, self._renewal, self._listening):
            if timer is not None:
                timer.cancel()
        for request in self.state.abandon():
            if request.token is not None and not request.token.done():
                request.token.set_exception(error)
        if not self._handshake.done():
            self._handshake.set_exception(error)
            # Looked at here, as asyncio complains of errors that nobody fetches, and `connect` may be gone.
            self._handshake.exception()
        if self._transport is not None:
            # Without a reason what was written still leaves; behind a failure nothing more can be of use.
            self._transport.abort() if reason else self._transport.close()
        if self.on_close is not None:
            self.on_close(self)

    def _wait_patiently(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._loop.call_later(PATIENCE_MS / 1000, self._still_silent)

    def _still_silent(self) -> None:
        if not self.closed and self._transport is not None and (more := self.state.broker_is_silent()):
            self._write(more)

    def _listen(self, for_ms: float) -> None:
        self._listening = self._loop.call_later(for_ms / 1000, self._check_silence)

    def _check_silence(self) -> None:
        self._listening = None
        if self.closed or not self.state.in_flight:
            return  # the next request listens again
        silent_ms = self.silent_ms
        if silent_ms < self.patience_ms - _EARLY_MS:
            self._listen(self.patience_ms - silent_ms)
            return
        self._listen(next_look_ms(silent_ms))
        if self.on_silence is not None:
            self.on_silence()

    def _arm_by(self, deadline_ms: float) -> None:
        # Deadlines mostly grow with the requests, so a timer is armed for the first of many only.
        if deadline_ms < self._timer_at:
            self._arm(deadline_ms)

    def _arm(self, deadline_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1000, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        deadline = self.state.next_deadline_ms()
        if deadline is None:
            self._timer_at = float("inf")
        # Answers come in the order of requests: behind one that does not come, none can.
        elif deadline <= self._loop.time() * 1000 + 1:
            self.close(ConnectionFailedError(f"{self.address} did not answer in time; connection given up"))
        else:
            self._arm(deadline)


async def connect(
    host: str,
    port: int,
    config: CommonConfig,
    timeout_ms: float,
    known_brokers: KnownBrokers | None = None,
    outages: Outages | None = None,
) -> Connection:
    """Connect and shake hands.

    Args:
        timeout_ms: for all of it, the further connections included that an old broker takes.
        known_brokers: what is known of brokers that do not know ApiVersions; is added to.
        outages: is told of a peer that says nothing for `MUTE_MS`, which may be long before `timeout_ms`.

    Raises:
        ConnectionFailedError: it did not come about; names the address and the reason.
    """
    address = f"{host}:{port}"
    known_brokers = known_brokers or KnownBrokers()
    approach: Approach | None = known_brokers.approach(address)
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    failed: ConnectionFailedError | None = None
    while approach is not None:
        connection = Connection(config, address, asyncio.get_running_loop(), approach)
        try:
            with _mute_is_told(connection, outages):
                await _open(connection, host, port, deadline, timeout_ms)
        except ConnectionFailedError as problem:
            # The first reason is told: what follows are only tries, in case that the broker is old.
            failed = failed or problem
            approach = connection.state.after_hang_up() if connection.hung_up else None
            continue
        assert connection.state.versions is not None
        known_brokers.learned(address, connection.state.versions)
        return connection
    known_brokers.lost(address)
    assert failed is not None
    raise failed


@contextmanager
def _mute_is_told(connection: Connection, outages: Outages | None) -> Iterator[None]:
    """Log a warning when a connection is still not usable after `MUTE_MS`."""
    if outages is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def tell() -> None:
        why = _not_connected(connection, MUTE_MS)
        outages.failed(unreachable(connection.address), why, loop.time() * 1000)

    timer = loop.call_later(MUTE_MS / 1000, tell)
    try:
        yield
    finally:
        timer.cancel()


def _not_connected(connection: Connection, waited_ms: float) -> str:
    if connection._transport is not None:
        return mute_hint(waited_ms, connection._config.security.protocol)
    return f"no connection within {waited_ms:.0f} ms"


async def _open(connection: Connection, host: str, port: int, deadline: float, timeout_ms: float) -> None:
    """Make one try to connect and shake hands.

    Raises:
        ConnectionFailedError: as `connect`.
    """
    address = connection.address
    loop = asyncio.get_running_loop()
    context = None
    try:
        async with asyncio.timeout_at(deadline):
            context = connection._config.security.ssl_context()
            if context is None:
                await loop.create_connection(lambda: connection, host, port)
            else:
                await loop.create_connection(
                    lambda: connection,
                    host,
                    port,
                    ssl=context,
                    # Bounded by the deadline, as everything here; asyncio's own bound is 60 s.
                    ssl_handshake_timeout=max(timeout_ms / 1000, 0.001),
                    # asyncio would wait 30 s for a farewell that Kafka's brokers do not send.
                    ssl_shutdown_timeout=_SHUTDOWN_S,
                )
            _tune(connection, connection._config)
            await connection.handshake()
    except TimeoutError:
        error: OdradekError = ClientTimeoutError(f"{address}: {_not_connected(connection, timeout_ms)}")
        connection.close(error)
        raise ConnectionFailedError(str(error)) from None
    except ssl.SSLError as problem:
        connection.close(problem)
        connection.hung_up = False  # a broker that refuses a certificate is no old one
        raise SslAuthenticationError(f"{address}: SSL handshake failed: {explain(problem)}") from problem
    except OSError as problem:
        connection.close(problem)
        reason = problem.strerror or str(problem) or type(problem).__name__
        if problem.errno and reason.startswith("Connect call failed"):
            reason = os.strerror(problem.errno)  # asyncio's own words say less
        if isinstance(problem, ConnectionResetError | ConnectionAbortedError) and context is not None:
            reason = f"{reason} in the TLS handshake: {hung_up_hint(connection._config.security.protocol)}"
        raise ConnectionFailedError(f"{address}: {reason}") from problem
    except BaseException:
        # Cancelled: the transport may exist already, and nobody else knows of it.
        connection.close(ConnectionFailedError(f"{address}: connecting was given up"))
        raise


def _tune(connection: Connection, config: CommonConfig) -> None:
    assert connection._transport is not None
    sock = connection._transport.get_extra_info("socket")
    if sock is None:
        return
    # A small request must not wait for the acknowledgement of the request before (Nagle); as Kafka's
    # Selector.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if config.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.send_buffer_bytes)
    if config.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.receive_buffer_bytes)
