"""SaslAuthenticate: carry one step of a SASL exchange (KIP-152).

Version 1 limits the session's life (KIP-368).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import blob, int16, int64, string
from odradek.wire.message import Message, request, response


@request(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    """The client's step."""

    auth_bytes: bytes = blob()


@response(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """The broker's step."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64("1+", ignorable=True)
