"""SaslAuthenticate"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import blob, int16, int64, string
from odradek.wire.message import Message, request, response


@request(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    """SaslAuthenticateRequest."""

    auth_bytes: bytes = blob()


@response(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """SaslAuthenticateResponse."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64("1+", ignorable=True)
