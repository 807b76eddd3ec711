"""One connection of a client to a broker: which frame is what, and what it says."""

from __future__ import annotations

from typing import NamedTuple

from odradek.errors import ErrorCode, OdradekError, ProtocolError
from odradek.testing.transcripts.frames import REQUEST, RESPONSE, TOKEN
from odradek.wire.api import ApiKey, response_header_version
from odradek.wire.headers import ResponseHeader, decode_request_header, encode_request, encode_response
from odradek.wire.message import Message
from odradek.wire.messages import request_class, response_class

_TOKENS = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""By mechanism, how many tokens of its own a client sends; of others it is not known."""
_HANDSHAKE = int(ApiKey.SASL_HANDSHAKE)


class Spoken(NamedTuple):
    """A frame that is understood, as far as it is.

    Attributes:
        direction, key, version, correlation, data, note: see `Frame`.
        client_id: of a request.
        message: what it says; None where no schema of ours has it.
    """

    direction: str
    key: int
    version: int
    correlation: int
    data: bytes
    note: str = ""
    client_id: str | None = None
    message: Message | None = None

    @property
    def answer_version(self) -> int:
        """The version of an answer: 0 where it says that ApiVersions is not known so new (KIP-511)."""
        error = int.from_bytes(self.data[4:6], "big")
        is_refusal = self.key == ApiKey.API_VERSIONS and error == ErrorCode.UNSUPPORTED_VERSION
        return 0 if is_refusal else self.version

    def saying(self, message: Message, client_id: str | None = None) -> bytes:
        """Return the bytes of the same frame with another message.

        Args:
            message: of the same API.
            client_id: of a request.
        """
        parts = (
            encode_request(self.key, self.version, self.correlation, client_id, message)
            if self.direction == REQUEST
            else encode_response(self.key, self.answer_version, self.correlation, message)
        )
        return b"".join(parts)[4:]


class Conversation:
    """Follows a connection; requests and responses are told to it in the order in which they come."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[int, int]] = {}
        """By correlation id, key and version of requests without an answer so far, in their order."""
        self._mechanism: str | None = None
        """That a SaslHandshake of version 0 has asked for: what follows are tokens without a header."""
        self._tokens: list[int | None] = [0, 0]
        """How many more come from the client, and from the broker; None where it is not known."""

    def request(self, data: bytes) -> Spoken:
        """Return what the client says."""
        if self._is_token(data, 0):
            return Spoken(REQUEST, TOKEN, 0, 0, data)
        key, version, correlation = _head(data)
        spoken = Spoken(REQUEST, key, version, correlation, data)
        self._asked[correlation] = key, version
        try:
            header, _ = decode_request_header(data)
            spoken = spoken._replace(client_id=header.client_id)
            message = message_of(spoken)
        except (OdradekError, ValueError, LookupError) as error:
            return spoken._replace(note=f"not understood: {error}")
        if key == _HANDSHAKE and version == 0:
            self._mechanism = str(getattr(message, "mechanism", ""))
        return spoken._replace(message=message)

    def response(self, data: bytes) -> Spoken:
        """Return what the broker says."""
        if self._is_token(data, 1):
            return Spoken(RESPONSE, TOKEN, 0, 0, data)
        correlation = int.from_bytes(data[:4], "big", signed=True)
        if len(data) < 4 or correlation not in self._asked:
            return Spoken(RESPONSE, TOKEN, 0, correlation, data, "it answers nothing that was asked")
        key, version = self._asked[correlation]
        # Answers come in the order of requests: who was asked before has no answer, as Produce with acks=0.
        for earlier in list(self._asked):
            del self._asked[earlier]
            if earlier == correlation:
                break
        spoken = Spoken(RESPONSE, key, version, correlation, data)
        try:
            message = message_of(spoken)
        except (OdradekError, ValueError, LookupError) as error:
            return spoken._replace(note=f"not understood: {error}")
        if key == _HANDSHAKE and self._mechanism is not None and not getattr(message, "error_code", 1):
            tokens = _TOKENS.get(self._mechanism)
            self._tokens = [tokens, tokens]
        return spoken._replace(message=message)

    def _is_token(self, data: bytes, side: int) -> bool:
        left = self._tokens[side]
        if left is None:
            # Of GSSAPI nobody knows how many there are; they begin with no key of an API.
            key, version, _ = _head(data)
            if side or key not in set(ApiKey) or version not in request_class(key).VERSIONS:
                return True
            self._tokens = [0, 0]
            return False
        if left:
            self._tokens[side] = left - 1
        return left > 0


def message_of(spoken: Spoken) -> Message:
    """Return what a frame says, decoded anew, with the tagged fields that nobody here knows.

    Raises:
        OdradekError, ValueError, LookupError: no schema of ours has it.
    """
    key, version, data = spoken.key, spoken.version, spoken.data
    cls: type[Message]
    if spoken.direction == REQUEST:
        cls, (_, start) = request_class(key), decode_request_header(data)
    else:
        cls, version = response_class(key), spoken.answer_version
        _, start = ResponseHeader.decode_from(data, response_header_version(key, version))
    message, end = cls.decode_from(data, version, start)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes are left over")
    return message


def _head(data: bytes) -> tuple[int, int, int]:
    return (
        int.from_bytes(data[0:2], "big", signed=True),
        int.from_bytes(data[2:4], "big", signed=True),
        int.from_bytes(data[4:8], "big", signed=True),
    )
