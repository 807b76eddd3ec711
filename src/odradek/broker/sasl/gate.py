"""Between a connection of a SASL listener and the dispatcher, for as long as nobody knows who is there.

A connection with a gate hands it each frame; without one, it hands them to the dispatcher. The gate takes
itself away when somebody has logged in, so that requests pass nothing more than those of other listeners, and
comes back when the login has run out (KIP-368): then only another login is taken.

    at the door   a login is under way; nothing else is answered, frames are small, and time is short
    open          the gate is not asked
    expired       the login has run out; a SaslHandshake begins another one, all else ends the connection

Steps that may take their time are made by a thread; failures are answered late, as Kafka does, so that nobody
tries passwords quickly. Meanwhile nothing more is taken up from the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.requests.answer import Answer, Later
from odradek.broker.requests.login_gate import Login
from odradek.broker.sasl.server_authenticator import Authenticator, Evaluation, State
from odradek.cluster.configs.config_def import ConfigError
from odradek.errors import IllegalSaslStateError, ProtocolError
from odradek.util.futures import error_of
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.network.dispatch import Dispatcher
    from odradek.broker.requests.peer import Peer
    from odradek.broker.sasl.settings import ListenerSasl
    from odradek.util.clock import Clock
    from odradek.util.timers import TimerHandle, Timers
    from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

logger = logging.getLogger(__name__)

MIN_REAUTHENTICATION_MS = 1_000
"""Logins on one connection are at least this far apart, as in Kafka."""

_THREADS = 4
"""For what waits for others alone (a key's server, a ticket): what computes is done at once, bounded by the
mechanism."""
_ERROR_AT = 8
"""Where an answer to ApiVersions has its error: behind its size and its correlation id."""


class Gated(Protocol):
    """A gate's connection, as the gate knows it.

    Attributes:
        peer: who is there.
        gate: asked instead of the dispatcher; None for the dispatcher.
    """

    peer: Peer
    gate: Any

    def abort(self, reason: str, *, warn: bool = False) -> None:
        """Close at once."""
        ...

    def limit_frames(self, max_bytes: int) -> None:
        """Take no longer frames than that."""
        ...


class _Gone:
    """In the place of a connection that has ended."""

    peer: Peer
    gate: Any = None

    def abort(self, reason: str, *, warn: bool = False) -> None:
        """Nothing is left to close."""

    def limit_frames(self, max_bytes: int) -> None:
        """Nothing comes any more."""


_GONE = _Gone()


class AuthenticationMetrics:
    """Counts of logins at one listener, under the names of Kafka's `socket-server-metrics`."""

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.successful_again = 0
        self.failed_again = 0
        self.expired = 0


class SaslListener:
    """Logins at one listener.

    Attributes:
        settings: what its configs say; replaced when they change.
        metrics: how many succeed and fail.
        repeats: log lines that peers can cause at will.

    Args:
        settings, dispatcher, clock: see their classes.
        timers: for how long a login is good.
        pauses: for how long a peer may take for a login, and waits for the news of its failure.
        loop: of the connections.
        read: reads the settings out of the broker's configs; None where they do not change.
    """

    def __init__(
        self,
        settings: ListenerSasl,
        dispatcher: Dispatcher,
        clock: Clock,
        timers: Timers,
        pauses: Timers,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[BrokerConfig], ListenerSasl] | None = None,
    ) -> None:
        self._read = read
        self.settings = settings
        self.dispatcher = dispatcher
        self.clock = clock
        self.timers = timers
        self.pauses = pauses
        self.loop = loop
        self.metrics = AuthenticationMetrics()
        self.repeats = Repeats(logger)
        self._threads: ThreadPoolExecutor | None = None

    def open(self, connection: Gated, max_request_bytes: int) -> SaslGate:
        """A gate for a connection that begins."""
        return SaslGate(self, connection, max_request_bytes)

    def check(self, config: BrokerConfig) -> None:
        """See `GateKeeper.check`."""
        if self._read is not None:
            self._read(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """See `GateKeeper.reconfigure`. What cannot be is logged, and the settings of before stay."""
        if self._read is None:
            return
        try:
            self.settings = self._read(config)
        except ConfigError as error:
            logger.error("changed logins cannot be taken over, those of before stay: %s", error)

    # Made when a login first waits: most listeners never need one.
    @property
    def threads(self) -> Executor:
        """The threads in which steps of logins wait for a server's keys, or a Kerberos cache."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "sasl")
        return self._threads

    def close(self) -> None:
        """Let go of the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


class SaslGate:
    """See the module.

    Attributes:
        login: who is logged in; None at first.
    """

    __slots__ = (
        "_authenticator",
        "_connection",
        "_is_closed",
        "_last_begun_ms",
        "_listener",
        "_max_request_bytes",
        "_timer",
        "login",
    )

    def __init__(self, listener: SaslListener, connection: Gated, max_request_bytes: int) -> None:
        self._listener = listener
        self._connection = connection
        self._max_request_bytes = max_request_bytes
        self.login: Login | None = None
        self._last_begun_ms: float | None = None
        """When the client last asked to log in again (monotonic); None before it first does."""
        self._is_closed = False
        """Set for good by `closed`: a thread may still be at a step of the login then."""
        self._authenticator: Authenticator | None = None
        """The login under way; None while the gate is open, and when the login has expired."""
        self._timer: TimerHandle | None = None
        """For one thing at a time: the end of the time for a login, of a login, or of a failure's delay."""
        connection.peer.sasl = self
        self._begin(None)

    def _begin(self, before: Login | None) -> Authenticator:
        listener = self._listener
        self._authenticator = authenticator = Authenticator(listener.settings, listener.clock, before)
        self._connection.gate = self
        # `sasl.server.max.receive.size`: before a login nobody may have the broker hold 100 MB.
        self._connection.limit_frames(listener.settings.max_receive_size)
        self._set_timer(listener.pauses, listener.settings.timeout_ms, self._take_too_long)
        return authenticator

    # ------------------------------------------------------------------ frames

    def dispatch(self, peer: Peer, frame: Any, later: Later) -> Answer | None:
        """See `Dispatcher.dispatch`."""
        if len(frame) < 4:
            raise ProtocolError(f"a frame of {len(frame)} bytes is not part of a login")
        authenticator = self._authenticator
        if authenticator is None:
            return self._take_expired(peer, frame, later)
        # Before the handshake a client may ask which versions there are, as at Kafka's
        # `SaslServerAuthenticator`.
        if authenticator.wants_api_versions(frame[0] << 8 | frame[1]):
            answer = self._listener.dispatcher.dispatch(peer, frame, later)
            # After UNSUPPORTED_VERSION the client asks once more, in a version that it was told.
            if answer is not None and answer.buffers is not None:
                response = b"".join(answer.buffers)
                if response[_ERROR_AT : _ERROR_AT + 2] == b"\0\0":
                    authenticator.versions_told()
            return answer
        try:
            step = authenticator.take(frame)
        except ProtocolError:
            self._count_failure(authenticator)
            raise
        return self._go_on(authenticator, step, later)

    def _take_expired(self, peer: Peer, frame: Any, later: Later) -> Answer | None:
        # Its handler comes back here, to `authenticate_again`.
        if (frame[0] << 8 | frame[1]) == ApiKey.SASL_HANDSHAKE:
            return self._listener.dispatcher.dispatch(peer, frame, later)
        self._listener.metrics.expired += 1
        raise ProtocolError("the login has expired, and the client has not logged in again")

    def _go_on(
        self, authenticator: Authenticator, step: list[Any] | Evaluation, later: Later
    ) -> Answer | None:
        if isinstance(step, Evaluation):
            if step.mechanism.blocks:
                self._evaluate_in_thread(authenticator, step, later)
                return None
            try:
                outcome = step.mechanism.evaluate(step.token)
            except Exception as error:
                # It must stay in no variable: its traceback knows this call, a cycle with all that is here.
                step = authenticator.evaluated(step, error)
            else:
                step = authenticator.evaluated(step, outcome)
        return self._finish(authenticator, step, later)

    def _evaluate_in_thread(self, authenticator: Authenticator, step: Evaluation, later: Later) -> None:
        later.hold(True)
        listener = self._listener
        running = listener.loop.run_in_executor(listener.threads, step.mechanism.evaluate, step.token)

        def end(done: asyncio.Future[bytes]) -> None:
            later.hold(False)
            error = error_of(done)
            if self._is_closed:
                return
            if error is not None and not isinstance(error, Exception):
                # The threads are let go of: without its answer the login comes to nothing.
                later.refuse("the login was broken off")
                return
            outcome = done.result() if error is None else error
            try:
                answer = self._finish(authenticator, authenticator.evaluated(step, outcome), later)
            except Exception as failure:
                # Out of a callback nobody else hears of it, and the peer would wait until its time is over.
                listener.repeats.log(
                    logging.ERROR, type(failure), "unforeseen failure in a login", exc_info=failure
                )
                later.refuse("unforeseen failure")
                return
            if answer is not None:
                later(answer)

        running.add_done_callback(end)

    def _finish(self, authenticator: Authenticator, buffers: list[Any], later: Later) -> Answer | None:
        if authenticator.state is State.FAILED:
            self._fail(authenticator, buffers, later)
            return None
        if authenticator.state is State.COMPLETE:
            self._let_in(authenticator)
        return Answer(buffers)

    # ------------------------------------------------------------------ ends

    def _let_in(self, authenticator: Authenticator) -> None:
        listener, connection = self._listener, self._connection
        if self.login is None:
            listener.metrics.successful += 1
        else:
            listener.metrics.successful_again += 1
        self.login = login = authenticator.login
        assert login is not None
        # A login that follows may only be the same user's (KIP-368): what was granted to the peer still
        # holds.
        peer = connection.peer
        peer.principal = f"User:{login.user}"
        logger.debug(
            "logged in peer=%s:%d mechanism=%s principal=%s",
            peer.host,
            peer.port,
            login.mechanism,
            peer.principal,
        )
        self._authenticator = None
        connection.gate = None
        connection.limit_frames(self._max_request_bytes)
        if login.lifetime_ms is None:
            self._stop_timer()
        else:
            self._set_timer(self._listener.timers, login.lifetime_ms, self._expire)

    def _fail(self, authenticator: Authenticator, buffers: list[Any], later: Later) -> None:
        """Close the connection after a while, with the answer if there is one (KIP-306)."""
        self._count_failure(authenticator)
        # For good: nothing of this peer is taken up any more.
        later.hold(True)
        answer = Answer(buffers or None, close=True)
        # The deadline need not be kept any more.
        self._set_timer(
            self._listener.pauses, self._listener.settings.failure_delay_ms, partial(later, answer)
        )

    def _count_failure(self, authenticator: Authenticator) -> None:
        listener, peer = self._listener, self._connection.peer
        if self.login is None:
            listener.metrics.failed += 1
        else:
            listener.metrics.failed_again += 1
        if authenticator.failure:
            listener.repeats.log(
                logging.INFO,
                (peer.host, authenticator.mechanism),
                "authentication failed peer=%s:%d listener=%s mechanism=%s reason=%s",
                peer.host,
                peer.port,
                peer.listener_name,
                authenticator.mechanism or "-",
                authenticator.failure,
            )

    def _take_too_long(self) -> None:
        self._listener.metrics.failed += 1
        self._connection.abort(f"no login within {self._listener.settings.timeout_ms} ms")

    def _expire(self) -> None:
        # Only the next request finds it: what was taken up before is answered, as in Kafka.
        self._connection.gate = self

    def closed(self) -> None:
        """The connection has ended."""
        self._is_closed = True
        self._stop_timer()
        self._authenticator = None
        # It knows this gate, by its peer: a cycle, of which a storm would leave thousands.
        self._connection.gate = None
        self._connection = _GONE

    # ------------------------------------------------------------------ again

    def authenticate_again(self, version: int, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Begin another login (KIP-368); returns the answer to the handshake.

        Raises:
            IllegalSaslStateError: the login does not run out, or the last one was a moment ago.
        """
        login, now_ms = self.login, self._listener.clock.monotonic_ms()
        if login is None or login.lifetime_ms is None or self._is_closed:
            raise IllegalSaslStateError
        if self._last_begun_ms is not None and now_ms - self._last_begun_ms < MIN_REAUTHENTICATION_MS:
            raise IllegalSaslStateError
        self._last_begun_ms = now_ms
        return self._begin(login).shake_hands(version, request)

    # ------------------------------------------------------------------ time

    def _set_timer(self, timers: Timers, delay_ms: float, callback: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = timers.call_later(delay_ms, callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
