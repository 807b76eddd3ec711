"""SaslHandshake: choose a SASL mechanism.

After version 0 the mechanism's bytes follow bare on the connection; after 1 in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, string
from odradek.wire.message import Message, request, response


@request(ApiKey.SASL_HANDSHAKE, versions="0-1")
class SaslHandshakeRequest(Message):
    """The mechanism that the client wants."""

    mechanism: str = string()


@response(ApiKey.SASL_HANDSHAKE, versions="0-1")
class SaslHandshakeResponse(Message):
    """The mechanisms that the broker offers."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
