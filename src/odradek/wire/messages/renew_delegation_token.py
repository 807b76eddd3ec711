"""RenewDelegationToken: let a token live longer (KIP-48)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import blob, int16, int32, int64
from odradek.wire.message import Message, request, response


@request(ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    """The token's secret."""

    hmac: bytes = blob()
    renew_period_ms: int = int64()


@response(ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    """The time at which it expires now."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
