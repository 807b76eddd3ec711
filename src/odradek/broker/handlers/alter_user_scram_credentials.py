"""AlterUserScramCredentials 0: set and delete SCRAM credentials of users (KIP-554).

The client salts and hashes the password; what is kept is made of that (`cluster.scram`), as Kafka keeps it.
A user's changes are made together or not at all: UNACCEPTABLE_CREDENTIAL (no name, too few or too many
iterations), UNSUPPORTED_SASL_MECHANISM, DUPLICATE_RESOURCE (the same credential twice), RESOURCE_NOT_FOUND
(deleting what is not there), NOT_CONTROLLER, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config.entities import write_entity_config
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.access.scram import mechanism_of
from odradek.cluster.paths import sanitize
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

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def _error_response(refused: Refused[AlterUserScramCredentialsRequest]) -> AlterUserScramCredentialsResponse:
    users = sorted(
        {one.name for one in refused.request.deletions} | {one.name for one in refused.request.upsertions}
    )
    return AlterUserScramCredentialsResponse(
        results=[_result(user, refused.error, refused.message) for user in users]
    )


@handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=range(1), error_response=_error_response)
@on_controller_thread
def handle(
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
            results.append(_result(user, ErrorCode.NONE, None))
        except KafkaError as error:
            results.append(_result(user, error.code, error.message))
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


def _result(user: str, error: ErrorCode, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=int(error), error_message=message)
