"""DescribeAcls, CreateAcls and DeleteAcls 0-3 (KIP-140): 1 brings prefixed patterns (KIP-290).

Version 0 sees literal patterns alone. Without an authorizer each is SECURITY_DISABLED. What is wrong with one
ACL is that one's INVALID_REQUEST; enumerations that say UNKNOWN end the connection, as in Kafka, which cannot
parse them.
Kafka: `AclApis`, and the requests' own `validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import (
    ClusterAuthorizationError,
    InvalidRequestError,
    KafkaError,
    SecurityDisabledError,
)
from odradek.util.acl import CLUSTER_NAME, AclBinding, ResourceType
from odradek.wire.acls import binding_filter, created_binding, described_resource, matching_acl
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.wire.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import AclKeeper
    from odradek.broker.requests.context import RequestContext

T = TypeVar("T")

_BETWEEN_PAUSES = 256


@handler(ApiKey.DESCRIBE_ACLS, versions=range(4))
def describe(context: RequestContext, request: DescribeAclsRequest) -> Steps[DescribeAclsResponse | None]:
    """List the ACLs that the filter lets through, by pattern."""
    if _says_unknown(context, [request], "resource_type_filter", "pattern_type_filter"):
        return None
    refusal = _refusal(context, Operation.DESCRIBE, "No Authorizer is configured on the broker")
    acls = context.broker.acls
    if refusal is not None or acls is None:
        error = refusal or SecurityDisabledError()
        return DescribeAclsResponse(error_code=int(error.code), error_message=error.message, resources=[])
    acl_filter = binding_filter(request)
    index = acls.authorizer.index
    resources: list[DescribeAclsResource] = []
    count = 0
    for pattern in index.patterns():
        if acl_filter.pattern.matches(pattern):
            entries = [entry for entry in index.entries(pattern) if acl_filter.entry.matches(entry)]
            if entries:
                resources.append(described_resource(pattern, entries))
            count += len(entries)
        count += 1
        if count >= _BETWEEN_PAUSES:
            count = 0
            yield
    return DescribeAclsResponse(resources=resources)


@handler(ApiKey.CREATE_ACLS, versions=range(4))
def create(context: RequestContext, request: CreateAclsRequest) -> Steps[CreateAclsResponse | None]:
    """Add ACLs, each of which may be there already."""
    if _says_unknown(context, request.creations, "resource_type", "resource_pattern_type"):
        return None
    refusal = _refusal(context, Operation.ALTER, "No Authorizer is configured.")
    acls = context.broker.acls
    errors: Sequence[KafkaError | None]
    if refusal is not None or acls is None:
        errors = [refusal or SecurityDisabledError()] * len(request.creations)
    else:
        errors = yield from _in_turn(context, lambda: _create(acls, request.creations))
    return CreateAclsResponse(results=[_created(error) for error in errors])


@handler(ApiKey.DELETE_ACLS, versions=range(4))
def delete(context: RequestContext, request: DeleteAclsRequest) -> Steps[DeleteAclsResponse | None]:
    """Remove the ACLs that the filters let through; each is the first filter's that does."""
    if _says_unknown(context, request.filters, "resource_type_filter", "pattern_type_filter"):
        return None
    refusal = _refusal(context, Operation.ALTER, "No Authorizer is configured.")
    acls = context.broker.acls
    if refusal is not None or acls is None:
        error = refusal or SecurityDisabledError()
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(
                    error_code=int(error.code), error_message=error.message, matching_acls=[]
                )
                for _ in request.filters
            ]
        )
    filters = [binding_filter(acls_filter) for acls_filter in request.filters]
    removals = yield from _in_turn(context, lambda: acls.delete(filters))
    results: list[DeleteAclsFilterResult] = []
    for removed in removals:
        matching: list[DeleteAclsMatchingAcl] = []
        for binding, failure in removed.items():
            matching.append(matching_acl(binding, failure))
            if len(matching) % _BETWEEN_PAUSES == 0:
                yield
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
        yield
    return DeleteAclsResponse(filter_results=results)


def _refusal(context: RequestContext, operation: Operation, without: str) -> KafkaError | None:
    """Return why nothing can be done at all; `without` says that there is no authorizer."""
    if not context.authorize(operation, CLUSTER):
        return ClusterAuthorizationError()
    return SecurityDisabledError(without) if context.broker.acls is None else None


def _says_unknown(context: RequestContext, messages: Sequence[Any], *names: str) -> bool:
    """Return whether an enumeration is 0: nobody means that, and the connection is to be closed."""
    if any(
        getattr(message, name) == 0
        for message in messages
        for name in (*names, "operation", "permission_type")
    ):
        context.close_connection = True
        return True
    return False


def _in_turn(context: RequestContext, work: Callable[[], T]) -> Steps[T]:
    """Run work in the controller's turn, which waits for the disk, and wait for it."""
    result: T = yield from wait(context.broker.controller.event_queue.run(work))
    return result


def _create(acls: AclKeeper, creations: Sequence[AclCreation]) -> list[KafkaError | None]:
    errors: list[KafkaError | None] = [None] * len(creations)
    bindings: list[AclBinding] = []
    places: list[int] = []
    for at, creation in enumerate(creations):
        error = errors[at] = _check(creation)
        if error is None:
            bindings.append(created_binding(creation))
            places.append(at)
    for at, error in zip(places, acls.create(bindings), strict=True):
        errors[at] = error
    return errors


def _check(creation: AclCreation) -> KafkaError | None:
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        return InvalidRequestError("Invalid empty resource name")
    return None


def _created(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult()
    return AclCreationResult(error_code=int(error.code), error_message=error.message)
