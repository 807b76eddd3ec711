"""Delegation tokens (KIP-48), as the administrator has them made, renewed and ended."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.aio.admin_base import AdminBase, check
from odradek.client.arguments import names_of
from odradek.client.errors import IllegalArgumentError, UnsupportedByBrokerError
from odradek.client.types import DelegationToken
from odradek.wire.api import ApiKey

_OWNERS_FROM = 3


class TokenAdmin(AdminBase):
    """The calls about delegation tokens; a client that has logged in by one may make none of them."""

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a token to log in with by SCRAM: its id is the name, its HMAC the password.

        Args:
            owner: as whom, such as 'User:alice'; oneself if None (KIP-373).
            renewers: who may put its end off, beside the owner.
            max_lifetime_ms: after how long it ends for good; what the brokers say if negative.

        Raises:
            KafkaError: `DelegationTokenDisabledError`, `DelegationTokenAuthorizationError` and the like, from
                the broker.
        """
        from odradek.wire.messages import create_delegation_token as messages

        request = messages.CreateDelegationTokenRequest(max_lifetime_ms=max_lifetime_ms, renewers=[])
        for renewer in names_of(renewers, "renewers"):
            kind, name = _principal(renewer)
            request.renewers.append(messages.CreatableRenewers(principal_type=kind, principal_name=name))
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = _principal(owner)

        def message(version: int) -> messages.CreateDelegationTokenRequest:
            if owner is not None and version < _OWNERS_FROM:
                raise UnsupportedByBrokerError("tokens of others are made from Kafka 3.3 on (KIP-373)")
            return request

        response = await self._any("a delegation token", message, ApiKey.CREATE_DELEGATION_TOKEN)
        check(response.error_code, "a delegation token")
        token_owner = f"{response.principal_type}:{response.principal_name}"
        requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
        return DelegationToken(
            token_id=response.token_id,
            hmac=bytes(response.hmac),
            owner=token_owner,
            requester=requester if requester != ":" else token_owner,
            renewers=tuple(
                f"{renewer_data.principal_type}:{renewer_data.principal_name}"
                for renewer_data in request.renewers
            ),
            issue_timestamp_ms=response.issue_timestamp_ms,
            expiry_timestamp_ms=response.expiry_timestamp_ms,
            max_timestamp_ms=response.max_timestamp_ms,
        )

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Put a token's end off; returns the new one, in epoch milliseconds.

        Args:
            hmac: the token's.
            period_ms: until when, from now on; what the brokers say if negative.
        """
        from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response = await self._any("a delegation token", lambda _: request, ApiKey.RENEW_DELEGATION_TOKEN)
        check(response.error_code, "a delegation token")
        return int(response.expiry_timestamp_ms)

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Let a token end after `period_ms`, at once if that is negative; returns when.

        Args:
            hmac: the token's.
            period_ms: milliseconds from now on.
        """
        from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest

        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = await self._any("a delegation token", lambda _: request, ApiKey.EXPIRE_DELEGATION_TOKEN)
        check(response.error_code, "a delegation token")
        return int(response.expiry_timestamp_ms)

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens that some principals own or may renew (None: of all), as far as one may see them.

        Args:
            owners: principals, such as 'User:alice'.
        """
        from odradek.wire.messages import describe_delegation_token as messages

        request = messages.DescribeDelegationTokenRequest(owners=None)
        if owners is not None:
            request.owners = [
                messages.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, names_of(owners, "owners"))
            ]
        response = await self._any("delegation tokens", lambda _: request, ApiKey.DESCRIBE_DELEGATION_TOKEN)
        check(response.error_code, "delegation tokens")
        tokens = []
        for token in response.tokens:
            owner = f"{token.principal_type}:{token.principal_name}"
            requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
            tokens.append(
                DelegationToken(
                    token_id=token.token_id,
                    hmac=bytes(token.hmac),
                    owner=owner,
                    requester=requester if requester != ":" else owner,
                    renewers=tuple(f"{by.principal_type}:{by.principal_name}" for by in token.renewers),
                    issue_timestamp_ms=token.issue_timestamp,
                    expiry_timestamp_ms=token.expiry_timestamp,
                    max_timestamp_ms=token.max_timestamp,
                )
            )
        return tokens


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise IllegalArgumentError(f"{text!r} is no principal: 'User:alice' is one")
    return kind, name
