"""Quotas of clients and SCRAM credentials of users, as the administrator sees them."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from types import EllipsisType
from typing import Any

from odradek.client.aio.admin_base import AdminBase, check, not_controller, problems_in, raise_first
from odradek.client.arguments import names_of
from odradek.client.errors import IllegalArgumentError
from odradek.errors import KafkaError
from odradek.wire.api import ApiKey

#: A user, a client id, both, or an address: (type, name) pairs; a name of None stands for the default.
QuotaEntity = tuple[tuple[str, str | None], ...]

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_NAMES = {number: name for name, (number, _) in MECHANISMS.items()}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


class AccessAdmin(AdminBase):
    """The calls about what clients may use, and who they are."""

    async def describe_client_quotas(
        self, components: Mapping[str, str | EllipsisType | None] | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of users ('user'), client ids ('client-id') and addresses ('ip').

        Args:
            components: what an entity has to have: type → its name, None for the default, `...` for
                any; nothing for all entities.
            strict: whether it may have nothing else.

        Returns: entity, its parts in the order of their types → quota → value.
        """
        from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

        filter_components: list[ComponentData] = []
        for kind, name in (components or {}).items():
            if name is ...:
                filter_components.append(ComponentData(entity_type=kind, match_type=_ANY, match=None))
            elif name is None:
                filter_components.append(ComponentData(entity_type=kind, match_type=_DEFAULT, match=None))
            else:
                filter_components.append(ComponentData(entity_type=kind, match_type=_EXACT, match=str(name)))
        request = DescribeClientQuotasRequest(components=filter_components, strict=strict)
        response = await self._any("quotas", lambda _: request, ApiKey.DESCRIBE_CLIENT_QUOTAS)
        check(response.error_code, "quotas", response.error_message)
        return {
            _entity({component.entity_type: component.entity_name for component in entry.entity}): {
                quota.key: quota.value for quota in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of entities, such as `(("user", "bob"),)`; None removes one.

        Args:
            quotas: entity → quota → value: bytes a second, per cent, requests a second (KIP-546, KIP-599).
            validate_only: only say whether they could be set.

        Raises:
            InvalidRequestError: a quota cannot be set.
        """
        from odradek.wire.messages import alter_client_quotas as messages

        request = messages.AlterClientQuotasRequest(
            entries=[
                messages.EntryData(
                    entity=[messages.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[
                        messages.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in values.items()
                    ],
                )
                for entity, values in quotas.items()
            ],
            validate_only=validate_only,
        )
        response = await self._controller("alter quotas", request, lambda r: not_controller(r.entries))
        answers = {
            _entity({component.entity_type: component.entity_name for component in entry.entity}): entry
            for entry in response.entries
        }
        raise_first(problems_in(answers, (_entity(dict(entity)) for entity in quotas)))

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """The SCRAM mechanisms of users (None: of all that have any), with their iterations.

        Raises:
            ResourceNotFoundError: a user has none.
        """
        from odradek.wire.messages.describe_user_scram_credentials import (
            DescribeUserScramCredentialsRequest,
            UserName,
        )

        user_names = None if users is None else names_of(users, "users")
        if user_names == []:
            return {}  # an empty list would ask for all
        names = None if user_names is None else [UserName(name=name) for name in user_names]
        request = DescribeUserScramCredentialsRequest(users=names)
        key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
        response = await self._any("SCRAM credentials", lambda _: request, key)
        check(response.error_code, "SCRAM credentials", response.error_message)
        raise_first(_problems_of_users(response.results, user_names or ()))
        return {
            result.user: {
                _NAMES.get(info.mechanism, str(info.mechanism)): info.iterations
                for info in result.credential_infos
            }
            for result in response.results
        }

    async def alter_user_scram_credentials(
        self,
        passwords: Mapping[tuple[str, str], str | None],
        *,
        iterations: int = 4096,
    ) -> None:
        """Give users passwords for SCRAM; None takes one away. The password stays here, its hash is sent.

        Args:
            passwords: (user, 'SCRAM-SHA-256' or 'SCRAM-SHA-512') → password.
            iterations: 4096 to 16384; more are harder to guess from what is kept.

        Raises:
            IllegalArgumentError: a mechanism is neither of the two.
            KafkaError: `ResourceNotFoundError` and the like, from the broker.
        """
        from odradek.wire.messages import alter_user_scram_credentials as messages

        request = messages.AlterUserScramCredentialsRequest()
        for (user, mechanism), password in passwords.items():
            if mechanism not in MECHANISMS:
                raise IllegalArgumentError(f"{mechanism!r} is no SCRAM mechanism: {', '.join(MECHANISMS)}")
            number, algorithm = MECHANISMS[mechanism]
            if password is None:
                deletion = messages.ScramCredentialDeletion(name=user, mechanism=number)
                request.deletions.append(deletion)
                continue
            salt = secrets.token_bytes(24)
            salted = await asyncio.to_thread(
                hashlib.pbkdf2_hmac, algorithm, password.encode(), salt, iterations
            )
            request.upsertions.append(
                messages.ScramCredentialUpsertion(
                    name=user, mechanism=number, iterations=iterations, salt=salt, salted_password=salted
                )
            )
        response = await self._controller("SCRAM credentials", request, lambda r: not_controller(r.results))
        raise_first(_problems_of_users(response.results, (user for user, _ in passwords)))


def _problems_of_users(results: Iterable[Any], users: Iterable[str]) -> dict[str, KafkaError]:
    return problems_in({result.user: result for result in results}, users, lambda user: f"user {user!r}")


def _entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items(), key=lambda item: item[0]))
