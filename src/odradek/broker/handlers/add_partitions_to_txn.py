"""AddPartitionsToTxn 0-5: partitions join a transaction, which begins if there is none.

- Up to 3 clients send it, for one transaction. One partition that may not be written, or does not exist,
  keeps the others from joining: OPERATION_NOT_ATTEMPTED.
- From 4 on brokers send it (CLUSTER_ACTION), for several transactions, each of which may only ask whether
  the partitions have joined already: TRANSACTION_ABORTABLE if not (KIP-890).
- 2 knows PRODUCER_FENCED; before, that is INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.event_loop.slices import Steps, take_all, wait
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import is_untold
from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.coordinator import Added, PartitionErrors, error_for_version
from odradek.errors import ClusterAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import INTERNAL_TOPICS
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.util.topic_partition import TopicPartition

FIRST_VERSION_OF_BROKERS = 4


def _error_response(refused: Refused[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
    if refused.version >= FIRST_VERSION_OF_BROKERS:
        return AddPartitionsToTxnResponse(error_code=int(refused.error))
    partitions = take_all(_partitions(refused.request.v3_and_below_topics))
    results = take_all(_results(dict.fromkeys(partitions, refused.error), partitions, refused.version))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


@handler(ApiKey.ADD_PARTITIONS_TO_TXN, versions=range(6), error_response=_error_response)
def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> Steps[AddPartitionsToTxnResponse]:
    """Add or verify, each transaction for itself."""
    version = context.api_version
    from_client = version < FIRST_VERSION_OF_BROKERS
    if not from_client and not context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        raise ClusterAuthorizationError
    transactions: list[tuple[Added, PartitionErrors | Promise[PartitionErrors]]] = []
    for added in (yield from _wanted(request, from_client)).values():
        errors = yield from _refusals(context, added, from_client)
        # All of them before the first is waited for: each may have to be committed to the log.
        transactions.append((added, _ask(context, added) if errors is None else errors))
        yield
    results: list[AddPartitionsToTxnResult] = []
    for added, answer in transactions:
        errors = yield from wait(answer)
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=added.transactional_id,
                topic_results=(yield from _results(errors, added.partitions, version)),
            )
        )
        yield
    if from_client:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _ask(context: RequestContext, added: Added) -> PartitionErrors | Promise[PartitionErrors]:
    answer: ResponseFuture[PartitionErrors] = ResponseFuture()
    context.broker.transactions.coordinator.add_partitions(
        added.transactional_id,
        added.producer_id,
        added.epoch,
        added.partitions,
        Reply(answer.deliver, partial(_all, added.partitions)),
        verify_only=added.verify_only,
    )
    return answer.result(context.broker.loop)


def _all(partitions: Sequence[TopicPartition], error: ErrorCode) -> PartitionErrors:
    return dict.fromkeys(partitions, error)


def _wanted(request: AddPartitionsToTxnRequest, from_client: bool) -> Steps[dict[str, Added]]:
    if from_client:
        name = request.v3_and_below_transactional_id
        partitions = yield from _partitions(request.v3_and_below_topics)
        return {
            name: Added(
                name,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                partitions,
                verify_only=False,
            )
        }
    transactions: dict[str, Added] = {}
    for transaction in request.transactions:
        partitions = yield from _partitions(transaction.topics)
        transactions[transaction.transactional_id] = Added(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            verify_only=transaction.verify_only,
        )
        yield
    return transactions


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> Steps[list[TopicPartition]]:
    partitions: dict[TopicPartition, None] = {}
    for topic in topics:
        for index in topic.partitions:
            partitions[topic.name, index] = None
            yield
        yield
    return list(partitions)


def _refusals(context: RequestContext, added: Added, from_client: bool) -> Steps[PartitionErrors | None]:
    """Return why none of the partitions may join; None: the coordinator decides."""
    if from_client and not context.may_write_with(added.transactional_id):
        return dict.fromkeys(added.partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    image = context.broker.image
    writable: dict[str, bool] = {}
    errors: PartitionErrors = {}
    for partition in added.partitions:
        topic = partition[0]
        if topic not in writable:
            # Clients do not write to internal topics: AddOffsetsToTxn is the way there.
            writable[topic] = not from_client or (
                topic not in INTERNAL_TOPICS and context.authorize(Operation.WRITE, topic_resource(topic))
            )
        if not writable[topic]:
            errors[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(*partition) is None and not is_untold(context.broker):
            errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield
    if not errors:
        return None
    return dict.fromkeys(added.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | errors


def _results(
    errors: PartitionErrors, partitions: Sequence[TopicPartition], version: int
) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for partition in partitions:
        name, index = partition
        error = error_for_version(errors[partition], "AddPartitionsToTxn", version)
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AddPartitionsToTxnTopicResult(name=name, results_by_partition=[])
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=int(error))
        )
        yield
    return list(topics.values())
