"""ConsumerGroupDescribe 0-1: groups whose members are assigned to by the broker (KIP-848). There are none.

Every group here is a classic one: GROUP_ID_NOT_FOUND, upon which clients ask by DescribeGroups. Otherwise
INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, each
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[_failed(group_id, refused.error, refused.message) for group_id in refused.request.group_ids]
    )


@handler(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(2), error_response=_error_response)
def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Steps[ConsumerGroupDescribeResponse]:
    """Say of each group why it is not described."""
    refused = yield from each(request.group_ids, lambda group_id: _refuse(context, group_id))
    return ConsumerGroupDescribeResponse(groups=refused)


def _refuse(context: RequestContext, group_id: str) -> DescribedGroup:
    if not context.authorize(Operation.DESCRIBE, group_resource(group_id)):
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return _failed(group_id, ErrorCode.INVALID_GROUP_ID)
    coordinator = context.broker.groups.coordinator
    try:
        shard = coordinator.runtime.shard(coordinator.partition_of(group_id))
    except KafkaError as error:
        return _failed(group_id, error.code)
    reason = "is not a consumer group" if group_id in shard.groups else "not found"
    return _failed(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def _failed(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(error), error_message=message, members=[])
