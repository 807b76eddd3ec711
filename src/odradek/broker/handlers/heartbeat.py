"""Heartbeat 0-4: a member shows that it is alive; see `coordinators.groups.heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.HEARTBEAT, versions=range(5))
def handle(
    context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Promise[HeartbeatResponse]:
    """Put the member's session off."""
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answer: ResponseFuture[HeartbeatResponse] = ResponseFuture()
    context.broker.groups.coordinator.heartbeat(request, answer.deliver)
    return answer.result(context.broker.loop)
