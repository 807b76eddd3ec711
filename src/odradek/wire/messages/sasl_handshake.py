"""SaslHandshake"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, string
from odradek.wire.message import Message, request, response


@request(ApiKey.SASL_HANDSHAKE, versions="0-1")
class SaslHandshakeRequest(Message):
    """SaslHandshakeRequest."""

    mechanism: str = string()


@response(ApiKey.SASL_HANDSHAKE, versions="0-1")
class SaslHandshakeResponse(Message):
    """SaslHandshakeResponse."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
