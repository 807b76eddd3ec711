"""DeleteGroups 0-3: remove empty groups with all that they have committed.

NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND, each per group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.event_loop.slices import Steps, count_each, wait
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

GROUPS_AT_ONCE = 100
"""Groups that are deleted before others get their turn."""


def _error_response(refused: Refused[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=g, error_code=refused.error) for g in refused.request.groups_names
        ]
    )


@handler(ApiKey.DELETE_GROUPS, versions=range(4), error_response=_error_response)
def handle(context: RequestContext, request: DeleteGroupsRequest) -> Steps[DeleteGroupsResponse]:
    """Delete each group that may be deleted."""
    allowed: list[str] = []
    refused: list[DeletableGroupResult] = []
    for group_id in (yield from count_each(request.groups_names, str)):
        if context.authorize(Operation.DELETE, group_resource(group_id)):
            allowed.append(group_id)
        else:
            refused.append(
                DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            )
        yield
    response = DeleteGroupsResponse(results=[])
    for first in range(0, len(allowed), GROUPS_AT_ONCE):
        answer: ResponseFuture[list[DeletableGroupResult]] = ResponseFuture()
        context.broker.groups.coordinator.delete_groups(
            allowed[first : first + GROUPS_AT_ONCE], answer.deliver
        )
        response.results += yield from wait(answer.result(context.broker.loop))
        yield
    response.results += refused
    return response
