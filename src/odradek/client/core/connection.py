"""The protocol state of one connection: what was asked, in which order the answers must come.

A broker answers the requests of a connection in their order, so the oldest request is the one that the next
frame answers; the correlation id proves it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from odradek.client.core.handshake import Approach, Opening, after_hang_up
from odradek.client.core.versions import (
    HANDSHAKE_VERSION,
    V0_8_2,
    V0_9_0,
    NodeVersions,
    handshake_retry_version,
)
from odradek.client.errors import SaslAuthenticationError
from odradek.errors import ErrorCode, KafkaError, ProtocolError, error_for
from odradek.sasl.client_authenticator import SaslClientAuthenticator, Work
from odradek.sasl.mechanisms import ClientMechanism
from odradek.version import VERSION
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request

Buffers = list[Any]

#: Name and version of this client, as KIP-511 tells brokers.
SOFTWARE = ("odradek", VERSION)


@dataclass(slots=True)
class InFlight:
    """A request on its way. `token` is the shell's: a future, a callback, nothing."""

    correlation_id: int
    key: int
    version: int
    deadline_ms: float
    token: Any


class ConnectionState:
    """Correlation ids, the queue of requests in flight, and the versions agreed on.

    Attributes:
        session_lifetime_ms: how long the broker will have us without another login; 0 for ever (KIP-368).
        login_is_next: whether the next frame belongs to a login, and goes to `continue_handshake`.

    Args:
        client_id: goes into every request header.
        approach: how the handshake is opened; versions that are known already leave nothing to ask.
        mechanism: logs in behind the handshake, if not None.
        address: the broker's, for messages.
    """

    def __init__(
        self,
        client_id: str | None,
        approach: Approach = Opening.ASK,
        mechanism: ClientMechanism | None = None,
        address: str = "the broker",
    ) -> None:
        self.client_id = client_id
        self.session_lifetime_ms = 0
        self.login_is_next = False
        self._before_login = 0
        """How many answers come before those of a login that has begun."""
        self._mechanism = mechanism
        self._address = address
        self._login: SaslClientAuthenticator | None = None
        self._login_deadline_ms: float | None = None
        self.approach = approach
        self.versions: NodeVersions | None = None
        self.in_flight: deque[InFlight] = deque()
        self._throttled_until_ms = 0.0
        self._next_correlation_id = 0
        self._answered = 0
        self._found: NodeVersions | None = None

    def request(
        self, message: Any, version: int, token: Any, deadline_ms: float, *, answered: bool = True
    ) -> Buffers:
        """Encode a request and expect its answer (unless `answered` is false: Produce with acks=0).

        Returns: the buffers to write, in order.
        """
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        buffers = encode_request(message.API_KEY, version, correlation_id, self.client_id, message)
        if answered:
            self.in_flight.append(InFlight(correlation_id, message.API_KEY, version, deadline_ms, token))
        return buffers

    def receive(self, frame: Any) -> tuple[InFlight, Any]:
        """Match a frame with the oldest request and decode it.

        Raises:
            ProtocolError: nobody asked, or the ids differ, or the bytes are not the answer.
        """
        if not self.in_flight:
            raise ProtocolError("a response came that nobody asked for")
        request = self.in_flight.popleft()
        if self._login is not None:
            self._before_login -= 1
            self.login_is_next = self._before_login == 0
        correlation_id, message = decode_response(frame, request.key, request.version)
        # 0.8.2 forgets the id where it has no coordinator to tell of.
        if correlation_id != request.correlation_id and (
            correlation_id or request.key != ApiKey.FIND_COORDINATOR
        ):
            raise ProtocolError(f"response {correlation_id} came where {request.correlation_id} was awaited")
        return request, message

    def note_throttle(self, message: Any, now_ms: float) -> None:
        """Give requests more time where an answer says that none is taken up for a while (KIP-219).

        A request that waits in front of a throttled connection is not one that the broker does not answer.

        Args:
            message: the answer.
            now_ms: monotonic milliseconds.
        """
        throttle_ms = getattr(message, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until_ms = now_ms + throttle_ms
            for request in self.in_flight:
                request.deadline_ms += throttle_ms

    def deadline_ms(self, now_ms: float, timeout_ms: float) -> float:
        """Return when a request that is sent now is to have been answered; throttling comes on top."""
        return max(now_ms, self._throttled_until_ms) + timeout_ms

    def next_deadline_ms(self) -> float | None:
        """Return when the first request in flight runs out of time; None when nothing is in flight."""
        if self._login_deadline_ms is not None:
            return self._login_deadline_ms
        return min((request.deadline_ms for request in self.in_flight), default=None)

    def abandon(self) -> list[InFlight]:
        """The connection is gone: everything in flight, to be failed by the shell."""
        lost = list(self.in_flight)
        self.in_flight.clear()
        return lost

    # The handshake: see `core.handshake`.

    def start_handshake(self, deadline_ms: float) -> Buffers:
        """The first bytes on a new connection; none where the versions are known: then `versions` is set."""
        if isinstance(self.approach, NodeVersions):
            if self._mechanism is not None:
                raise SaslAuthenticationError(
                    f"{self._address}: Kafka {self.approach.release} does not know the SASL of this client"
                )
            self.versions = self.approach
            return []
        if self.approach is Opening.ASK:
            return self._ask_versions(HANDSHAKE_VERSION, deadline_ms)
        if self.approach is Opening.FEEL:
            return self._ask_heartbeat(deadline_ms)
        return self._ask_no_offsets(deadline_ms)

    def broker_is_silent(self) -> Buffers:
        """Nothing has come for `PATIENCE_MS`: what else to ask, if there is anything."""
        if self._mechanism is not None:
            # A broker with SASL knows ApiVersions, and hangs up at anything else before the login.
            return []
        if self.versions is not None or [request.key for request in self.in_flight] != [ApiKey.API_VERSIONS]:
            return []
        return self._ask_groups(self.in_flight[0].deadline_ms)

    def after_hang_up(self) -> Approach | None:
        """The broker hung up: how to try on the next connection; None if that is no question of versions."""
        if self.versions is not None or self._mechanism is not None:
            return None
        return after_hang_up(self.approach, self._answered)

    def continue_handshake(self, frame: Any) -> Buffers | Work | None:
        """Take an answer. Returns what to write, perhaps nothing, or None when `versions` is known.

        Returned `Work` is to be done where waiting is allowed, by `work_off`; what comes of it goes to
        `worked_off`.

        Raises:
            ProtocolError: the answer is nonsense.
            SaslAuthenticationError: the login fails.
            KafkaError: the broker refuses for another reason.
        """
        if self._login is not None:
            return self._go_on_with_login(self._login, frame)
        if not self.in_flight:
            raise ProtocolError("a response came that nobody asked for")
        self._answered += 1
        request = self.in_flight.popleft()
        if request.key == ApiKey.API_VERSIONS:
            if self.in_flight and frame[:4] == self.in_flight[0].correlation_id.to_bytes(4, "big"):
                # It passed over ApiVersions, and answered what was asked behind.
                self.in_flight.popleft()
                self.versions = V0_9_0
                return None
            retry = handshake_retry_version(frame, request.version)
            if retry is not None:
                return self._ask_versions(retry, request.deadline_ms)
        correlation_id, answer = decode_response(frame, request.key, request.version)
        if correlation_id != request.correlation_id:
            raise ProtocolError(f"response {correlation_id} came where {request.correlation_id} was awaited")
        message: Any = answer
        if request.key == ApiKey.API_VERSIONS:
            if message.error_code:
                raise error_for(message.error_code, f"ApiVersions failed with error {message.error_code}")
            self._found = NodeVersions.from_response(message)
            if self._mechanism is not None:
                return self._begin_login(self._found, request.deadline_ms)
        elif request.key == ApiKey.LIST_OFFSETS:
            return self._ask_groups(request.deadline_ms)
        elif request.key == ApiKey.HEARTBEAT and message.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self._found = V0_8_2
        elif self._found is None and not self.in_flight:
            return self._ask_versions(HANDSHAKE_VERSION, request.deadline_ms)
        if self.in_flight:
            return []
        self.versions = self._found
        return None

    def _begin_login(self, versions: NodeVersions, deadline_ms: float) -> Buffers:
        assert self._mechanism is not None
        # What else was asked while the broker was silent has been answered by now, or will not be.
        self.in_flight.clear()
        return self._start_login(self._mechanism, versions, deadline_ms)

    def _start_login(self, mechanism: ClientMechanism, versions: NodeVersions, deadline_ms: float) -> Buffers:
        served = {key: range(least, most + 1) for key, (least, most) in versions.ranges.items()}
        self._login = SaslClientAuthenticator(mechanism, self.client_id, served)
        self._login_deadline_ms = deadline_ms
        self._before_login = len(self.in_flight)
        self.login_is_next = self._before_login == 0
        return self._login.begin()

    def log_in_again(self, mechanism: ClientMechanism, deadline_ms: float) -> Buffers:
        """Begin another login on a connection in use (KIP-368); returns what to write.

        Until `continue_handshake` has returned None nothing else may be written: what is asked meanwhile has
        to wait.
        """
        assert self.versions is not None and self._login is None
        return self._start_login(mechanism, self.versions, deadline_ms)

    @property
    def is_logging_in(self) -> bool:
        """Return whether a login is under way."""
        return self._login is not None

    def _go_on_with_login(self, login: SaslClientAuthenticator, frame: Any) -> Buffers | Work | None:
        try:
            step = login.take(frame)
        except KafkaError as error:
            raise self._login_failed(error) from error
        return step if isinstance(step, Work) else self.worked_off(step)

    def work_off(self, work: Work) -> Buffers:
        """Do what may take its time, in whatever thread.

        Raises:
            KafkaError: as `continue_handshake`.
        """
        try:
            return work.run()
        except KafkaError as error:
            raise self._login_failed(error) from error

    def worked_off(self, buffers: Buffers) -> Buffers | None:
        """Take what came of `work_off`; returns as `continue_handshake`."""
        login = self._login
        assert login is not None
        if not login.is_complete:
            return buffers
        self.session_lifetime_ms = login.session_lifetime_ms
        self._login = self._login_deadline_ms = None
        self.login_is_next = False
        if self.versions is None:
            self.versions = self._found
        return None

    def _login_failed(self, error: KafkaError) -> SaslAuthenticationError:
        return SaslAuthenticationError(f"{self._address}: {error.message or error}")

    def _ask_heartbeat(self, deadline_ms: float) -> Buffers:
        from odradek.wire.messages.heartbeat import HeartbeatRequest

        return self.request(HeartbeatRequest(group_id="", generation_id=-1), 0, None, deadline_ms)

    def _ask_no_offsets(self, deadline_ms: float) -> Buffers:
        from odradek.wire.messages.list_offsets import ListOffsetsRequest

        return self.request(ListOffsetsRequest(replica_id=-1, topics=[]), 0, None, deadline_ms)

    def _ask_groups(self, deadline_ms: float) -> Buffers:
        from odradek.wire.messages.list_groups import ListGroupsRequest

        return self.request(ListGroupsRequest(), 0, None, deadline_ms)

    def _ask_versions(self, version: int, deadline_ms: float) -> Buffers:
        from odradek.wire.messages.api_versions import ApiVersionsRequest

        name, number = SOFTWARE
        request = ApiVersionsRequest()
        if version >= 3:
            request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        return self.request(request, version, None, deadline_ms)


def pick_version(
    state: ConnectionState, key: ApiKey, at_most: int | None = None, at_least: int | None = None
) -> int:
    """`NodeVersions.pick` on a connection whose handshake is done."""
    assert state.versions is not None, "no request before the handshake"
    return state.versions.pick(key, at_most, at_least)
