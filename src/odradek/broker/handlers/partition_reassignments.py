"""ListPartitionReassignments 0 and AlterPartitionReassignments 0-1: partitions that are moved (KIP-455).

ListPartitionReassignments names those that are being moved, with null for topics those of all. What is not
being moved, or does not exist, is not named. Only the controller answers: NOT_CONTROLLER.

AlterPartitionReassignments gives partitions other replicas, or with null takes that back. Each partition for
itself: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT (none, one twice,
a broker that is not alive: on a broker that is alone, every other one). As a release with ZooKeeper the
broker looks at the partition last. Version 1 may forbid a change of the number of replicas:
INVALID_REPLICATION_FACTOR (KIP-860).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import ClusterAuthorizationError, KafkaError
from odradek.wire.api import ApiKey
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

_FACTOR_CHANGE_FROM = 1


@handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1))
def list_ongoing(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Steps[ListPartitionReassignmentsResponse]:
    """Name what is under way."""
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        raise ClusterAuthorizationError
    context.broker.controller.check_active()
    topics: list[OngoingTopicReassignment] = []
    for name, indexes in (yield from _asked_for(context, request)):
        ongoing: list[OngoingPartitionReassignment] = []
        for index in indexes:
            reassignment = _ongoing(context, name, index)
            if reassignment is not None:
                ongoing.append(reassignment)
            yield
        yield
        if ongoing:
            topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _asked_for(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Steps[Iterable[tuple[str, Iterable[int]]]]:
    if request.topics is None:
        topics = context.broker.controller.image.topics
        return [(name, topic.partitions) for name, topic in topics.items()]
    by_topic: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        by_topic.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield
    return _emptied(by_topic)


def _emptied(by_topic: dict[str, dict[int, None]]) -> Iterator[tuple[str, Iterable[int]]]:
    """Each item once; it is let go with its turn, as hundreds of thousands take long to free in one go."""
    for name in list(by_topic):
        yield name, by_topic.pop(name)


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


@handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2))
@on_controller_thread
def alter(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Reassign what can be."""
    if not context.authorize(Operation.ALTER, CLUSTER):
        return _refused(request, ClusterAuthorizationError())
    context.broker.controller.check_active()
    allow_change = context.api_version < _FACTOR_CHANGE_FROM or request.allow_replication_factor_change
    response = AlterPartitionReassignmentsResponse(
        error_message="" if context.broker.handlers.with_zookeeper else None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassign(context, topic.name, partition, allow_change) for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    if context.api_version >= _FACTOR_CHANGE_FROM:
        response.allow_replication_factor_change = request.allow_replication_factor_change
    return response


def _refused(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """The same error for all of it and for each partition; Kafka: the request's `getErrorResponse`."""
    code, message = int(error.code), error.message
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(
    context: RequestContext, topic: str, partition: ReassignablePartition, allow_change: bool
) -> ReassignablePartitionResponse:
    try:
        context.broker.controller.reassign(
            topic,
            partition.partition_index,
            partition.replicas,
            allow_replication_factor_change=allow_change,
            partition_last=context.broker.handlers.with_zookeeper,
        )
    except KafkaError as error:
        return ReassignablePartitionResponse(
            partition_index=partition.partition_index, error_code=int(error.code), error_message=error.message
        )
    return ReassignablePartitionResponse(
        partition_index=partition.partition_index, error_code=0, error_message=None
    )
