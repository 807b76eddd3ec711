"""SaslHandshake 0-1, SaslAuthenticate 0-2 on a connection on which requests are answered.

- At a listener without SASL: ILLEGAL_SASL_STATE. The connection stays usable, as in Kafka.
- Where somebody is logged in for a bounded time, SaslHandshake begins another login (KIP-368); what follows
  goes through the connection's gate (`odradek.broker.sasl.gate`). Where the login does not run out, or the
  last one began less than a second ago: ILLEGAL_SASL_STATE.

The first login of a connection does not come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.errors import IllegalSaslStateError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.SASL_HANDSHAKE, versions=range(2))
def handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin another login, or refuse and name no mechanisms."""
    gate = context.peer.sasl
    if gate is not None:
        try:
            answer = gate.authenticate_again(context.api_version, request)
        except IllegalSaslStateError:
            pass
        else:
            context.close_connection = bool(answer.error_code)
            return answer
    return SaslHandshakeResponse(error_code=int(ErrorCode.ILLEGAL_SASL_STATE), mechanisms=[])


@handler(ApiKey.SASL_AUTHENTICATE, versions=range(3))
def authenticate(_context: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse."""
    return SaslAuthenticateResponse(
        error_code=int(ErrorCode.ILLEGAL_SASL_STATE),
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
