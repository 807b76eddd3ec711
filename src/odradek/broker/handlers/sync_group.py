"""SyncGroup 0-5: hand in the group's assignment, fetch one's own.

See `coordinators.groups.sync`. From version 5 on the protocol type and name must be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.coordinators.groups.classic_group import sync_error
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

FIRST_VERSION_NAMING_PROTOCOL = 5


def _error_response(refused: Refused[SyncGroupRequest]) -> SyncGroupResponse:
    return sync_error(refused.error)


@handler(ApiKey.SYNC_GROUP, versions=range(6), error_response=_error_response)
def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Promise[SyncGroupResponse]:
    """Answer with the assignment, at once or when the leader has made it."""
    if context.api_version >= FIRST_VERSION_NAMING_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return sync_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answer: ResponseFuture[SyncGroupResponse] = ResponseFuture()
    context.broker.groups.coordinator.sync_group(request, answer.deliver)
    return answer.result(context.broker.loop)
