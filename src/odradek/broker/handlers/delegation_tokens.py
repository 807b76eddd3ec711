"""CreateDelegationToken and DescribeDelegationToken 0-3, RenewDelegationToken and ExpireDelegationToken 0-2.

Tokens are for those who have proved who they are: on a PLAINTEXT connection every one of these requests gets
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, before anything else is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.registry import handler
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

_NOT_ALLOWED = int(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
_NO_TIMESTAMP = -1
_OWNERS_FROM = 3


@handler(ApiKey.CREATE_DELEGATION_TOKEN, versions=range(4))
def create(context: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Refuse; the answer names who would have owned the token, and who asked for it."""
    requester_type, _, requester = context.principal.partition(":")
    owner_type, owner = requester_type, requester
    if request.owner_principal_name:
        owner_type, owner = request.owner_principal_type or "", request.owner_principal_name
    response = CreateDelegationTokenResponse(
        error_code=_NOT_ALLOWED,
        principal_type=owner_type,
        principal_name=owner,
        issue_timestamp_ms=_NO_TIMESTAMP,
        expiry_timestamp_ms=_NO_TIMESTAMP,
        max_timestamp_ms=_NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )
    if context.api_version >= _OWNERS_FROM:
        response.token_requester_principal_type = requester_type
        response.token_requester_principal_name = requester
    return response


@handler(ApiKey.RENEW_DELEGATION_TOKEN, versions=range(3))
def renew(context: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Refuse."""
    return RenewDelegationTokenResponse(error_code=_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP)


@handler(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=range(3))
def expire(context: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Refuse."""
    return ExpireDelegationTokenResponse(error_code=_NOT_ALLOWED, expiry_timestamp_ms=_NO_TIMESTAMP)


@handler(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=range(4))
def describe(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refuse."""
    return DescribeDelegationTokenResponse(error_code=_NOT_ALLOWED, tokens=[])
