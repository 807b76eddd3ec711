"""ListPartitionReassignments 0: which partitions are being moved (KIP-455); with null for topics, of all.

What is not being moved, or does not exist, is not named. Only the controller answers: NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import ClusterAuthorizationError
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1))
def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    """Name what is under way."""
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        raise ClusterAuthorizationError
    context.broker.controller.check_active()
    topics: list[OngoingTopicReassignment] = []
    for name, indexes in (yield from _wanted(context, request)):
        ongoing: list[OngoingPartitionReassignment] = []
        for index in indexes:
            one = _ongoing(context, name, index)
            if one is not None:
                ongoing.append(one)
            yield
        yield
        if ongoing:
            topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _wanted(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Steps[Iterable[tuple[str, Iterable[int]]]]:
    if request.topics is None:
        topics = context.broker.controller.image.topics
        return [(name, topic.partitions) for name, topic in topics.items()]
    wanted: dict[str, dict[int, None]] = {}
    for one in request.topics:
        wanted.setdefault(one.name, {}).update(dict.fromkeys(one.partition_indexes))
        yield
    return _emptied(wanted)


def _emptied(wanted: dict[str, dict[int, None]]) -> Iterator[tuple[str, Iterable[int]]]:
    """Each item once; it is let go with its turn, as hundreds of thousands take long to free in one go."""
    for name in list(wanted):
        yield name, wanted.pop(name)


def _ongoing(context: RequestContext, topic: str, index: int) -> OngoingPartitionReassignment | None:
    partition = context.broker.controller.image.partition(topic, index)
    if partition is None or not (partition.adding or partition.removing):
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )
