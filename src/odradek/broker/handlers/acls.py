"""DescribeAcls, CreateAcls and DeleteAcls 0-3 on a broker without an authorizer: SECURITY_DISABLED.

One error for DescribeAcls, one for each ACL or filter of the others. CLUSTER_AUTHORIZATION_FAILED takes the
same form where a test's authorizer says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation
from odradek.broker.registry import handler
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from odradek.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from odradek.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

_DISABLED = "No Authorizer is configured."
_DISABLED_ON_THE_BROKER = "No Authorizer is configured on the broker"


@handler(ApiKey.DESCRIBE_ACLS, versions=range(4))
def describe(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Say that there are no ACLs to be had."""
    error, message = _refusal(context, Operation.DESCRIBE, _DISABLED_ON_THE_BROKER)
    return DescribeAclsResponse(error_code=error, error_message=message, resources=[])


@handler(ApiKey.CREATE_ACLS, versions=range(4))
def create(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each ACL."""
    error, message = _refusal(context, Operation.ALTER, _DISABLED)
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=error, error_message=message) for _ in request.creations]
    )


@handler(ApiKey.DELETE_ACLS, versions=range(4))
def delete(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter."""
    error, message = _refusal(context, Operation.ALTER, _DISABLED)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error, error_message=message, matching_acls=[])
            for _ in request.filters
        ]
    )


def _refusal(context: RequestContext, operation: Operation, message: str) -> tuple[int, str]:
    if not context.authorize(operation, CLUSTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return int(error), error.message
    return int(ErrorCode.SECURITY_DISABLED), message
