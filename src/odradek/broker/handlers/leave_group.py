"""LeaveGroup 0-5: members leave, or are sent away; see `coordinators.groups.leave`.

Versions 0-2 name one member and get its error on top; from 3 on there are several, each with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

FIRST_VERSION_WITH_MEMBERS = 3


class _OneMembersResponse(ResponseFuture[LeaveGroupResponse]):
    """The one member's error on top."""

    __slots__ = ()

    def deliver(self, response: LeaveGroupResponse) -> None:
        error = response.error_code
        if not error and response.members:
            error = response.members[0].error_code
        super().deliver(LeaveGroupResponse(error_code=error))


@handler(ApiKey.LEAVE_GROUP, versions=range(6))
def handle(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Promise[LeaveGroupResponse]:
    """Remove the members and let the others rebalance."""
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answer: ResponseFuture[LeaveGroupResponse]
    if context.api_version < FIRST_VERSION_WITH_MEMBERS:
        answer, leaving = _OneMembersResponse(), [MemberIdentity(member_id=request.member_id)]
    else:
        answer, leaving = ResponseFuture(), request.members
    context.broker.groups.coordinator.leave_group(request.group_id, leaving, answer.deliver)
    return answer.result(context.broker.loop)
