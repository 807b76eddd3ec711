"""The broker's half of a login on one connection, as Kafka's `SaslServerAuthenticator` has it, without I/O.

    INITIAL        ApiVersions or SaslHandshake
    VERSIONS_TOLD  SaslHandshake
    AUTHENTICATE   SaslAuthenticate, or bare frames behind a SaslHandshake 0 (Kafka 0.10's way)
    COMPLETE       nothing: somebody is logged in
    FAILED         nothing: the connection ends

Anything else raises `ProtocolError`, by which the connection ends without an answer. ApiVersions itself is
answered by the broker's handler, which the caller asks.

Of what went wrong the peer learns what Kafka tells: a mechanism that is not there by name, a refused login in
words that do not say whether the user exists. `failure` is for the log.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from odradek.broker.requests.login_gate import Login
from odradek.broker.sasl.settings import ListenerSasl
from odradek.errors import ErrorCode, ProtocolError
from odradek.sasl.mechanisms import SaslError, SaslRefusal, ServerMechanism
from odradek.util.clock import Clock
from odradek.wire.api import ApiKey
from odradek.wire.headers import MOST_UNKNOWN_TAGS, RequestHeader, decode_request_header, encode_response
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Buffers = list[Any]

_SIZE = struct.Struct(">i")
_HANDSHAKES = SaslHandshakeRequest.VERSIONS
_AUTHENTICATES = SaslAuthenticateRequest.VERSIONS


class State(Enum):
    """See the module."""

    INITIAL = auto()
    VERSIONS_TOLD = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    FAILED = auto()


class Evaluation(NamedTuple):
    """A step of a mechanism that is to be made: `mechanism.evaluate(token)`, then `Authenticator.evaluated`.

    Attributes:
        mechanism: whose step it is.
        token: what the client has sent.
        header: of its request; None for a bare frame.
    """

    mechanism: ServerMechanism
    token: bytes
    header: RequestHeader | None


class Authenticator:
    """See the module.

    Attributes:
        state: where it stands.
        login: who is logged in, once it is complete.
        failure: why nobody is, for the log; it holds no secret.
        mechanism: the name of the one that is used; empty before the handshake.

    Args:
        settings: the listener's.
        clock: for what expires.
        before: who was logged in, when this is another login on the same connection (KIP-368).
    """

    def __init__(self, settings: ListenerSasl, clock: Clock, before: Login | None = None) -> None:
        self.state = State.INITIAL
        self.login: Login | None = None
        self.failure = ""
        self.mechanism = ""
        self._settings = settings
        self._clock = clock
        self._before = before
        self._server: ServerMechanism | None = None
        """The exchange; there is one from AUTHENTICATE on."""
        self._bare = False
        """Whether tokens come as bare frames: a SaslHandshake 0 was before them (KIP-152 wraps them)."""

    def wants_api_versions(self, key: int) -> bool:
        """Return whether a request of that key is one that the broker's handler may answer now."""
        return self.state is State.INITIAL and key == ApiKey.API_VERSIONS

    def versions_told(self) -> None:
        """ApiVersions was answered, and not with an error."""
        self.state = State.VERSIONS_TOLD

    def take(self, frame: Any) -> Buffers | Evaluation:
        """Take a frame; returns the answer, or the step that makes it.

        Raises:
            ProtocolError: it does not belong here.
        """
        if self.state is State.AUTHENTICATE:
            return self._take_token(frame)
        if self.state not in (State.INITIAL, State.VERSIONS_TOLD):
            raise ProtocolError("a frame behind the end of the login")
        try:
            header, body = decode_request_header(frame)
        except ProtocolError:
            # Kafka 4.0's words: it takes no bare GSSAPI tokens any more, with which 0.9's clients begin
            # (KIP-896).
            raise ProtocolError(
                "Invalid request, potential reasons: kafka client configured with the wrong security "
                "protocol, it does not support KIP-43 or it is not a kafka client."
            ) from None
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            raise ProtocolError(f"Unexpected Kafka request of type {_name(header)} during SASL handshake.")
        if header.api_version not in _HANDSHAKES:
            raise ProtocolError(f"version {header.api_version} of SaslHandshake is not supported")
        request, _ = SaslHandshakeRequest.decode_received(frame, header.api_version, body, MOST_UNKNOWN_TAGS)
        version = header.api_version
        answer = self.shake_hands(version, request)
        return encode_response(ApiKey.SASL_HANDSHAKE, version, header.correlation_id, answer)

    def shake_hands(self, version: int, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Take the client's choice of a mechanism; returns the answer."""
        enabled = list(self._settings.mechanisms)
        make = self._settings.mechanisms.get(request.mechanism)
        if make is None:
            # What it asked for is any text: the log has enough with what is enabled.
            self._fail(f"Unsupported SASL mechanism; enabled are {', '.join(enabled)}")
            return SaslHandshakeResponse(
                error_code=int(ErrorCode.UNSUPPORTED_SASL_MECHANISM), mechanisms=enabled
            )
        self._server = make()
        self.mechanism = request.mechanism
        self._bare = version == 0
        self.state = State.AUTHENTICATE
        return SaslHandshakeResponse(error_code=0, mechanisms=enabled)

    def _take_token(self, frame: Any) -> Buffers | Evaluation:
        server = self._server
        assert server is not None
        if self._bare:
            return self._checked(server, bytes(frame), None)
        header, body = decode_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            raise ProtocolError(
                f"Unexpected Kafka request of type {_name(header)} during SASL authentication."
            )
        if header.api_version not in _AUTHENTICATES:
            raise ProtocolError(f"Version {header.api_version} is not supported for apiKey SASL_AUTHENTICATE")
        request, _ = SaslAuthenticateRequest.decode_received(
            frame, header.api_version, body, MOST_UNKNOWN_TAGS
        )
        return self._checked(server, bytes(request.auth_bytes), header)

    def _checked(
        self, server: ServerMechanism, token: bytes, header: RequestHeader | None
    ) -> Buffers | Evaluation:
        before = self._before
        if before is not None and before.mechanism != self.mechanism:
            return self._refuse(
                header,
                f"SASL mechanism '{self.mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{before.mechanism}'",
            )
        return Evaluation(server, token, header)

    def evaluated(self, step: Evaluation, outcome: bytes | Exception) -> Buffers:
        """Take what the mechanism has made of the client's message; returns the answer.

        Args:
            step: as `take` gave it.
            outcome: what `evaluate` returned, or raised.
        """
        server, before = step.mechanism, self._before
        if isinstance(outcome, SaslRefusal):
            why = getattr(server, "why", "")
            return self._refuse(step.header, str(outcome), why or str(outcome))
        if isinstance(outcome, Exception):
            stage = "authentication" if before is None else "re-authentication"
            message = f"Authentication failed during {stage} due to invalid credentials with SASL mechanism "
            # Whatever is unforeseen is told as a type only: its text may be what the client has sent.
            why = str(outcome) if isinstance(outcome, SaslError) else type(outcome).__name__
            return self._refuse(step.header, message + self.mechanism, why)
        if not server.is_complete:
            return self._answer(step.header, outcome, 0)
        if before is not None and before.user != server.user:
            return self._refuse(
                step.header,
                f"Cannot change principals during re-authentication from User.{before.user}: "
                f"User.{server.user}",
            )
        lifetime_ms = self._lifetime_ms(server)
        self.login = Login(server.user, self.mechanism, server.is_token, lifetime_ms)
        self.state = State.COMPLETE
        return self._answer(step.header, outcome, lifetime_ms or 0)

    def _lifetime_ms(self, server: ServerMechanism) -> int | None:
        bounds = []
        reauth_ms = self._settings.reauth_ms.get(self.mechanism, 0)
        if reauth_ms > 0:
            bounds.append(reauth_ms)
        if server.expires_at_ms is not None:
            bounds.append(server.expires_at_ms - self._clock.now_ms())
        return max(0, min(bounds)) if bounds else None

    def _answer(self, header: RequestHeader | None, token: bytes, lifetime_ms: int) -> Buffers:
        if header is None:
            return [_SIZE.pack(len(token)), token]
        answer = SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
        )
        return encode_response(ApiKey.SASL_AUTHENTICATE, header.api_version, header.correlation_id, answer)

    def _refuse(self, header: RequestHeader | None, message: str, why: str = "") -> Buffers:
        """Fail; the answer says `message`, the log `why`. To bare frames there is no answer."""
        self._fail(why or message)
        if header is None:
            return []
        answer = SaslAuthenticateResponse(
            error_code=int(ErrorCode.SASL_AUTHENTICATION_FAILED), error_message=message, auth_bytes=b""
        )
        return encode_response(ApiKey.SASL_AUTHENTICATE, header.api_version, header.correlation_id, answer)

    def _fail(self, why: str) -> None:
        self.state = State.FAILED
        self.failure = why


def _name(header: RequestHeader) -> str:
    names: Mapping[int, str] = {int(key): key.name for key in ApiKey}
    return names.get(header.api_key, str(header.api_key))
