"""DescribeGroups 0-6: state, protocol and members of groups.

3 has the allowed operations, if asked for; 4 instance ids; 6 answers GROUP_ID_NOT_FOUND where earlier
versions describe a group that does not exist as Dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, count_each, each
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.coordinators.groups.describe import describe_error
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

FIRST_VERSION_WITH_OPERATIONS = 3


def _error_response(refused: Refused[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[describe_error(group_id, refused.error) for group_id in refused.request.groups]
    )


@handler(ApiKey.DESCRIBE_GROUPS, versions=range(7), error_response=_error_response)
def handle(context: RequestContext, request: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    """Describe each group."""
    # Each once: a description can be much longer than the name that asks for it.
    names = yield from count_each(request.groups, str)
    described = yield from each(names, lambda name: _describe(context, request, name))
    return DescribeGroupsResponse(groups=described)


def _describe(context: RequestContext, request: DescribeGroupsRequest, group_id: str) -> DescribedGroup:
    if not context.authorize(Operation.DESCRIBE, group_resource(group_id)):
        return describe_error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    described = context.broker.groups.coordinator.describe_group(context.api_version, group_id)
    if (
        context.api_version >= FIRST_VERSION_WITH_OPERATIONS
        and request.include_authorized_operations
        and not described.error_code
    ):
        described.authorized_operations = context.authorized_operations(group_resource(group_id))
    return described
