"""DescribeQuorum 0-2: who votes on the cluster's metadata (KIP-595, KIP-836, KIP-853).

- Answered as by a KRaft node that is broker and controller and alone: it leads, is the only voter, and has
  everything that there is. There is no metadata log: the offset is the epoch under which the broker is
  registered, which in Kafka is an offset of that log. The node's address is the broker's, since there is no
  listener of a controller.
- A request that asks for anything but partition 0 of `__cluster_metadata`, and that once, is answered
  UNKNOWN_TOPIC_OR_PARTITION for all partitions.
- NOT_CONTROLLER is told by any other broker; CLUSTER_AUTHORIZATION_FAILED to those who may not describe the
  cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.controller.topics import CLUSTER_METADATA_TOPIC
from odradek.errors import ClusterAuthorizationError, UnknownTopicOrPartitionError
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_quorum import (
    DescribedQuorumPartition,
    DescribedQuorumTopic,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

_NODES_FROM = 2


@handler(ApiKey.DESCRIBE_QUORUM, versions=range(3))
def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe the quorum of one."""
    if not context.authorize(Operation.DESCRIBE, CLUSTER):
        raise ClusterAuthorizationError
    context.broker.controller.check_active()
    partitions = [
        (topic.topic_name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if partitions != [(CLUSTER_METADATA_TOPIC, 0)] or len(request.topics) > 1:
        return _unknown(request)
    topic = DescribedQuorumTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[_partition(context)])
    response = DescribeQuorumResponse(error_message="", topics=[topic])
    if context.api_version >= _NODES_FROM:
        response.nodes = _nodes(context)
    return response


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = UnknownTopicOrPartitionError()
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribedQuorumTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribedQuorumPartition(
                        partition_index=partition.partition_index,
                        error_code=int(error.code),
                        error_message=error.message,
                        current_voters=[],
                        observers=[],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _partition(context: RequestContext) -> DescribedQuorumPartition:
    controller = context.broker.controller
    voter = ReplicaState(
        replica_id=controller.broker_id,
        replica_directory_id=ZERO_UUID,
        log_end_offset=controller.broker_epoch,
        last_fetch_timestamp=context.now_ms,
        last_caught_up_timestamp=context.now_ms,
    )
    return DescribedQuorumPartition(
        partition_index=0,
        error_message="",
        leader_id=controller.broker_id,
        leader_epoch=controller.epoch,
        high_watermark=controller.broker_epoch,
        current_voters=[voter],
        observers=[],
    )


def _nodes(context: RequestContext) -> list[QuorumNode]:
    controller = context.broker.controller
    broker = controller.image.brokers.get(controller.broker_id)
    endpoint = None if broker is None else broker.endpoint(context.listener_name)
    if endpoint is None:
        return []
    listener = QuorumListener(name=context.listener_name, host=endpoint.host, port=endpoint.port)
    return [QuorumNode(node_id=controller.broker_id, listeners=[listener])]
