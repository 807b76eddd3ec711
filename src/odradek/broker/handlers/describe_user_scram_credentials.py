"""DescribeUserScramCredentials 0: which SCRAM mechanisms users have credentials of (KIP-554).

Null or an empty list asks for all users that have any, in the order of their names. A user that is asked for
and has none, or has no name, is RESOURCE_NOT_FOUND; one that is named twice DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, each
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.access.scram import Mechanism, iterations_of
from odradek.cluster.paths import DEFAULT_ENTITY, desanitize, sanitize
from odradek.errors import ClusterAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=range(1))
def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    """Describe the users' credentials, of which nothing but the iterations is told."""
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        error = ClusterAuthorizationError()
        # One result for each user, without the name: Kafka's `getErrorResponse`.
        refused = yield from each(request.users or (), lambda _: _failed("", error.code, None))
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
    found: dict[str, DescribeUserScramCredentialsResult] = {}
    for entity, configs in context.broker.image.configs.items():
        kind, _, node = entity.partition("/")
        if kind == "users" and "/" not in node and node != DEFAULT_ENTITY:
            name = desanitize(node)
            result = _described(name, configs)
            if result is not None:
                found[name] = result
    return [found[name] for name in sorted(found)]


def _asked_for(context: RequestContext, name: str, times: int) -> DescribeUserScramCredentialsResult:
    if not name:
        return _failed(name, ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        return _failed(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    result = _described(name, context.broker.image.config(f"users/{sanitize(name)}"))
    if result is None:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return _failed(name, ErrorCode.RESOURCE_NOT_FOUND, message)
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
                return _failed(name, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            infos.append(CredentialInfo(mechanism=int(mechanism), iterations=iterations))
    if not infos:
        return None
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)


def _failed(name: str, error: ErrorCode, message: str | None) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=int(error),
        error_message=error.message if message is None else message,
        credential_infos=[],
    )
