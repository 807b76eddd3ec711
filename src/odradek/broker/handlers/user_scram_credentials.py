"""DescribeUserScramCredentials and AlterUserScramCredentials 0: SCRAM credentials of users (KIP-554).

DescribeUserScramCredentials tells which mechanisms users have credentials of. Null or an empty list asks for
all users that have any, in the order of their names. A user that is asked for and has none, or has no name,
is RESOURCE_NOT_FOUND; one that is named twice DUPLICATE_RESOURCE.

AlterUserScramCredentials sets and deletes them. The client salts and hashes the password; what is kept is
made of that (`odradek.cluster.access.scram`), as Kafka keeps it. A user's changes are made together or not at
all: UNACCEPTABLE_CREDENTIAL (no name, too few or too many iterations), UNSUPPORTED_SASL_MECHANISM,
DUPLICATE_RESOURCE (the same credential twice), RESOURCE_NOT_FOUND (deleting what is not there),
NOT_CONTROLLER, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config.entities import write_entity_config
from odradek.broker.event_loop.slices import Steps, each
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.access.scram import Mechanism, iterations_of, mechanism_of
from odradek.cluster.paths import DEFAULT_ENTITY, desanitize, sanitize
from odradek.errors import (
    ClusterAuthorizationError,
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnsupportedSaslMechanismError,
)
from odradek.errors.codes import ErrorCode
from odradek.sasl.scram_credentials import MAX_ITERATIONS, MIN_ITERATIONS
from odradek.wire.api import ApiKey
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


@handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=range(1))
def describe(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Describe the users' credentials, of which nothing but the iterations is told."""
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        error = ClusterAuthorizationError()
        # One result for each user, without the name: Kafka's `getErrorResponse`.
        refused = yield from each(request.users or (), lambda _: _not_described("", error.code, None))
        return DescribeUserScramCredentialsResponse(
            error_code=int(error.code), error_message=error.message, results=refused
        )
    if request.users:
        times = Counter(user.name for user in request.users)
        results = yield from each(times, lambda name: _asked_for(context, name, times[name]))
    else:
        results = _all(context)
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _all(context: RequestContext) -> list[DescribeUserScramCredentialsResult]:
    results: dict[str, DescribeUserScramCredentialsResult] = {}
    for entity, configs in context.broker.image.configs.items():
        kind, _, node = entity.partition("/")
        if kind == "users" and "/" not in node and node != DEFAULT_ENTITY:
            name = desanitize(node)
            result = _described(name, configs)
            if result is not None:
                results[name] = result
    return [results[name] for name in sorted(results)]


def _asked_for(context: RequestContext, name: str, times: int) -> DescribeUserScramCredentialsResult:
    if not name:
        return _not_described(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        return _not_described(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    result = _described(name, context.broker.image.config(f"users/{sanitize(name)}"))
    if result is None:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return _not_described(name, ErrorCode.RESOURCE_NOT_FOUND, message)
    return result


def _described(name: str, configs: Mapping[str, str]) -> DescribeUserScramCredentialsResult | None:
    infos: list[CredentialInfo] = []
    for mechanism in Mechanism:
        credential = configs.get(mechanism.config)
        if credential is not None:
            try:
                iterations = iterations_of(credential)
            except ValueError:
                # Somebody else wrote it.
                return _not_described(name, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            infos.append(CredentialInfo(mechanism=int(mechanism), iterations=iterations))
    if not infos:
        return None
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


def _not_described(name: str, error: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=int(error),
        error_message=error.message if message is None else message,
        credential_infos=[],
    )


def _unaltered(refused: Refused[AlterUserScramCredentialsRequest]) -> AlterUserScramCredentialsResponse:
    users = sorted(
        {deletion.name for deletion in refused.request.deletions}
        | {upsertion.name for upsertion in refused.request.upsertions}
    )
    return AlterUserScramCredentialsResponse(
        results=[_altered(user, refused.error, refused.message) for user in users]
    )


@handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=range(1), error_response=_unaltered)
@on_controller_thread
def alter(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the credentials of each user."""
    context.broker.controller.check_active()
    if not context.authorize(Operation.ALTER, CLUSTER):
        raise ClusterAuthorizationError
    changes: dict[str, list[_Change]] = {}
    for deletion in request.deletions:
        changes.setdefault(deletion.name, []).append(deletion)
    for upsertion in request.upsertions:
        changes.setdefault(upsertion.name, []).append(upsertion)
    results: list[AlterUserScramCredentialsResult] = []
    for user, of_user in changes.items():
        try:
            _change_user(context, user, of_user)
            results.append(_altered(user, ErrorCode.NONE, None))
        except KafkaError as error:
            results.append(_altered(user, error.code, error.message))
    return AlterUserScramCredentialsResponse(results=results)


def _change_user(context: RequestContext, user: str, changes: list[_Change]) -> None:
    for change in changes:
        _check(change)
    if max(Counter(change.mechanism for change in changes).values()) > 1:
        raise DuplicateResourceError("A user credential cannot be altered twice in the same request")
    entity = f"users/{sanitize(user)}"
    configs = dict(context.broker.controller.image.config(entity))
    for change in changes:
        mechanism = mechanism_of(change.mechanism)
        assert mechanism is not None
        if isinstance(change, ScramCredentialUpsertion):
            salted = bytes(change.salted_password)
            configs[mechanism.config] = mechanism.credential(bytes(change.salt), salted, change.iterations)
        elif configs.pop(mechanism.config, None) is None:
            raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
    write_entity_config(context, entity, configs)


def _check(change: _Change) -> None:
    if not change.name:
        raise UnacceptableCredentialError("Username must not be empty")
    if mechanism_of(change.mechanism) is None:
        raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations > MAX_ITERATIONS:
            raise UnacceptableCredentialError("Too many iterations")
        if change.iterations < MIN_ITERATIONS:
            raise UnacceptableCredentialError("Too few iterations")


def _altered(user: str, error: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=int(error), error_message=message)
