"""ListGroups 0-5: the groups that this broker coordinates.

4 filters by state (KIP-518), 5 by type (KIP-848). Who may not describe the cluster sees the groups that it
may describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation
from odradek.broker.authorization import group as group_resource
from odradek.broker.registry import handler
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext


@handler(ApiKey.LIST_GROUPS, versions=range(6))
def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that pass the filters."""
    error, groups = context.broker.groups.coordinator.list_groups(request.states_filter, request.types_filter)
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        groups = [g for g in groups if context.authorize(Operation.DESCRIBE, group_resource(g.group_id))]
    return ListGroupsResponse(error_code=error, groups=groups)
