"""SaslHandshake 0-1, SaslAuthenticate 0-2 on a connection that needs no authentication: ILLEGAL_SASL_STATE.

Whoever speaks SASL to a PLAINTEXT listener has the wrong listener; the connection stays usable, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.registry import handler
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext


@handler(ApiKey.SASL_HANDSHAKE, versions=range(2))
def handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse, and name no mechanisms."""
    return SaslHandshakeResponse(error_code=int(ErrorCode.ILLEGAL_SASL_STATE), mechanisms=[])


@handler(ApiKey.SASL_AUTHENTICATE, versions=range(3))
def authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse."""
    return SaslAuthenticateResponse(
        error_code=int(ErrorCode.ILLEGAL_SASL_STATE),
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
