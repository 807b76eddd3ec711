"""AlterPartitionReassignments 0-1: give partitions other replicas, or with null take that back (KIP-455).

Each partition for itself: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT
(none, one twice, a broker that is not alive: on a broker that is alone, every other one). As a release with
ZooKeeper the broker looks at the partition last. Version 1 may forbid a change of the number of replicas:
INVALID_REPLICATION_FACTOR (KIP-860).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
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

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

_FACTOR_CHANGE_FROM = 1


@handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=range(2))
@on_controller_thread
def handle(
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
                partitions=[_reassign(context, topic.name, one, allow_change) for one in topic.partitions],
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
                        partition_index=one.partition_index, error_code=code, error_message=message
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(
    context: RequestContext, topic: str, wanted: ReassignablePartition, allow_change: bool
) -> ReassignablePartitionResponse:
    try:
        context.broker.controller.reassign(
            topic,
            wanted.partition_index,
            wanted.replicas,
            allow_replication_factor_change=allow_change,
            partition_last=context.broker.handlers.with_zookeeper,
        )
    except KafkaError as error:
        return ReassignablePartitionResponse(
            partition_index=wanted.partition_index, error_code=int(error.code), error_message=error.message
        )
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_code=0, error_message=None
    )
