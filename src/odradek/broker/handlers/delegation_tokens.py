"""CreateDelegationToken and DescribeDelegationToken 0-3, RenewDelegationToken and ExpireDelegationToken 0-2.

- Tokens are for those who have proved who they are otherwise: who has not, or has by a token, gets
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED before anything else is looked at.
- Without `delegation.token.secret.key` there are none: DELEGATION_TOKEN_AUTH_DISABLED.
- Create, for somebody else (KIP-373): DELEGATION_TOKEN_AUTHORIZATION_FAILED; a renewer that is no user:
  INVALID_PRINCIPAL_TYPE.
- Renew, Expire: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
- Describe hides the tokens of others from who may not see them.
- KAFKA_STORAGE_ERROR where the metadata store cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.requests.authorization import Operation, delegation_token, user
from odradek.broker.requests.peer import ANONYMOUS
from odradek.cluster.store.store import StoreError
from odradek.errors import KafkaError, KafkaStorageError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
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
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.sasl.token_keeper import TokenKeeper
    from odradek.cluster.access.delegation_tokens import TokenInformation

T = TypeVar("T")

_NO_TIMESTAMP = -1
_OWNERS_FROM = 3
_USER_TYPE = "User"
_BETWEEN_PAUSES = 256


@handler(ApiKey.CREATE_DELEGATION_TOKEN, versions=range(4))
def create(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> Steps[CreateDelegationTokenResponse]:
    """Make a token; the answer names who owns it, and who asked for it."""
    requester = owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    try:
        keeper = _keeper(context)
        if owner != requester and not context.authorize(Operation.CREATE_TOKENS, user(owner)):
            raise _Refused(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != _USER_TYPE for renewer in request.renewers):
            raise _Refused(ErrorCode.INVALID_PRINCIPAL_TYPE)
        if keeper is None:
            raise _Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
        token, secret = yield from _in_turn(
            context, lambda: keeper.create(owner, requester, renewers, request.max_lifetime_ms)
        )
    except (KafkaError, _Refused) as error:
        return _created(context, owner, requester, int(error.code))
    response = _created(context, owner, requester, 0)
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.token_id
    response.hmac = secret
    return response


def _created(
    context: RequestContext, owner: str, requester: str, error_code: int
) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    response = CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=_NO_TIMESTAMP,
        expiry_timestamp_ms=_NO_TIMESTAMP,
        max_timestamp_ms=_NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )
    if context.api_version >= _OWNERS_FROM:
        kind, _, name = requester.partition(":")
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


@handler(ApiKey.RENEW_DELEGATION_TOKEN, versions=range(3))
def renew(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> Steps[RenewDelegationTokenResponse]:
    """Put a token's end off."""
    secret, principal = bytes(request.hmac), context.principal
    error, expires_ms = yield from _change(
        context, lambda keeper: keeper.renew(principal, secret, request.renew_period_ms)
    )
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)


@handler(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=range(3))
def expire(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> Steps[ExpireDelegationTokenResponse]:
    """End a token, at once or later."""
    secret, principal = bytes(request.hmac), context.principal
    error, expires_ms = yield from _change(
        context, lambda keeper: keeper.expire(principal, secret, request.expiry_time_period_ms)
    )
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_ms)


@handler(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=range(4))
def describe(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> Steps[DescribeDelegationTokenResponse]:
    """List the tokens of the owners, or all, as far as the principal may see them."""
    try:
        keeper = _keeper(context)
        if keeper is None:
            raise _Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    except _Refused as error:
        return DescribeDelegationTokenResponse(error_code=int(error.code), tokens=[])
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    tokens: list[DescribedDelegationToken] = []
    for count, (token, secret) in enumerate(keeper.all(), 1):
        if _may_see(context, token, owners):
            tokens.append(_described(context, token, secret))
        if count % _BETWEEN_PAUSES == 0:
            yield
    return DescribeDelegationTokenResponse(tokens=tokens)


def _may_see(context: RequestContext, token: TokenInformation, owners: set[str] | None) -> bool:
    if owners is not None and not any(token.may_be_renewed_by(owner) for owner in owners):
        return False
    return (
        token.may_be_renewed_by(context.principal)
        or context.authorize(Operation.DESCRIBE, delegation_token(token.token_id))
        or context.authorize(Operation.DESCRIBE_TOKENS, user(token.owner))
    )


def _described(context: RequestContext, token: TokenInformation, secret: bytes) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
    if context.api_version >= _OWNERS_FROM:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type = kind
        described.token_requester_principal_name = name
    return described


class _Refused(Exception):
    """Nothing is done, for this reason."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code


def _keeper(context: RequestContext) -> TokenKeeper | None:
    """The tokens; None where there are none.

    Raises:
        _Refused: the connection may not ask for any.
    """
    gate = context.peer.sasl
    login = None if gate is None else gate.login
    if context.principal == ANONYMOUS or (login is not None and login.is_token):
        raise _Refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return context.broker.delegation_tokens


def _change(context: RequestContext, change: Callable[[TokenKeeper], int]) -> Steps[tuple[int, int]]:
    """Do something to a token; the error, and when it ends."""
    try:
        keeper = _keeper(context)
        if keeper is None:
            raise _Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        expires_ms = yield from _in_turn(context, lambda: change(keeper))
    except (KafkaError, _Refused) as error:
        return int(error.code), _NO_TIMESTAMP
    return 0, expires_ms


def _in_turn(context: RequestContext, work: Callable[[], T]) -> Steps[T]:
    """Run work in the controller's turn, which waits for the disk, and wait for it."""
    try:
        result: T = yield from wait(context.broker.controller.event_queue.run(work))
    except StoreError as error:
        raise KafkaStorageError(str(error)) from error
    return result
