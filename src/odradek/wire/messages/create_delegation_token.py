"""CreateDelegationToken: get a token for a principal (KIP-48)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, blob, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class CreatableRenewers(Struct):
    """An element of `CreateDelegationTokenRequest.renewers`."""

    principal_type: str = string()
    principal_name: str = string()


@request(ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    """Renewers and lifetime; from version 3 on, for whom (KIP-373)."""

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@response(ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    """The token and its secret."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    throttle_time_ms: int = int32()
