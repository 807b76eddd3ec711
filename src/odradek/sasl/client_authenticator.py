"""The client's half of a login on one connection: SaslHandshake, then the mechanism's messages.

Against Kafka 1.0 and later these travel in SaslAuthenticate (KIP-152); 0.10 takes them as bare frames behind
a SaslHandshake 0. The order is strict, and each message waits for its answer, so nothing else may be written
in between.

`begin` and `take` return what is to be written. Steps that hash a password or fetch a token are not done in
them: they return `Work`, which the caller does where waiting is allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from odradek.errors import (
    ErrorCode,
    IllegalSaslStateError,
    ProtocolError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
    error_for,
)
from odradek.sasl.mechanisms import ClientMechanism, SaslError
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

Buffers = list[Any]

_SIZE = struct.Struct(">i")
RENEW_AT = 0.85
"""The share of a login's life after which another one is begun, where the broker bounds it (KIP-368)."""

_NEWEST_HANDSHAKE, _NEWEST_AUTHENTICATE = 1, 2


class Work:
    """A step that may take its time; `run` does it, in whatever thread, and returns what is to be written.

    `run` raises what `SaslClientAuthenticator.take` does.
    """

    __slots__ = ("_authenticator", "_challenge")

    def __init__(self, authenticator: SaslClientAuthenticator, challenge: bytes) -> None:
        self._authenticator = authenticator
        self._challenge = challenge

    def run(self) -> Buffers:
        """Do it."""
        return self._authenticator.evaluate(self._challenge)


class SaslClientAuthenticator:
    """See the module.

    Attributes:
        is_complete: whether the broker has let us in.
        session_lifetime_ms: how long, in milliseconds from the last answer; 0 for as long as we like
            (KIP-368).

    Args:
        mechanism: a new one.
        client_id: goes into the headers.
        versions: what the broker serves, by API key.
    """

    def __init__(
        self, mechanism: ClientMechanism, client_id: str | None, versions: Mapping[int, range]
    ) -> None:
        self.is_complete = False
        self.session_lifetime_ms = 0
        self._mechanism = mechanism
        self._client_id = client_id
        handshake = versions.get(ApiKey.SASL_HANDSHAKE, range(1))
        authenticate = versions.get(ApiKey.SASL_AUTHENTICATE, range(1))
        self._handshake_version = min(_NEWEST_HANDSHAKE, handshake[-1])
        self._authenticate_version = min(_NEWEST_AUTHENTICATE, authenticate[-1])
        self._shook_hands = False
        self._correlation_id = 0

    def begin(self) -> Buffers:
        """The first request."""
        request = SaslHandshakeRequest(mechanism=self._mechanism.name)
        return self._request(self._handshake_version, request)

    def take(self, frame: Any) -> Buffers | Work:
        """Take an answer; returns what to write, nothing when the login is complete.

        Raises:
            SaslAuthenticationError: the broker does not let us in, or is a false one.
            UnsupportedSaslMechanismError, IllegalSaslStateError: it does not do this mechanism, or no SASL.
            ProtocolError: it sent something else.
        """
        if not self._shook_hands:
            self._take_handshake(frame)
            challenge = b""
        elif self._handshake_version == 0:
            challenge = bytes(frame)
        else:
            challenge = self._take_authenticate(frame)
        if self._mechanism.blocks:
            return Work(self, challenge)
        return self.evaluate(challenge)

    def evaluate(self, challenge: bytes) -> Buffers:
        """Take the mechanism's next step; see `take`."""
        mechanism = self._mechanism
        if not (mechanism.is_complete and not challenge):
            try:
                token = mechanism.evaluate(challenge)
            except SaslError as error:
                raise SaslAuthenticationError(str(error)) from error
            if token is not None:
                if self._handshake_version == 0:
                    return [_SIZE.pack(len(token)), token]
                return self._request(self._authenticate_version, SaslAuthenticateRequest(auth_bytes=token))
        if not mechanism.is_complete:
            raise SaslAuthenticationError("the broker's messages ended before it had proved who it is")
        self.is_complete = True
        return []

    def _take_handshake(self, frame: Any) -> None:
        answer = self._decode(frame, ApiKey.SASL_HANDSHAKE, self._handshake_version)
        self._shook_hands = True
        error, name, enabled = answer.error_code, self._mechanism.name, ", ".join(answer.mechanisms)
        if error == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise UnsupportedSaslMechanismError(
                f"Client SASL mechanism '{name}' not enabled in the server, enabled mechanisms are "
                f"[{enabled}]"
            )
        if error == ErrorCode.ILLEGAL_SASL_STATE:
            raise IllegalSaslStateError(
                f"Unexpected handshake request with client mechanism {name}, enabled mechanisms are "
                f"[{enabled}]: the listener asks for no SASL, or for TLS"
            )
        if error:
            raise error_for(error, f"SaslHandshake for {name} failed with error {error}")

    def _take_authenticate(self, frame: Any) -> bytes:
        answer = self._decode(frame, ApiKey.SASL_AUTHENTICATE, self._authenticate_version)
        if answer.error_code:
            raise error_for(answer.error_code, answer.error_message)
        self.session_lifetime_ms = answer.session_lifetime_ms
        return bytes(answer.auth_bytes)

    def _decode(self, frame: Any, key: ApiKey, version: int) -> Any:
        correlation_id, answer = decode_response(frame, key, version)
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"response {correlation_id} came where {self._correlation_id} was awaited")
        return answer

    def _request(self, version: int, request: Any) -> Buffers:
        self._correlation_id += 1
        return encode_request(request.API_KEY, version, self._correlation_id, self._client_id, request)
