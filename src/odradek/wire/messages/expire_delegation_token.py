"""ExpireDelegationToken: let a token end sooner (KIP-48)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import blob, int16, int32, int64
from odradek.wire.message import Message, request, response


@request(ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    """The token's secret."""

    hmac: bytes = blob()
    expiry_time_period_ms: int = int64()


@response(ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    """The time at which it expires now."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
