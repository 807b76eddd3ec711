"""AddOffsetsToTxn 0-4: the partition of `__consumer_offsets` that has a group's offsets joins a transaction.

The offsets themselves come with TxnOffsetCommit. 2 knows PRODUCER_FENCED; before, that is
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.coordinators.partitioner import partition_for
from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.coordinator import PartitionErrors, error_for_version
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.ADD_OFFSETS_TO_TXN, versions=range(5))
def handle(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Promise[AddOffsetsToTxnResponse]:
    """Let the group's partition join."""
    broker, version = context.broker, context.api_version
    if not context.may_write_with(request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return AddOffsetsToTxnResponse(error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    # Producers ask for the group's coordinator afterwards: the topic may be still to come.
    topic = broker.image.topic(GROUP_METADATA_TOPIC)
    count = broker.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
    partition = (GROUP_METADATA_TOPIC, partition_for(request.group_id, count))
    answer: ResponseFuture[AddOffsetsToTxnResponse] = ResponseFuture()

    def deliver(errors: PartitionErrors) -> None:
        error = error_for_version(errors[partition], "AddOffsetsToTxn", version)
        answer.deliver(AddOffsetsToTxnResponse(error_code=int(error)))

    broker.transactions.coordinator.add_offsets(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        partition,
        Reply(deliver, lambda error: {partition: error}),
    )
    return answer.result(broker.loop)
