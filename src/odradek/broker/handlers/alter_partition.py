"""AlterPartition 0-3: a leader asks the controller for another in-sync set (KIP-497).

- Only the active controller answers: NOT_CONTROLLER from any other broker.
- A broker epoch that is not the present one is STALE_BROKER_EPOCH.
- Up to version 1 topics are named, from 2 on they have ids: UNKNOWN_TOPIC_ID; UNKNOWN_TOPIC_OR_PARTITION.
- From 3 on the members come with their broker epochs (KIP-903): one that is not the present one is
  INELIGIBLE_REPLICA; before version 2 that is OPERATION_NOT_ATTEMPTED.
- For the other errors see `odradek.cluster.controller.alter_partition`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.errors import ClusterAuthorizationError, KafkaError, StaleBrokerEpochError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.cluster.image import PartitionImage

_BY_ID_FROM = 2
_WITH_EPOCHS_FROM = 3


@handler(ApiKey.ALTER_PARTITION, versions=range(4))
@on_controller_thread
def handle(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change what may be changed, each partition for itself."""
    if not context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        raise ClusterAuthorizationError
    controller = context.broker.controller
    controller.check_active()
    image = controller.image
    asker = image.brokers.get(request.broker_id)
    if asker is None or request.broker_epoch != asker.epoch:
        raise StaleBrokerEpochError
    version = context.api_version
    names = [
        image.topic_name(topic.topic_id) if version >= _BY_ID_FROM else topic.topic_name
        for topic in request.topics
    ]
    changes = [
        _change(version, request.broker_id, name or "", partition)
        for topic, name in zip(request.topics, names, strict=True)
        for partition in topic.partitions
    ]
    outcomes = iter(controller.alter_partitions(changes))
    response = AlterPartitionResponse(topics=[])
    for topic, name in zip(request.topics, names, strict=True):
        answered = ResponseTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=[])
        response.topics.append(answered)
        answered.partitions += [
            _answer(version, name is not None, partition.partition_index, next(outcomes))
            for partition in topic.partitions
        ]
    return response


def _change(version: int, broker_id: int, topic: str, partition: PartitionData) -> IsrChange:
    """The change that is asked for, of one partition."""
    isr = (
        partition.new_isr
        if version < _WITH_EPOCHS_FROM
        else [m.broker_id for m in partition.new_isr_with_epochs]
    )
    epochs = {
        member.broker_id: member.broker_epoch
        for member in partition.new_isr_with_epochs
        if member.broker_epoch != NO_EPOCH
    }
    return IsrChange(
        topic,
        partition.partition_index,
        broker_id,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(isr),
        partition.leader_recovery_state,
        epochs,
    )


def _answer(
    version: int, is_known: bool, index: int, outcome: PartitionImage | KafkaError
) -> ResponsePartitionData:
    if isinstance(outcome, KafkaError):
        error = outcome.code
        if not is_known:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif version < _BY_ID_FROM and error is ErrorCode.INELIGIBLE_REPLICA:
            error = ErrorCode.OPERATION_NOT_ATTEMPTED
        return ResponsePartitionData(partition_index=index, error_code=int(error))
    return ResponsePartitionData(
        partition_index=index,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=outcome.leader_recovery_state,
        partition_epoch=outcome.partition_epoch,
    )
