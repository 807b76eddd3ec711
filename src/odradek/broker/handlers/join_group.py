"""JoinGroup 0-9: become a member of a group, and take part in its next generation.

See `coordinators.groups.join` for what each version adds. The answer waits for the rebalance. A protocol name
of null becomes "" before version 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.broker.requests.handler_types import Refused
from odradek.coordinators.groups.classic_group import join_error
from odradek.coordinators.groups.env import Caller
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

FIRST_VERSION_WITH_NULL_PROTOCOL = 7


class _VersionedResponse(ResponseFuture[JoinGroupResponse]):
    """Gives the response the form that old versions can carry."""

    __slots__ = ("_version",)

    def __init__(self, version: int) -> None:
        super().__init__()
        self._version = version

    def deliver(self, response: JoinGroupResponse) -> None:
        if self._version < FIRST_VERSION_WITH_NULL_PROTOCOL and response.protocol_name is None:
            response.protocol_name = ""
        super().deliver(response)


def _error_response(refused: Refused[JoinGroupRequest]) -> JoinGroupResponse:
    response = join_error(refused.error, refused.request.member_id)
    if refused.version < FIRST_VERSION_WITH_NULL_PROTOCOL:
        response.protocol_name = ""
    return response


@handler(ApiKey.JOIN_GROUP, versions=range(10), error_response=_error_response)
def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Promise[JoinGroupResponse]:
    """Join, at once or when the rebalance is through."""
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return _error_response(
            Refused(request, context.api_version, ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
        )
    if context.peer.application is not None:
        context.peer.application.note_group(request.group_id)
    answer = _VersionedResponse(context.api_version)
    caller = Caller(context.client_id, context.client_host, context.api_version)
    give_up = context.broker.groups.coordinator.join_group(caller, request, answer.deliver)
    # The coordinator has what it needs of them: while others are waited for, they need not be held twice.
    request.protocols = []
    context.on_disconnect = give_up
    return answer.result(context.broker.loop)
