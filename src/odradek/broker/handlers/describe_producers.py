"""DescribeProducers 0: which producers have sequences or an open transaction in a partition (KIP-664).

Each partition for itself: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
KAFKA_STORAGE_ERROR, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import is_untold
from odradek.cluster.controller.topics import check_name
from odradek.errors import KafkaError, TopicAuthorizationError, UnknownTopicOrPartitionError
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.log.producers.producer_state import ProducerEntry


@handler(ApiKey.DESCRIBE_PRODUCERS, versions=range(1))
def handle(context: RequestContext, request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    """Describe the producers of each partition."""
    # Each once: a description can be much longer than the number that asks for it.
    by_topic: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        by_topic.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield
    topics: list[TopicResponse] = []
    for name, indexes in by_topic.items():
        failure = _topic_error(context, name)
        partitions: list[PartitionResponse] = []
        for index in indexes:
            if failure is None:
                partitions.append((yield from _describe(context, name, index)))
            else:
                partitions.append(_failed(index, failure))
            yield
        yield
        topics.append(TopicResponse(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _topic_error(context: RequestContext, name: str) -> KafkaError | None:
    try:
        check_name(name)
        if not context.authorize(Operation.READ, topic_resource(name)):
            raise TopicAuthorizationError
        if context.broker.image.topic(name) is None and not is_untold(context.broker):
            raise UnknownTopicOrPartitionError
    except KafkaError as error:
        return error
    return None


def _describe(context: RequestContext, topic: str, index: int) -> Steps[PartitionResponse]:
    try:
        entries = context.broker.replicas.get(topic, index).log.producers.entries
    except KafkaError as error:
        return _failed(index, error)
    states: list[ProducerState] = []
    for entry in tuple(entries.values()):
        states.append(_state(entry))
        yield
    return PartitionResponse(partition_index=index, error_message=None, active_producers=states)


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=int(error.code),
        error_message=error.message,
        active_producers=[],
    )
