"""ListGroups 0-5: the groups that this broker coordinates.

4 filters by state (KIP-518), 5 by type (KIP-848). Who may not describe the cluster sees the groups that it
may describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, count_each
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


def _without_case(name: str) -> str:
    return name.strip().lower()


@handler(ApiKey.LIST_GROUPS, versions=range(6))
def handle(context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the groups that pass the filters."""
    states = yield from count_each(request.states_filter, _without_case)
    types = yield from count_each(request.types_filter, _without_case)
    error, groups = context.broker.groups.coordinator.list_groups(states, types)
    if not context.authorize(Operation.DESCRIBE, CLUSTER, log_if_denied=False):
        shown = []
        for group in groups:
            if context.authorize(Operation.DESCRIBE, group_resource(group.group_id), log_if_denied=False):
                shown.append(group)
            yield
        groups = shown
    return ListGroupsResponse(error_code=error, groups=groups)
