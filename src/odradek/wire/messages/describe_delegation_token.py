"""DescribeDelegationToken: tokens of some owners, or all (KIP-48)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, blob, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DescribeDelegationTokenOwner(Struct):
    """An element of `DescribeDelegationTokenRequest.owners`."""

    principal_type: str = string()
    principal_name: str = string()


@request(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    """The owners."""

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


@struct
class DescribedDelegationTokenRenewer(Struct):
    """An element of `DescribedDelegationToken.renewers`."""

    principal_type: str = string()
    principal_name: str = string()


@struct
class DescribedDelegationToken(Struct):
    """An element of `DescribeDelegationTokenResponse.tokens`."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@response(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    """Their tokens."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
