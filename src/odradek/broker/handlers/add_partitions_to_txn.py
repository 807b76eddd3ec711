"""AddPartitionsToTxn 0-5: partitions join a transaction, which begins if there is none.

- Up to 3 clients send it, for one transaction. One partition that may not be written, or does not exist,
  keeps the others from joining: OPERATION_NOT_ATTEMPTED.
- From 4 on brokers send it (CLUSTER_ACTION), for several transactions, each of which may only ask whether
  the partitions have joined already: TRANSACTION_ABORTABLE if not (KIP-890).
- 2 knows PRODUCER_FENCED; before, that is INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation, transactional_id
from odradek.broker.authorization import topic as topic_resource
from odradek.broker.coordination.answer import Answer
from odradek.broker.registry import handler
from odradek.cluster.image import INTERNAL_TOPICS
from odradek.coordinators.transactions.coordinator import Added, PartitionErrors, error_for_version
from odradek.errors import ClusterAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.coordinators.transactions.transaction import Partition

FIRST_VERSION_OF_BROKERS = 4


def _error_response(
    request: AddPartitionsToTxnRequest, version: int, error: ErrorCode, message: str
) -> AddPartitionsToTxnResponse:
    if version >= FIRST_VERSION_OF_BROKERS:
        return AddPartitionsToTxnResponse(error_code=int(error))
    partitions = _partitions(request.v3_and_below_topics)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(dict.fromkeys(partitions, error), partitions, version)
    )


@handler(ApiKey.ADD_PARTITIONS_TO_TXN, versions=range(6), error_response=_error_response)
def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
    """Add or verify, each transaction for itself."""
    version = context.api_version
    from_client = version < FIRST_VERSION_OF_BROKERS
    if not from_client and not context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        raise ClusterAuthorizationError
    wanted = _wanted(request, from_client)
    refused: dict[str, PartitionErrors] = {}
    for name, added in wanted.items():
        errors = _refusals(context, added, from_client)
        if errors is not None:
            refused[name] = errors
    answer: Answer[AddPartitionsToTxnResponse] = Answer()

    def deliver(answered: dict[str, PartitionErrors]) -> None:
        answered = refused | answered
        if from_client:
            (added,) = wanted.values()
            results = _results(answered[added.transactional_id], added.partitions, version)
            answer.deliver(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))
            return
        answer.deliver(
            AddPartitionsToTxnResponse(
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        transactional_id=name,
                        topic_results=_results(answered[name], added.partitions, version),
                    )
                    for name, added in wanted.items()
                ]
            )
        )

    context.broker.transactions.coordinator.add_partitions_batched(
        [added for name, added in wanted.items() if name not in refused], deliver
    )
    return answer.result(context.broker.loop)


def _wanted(request: AddPartitionsToTxnRequest, from_client: bool) -> dict[str, Added]:
    if from_client:
        name = request.v3_and_below_transactional_id
        return {
            name: Added(
                name,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                _partitions(request.v3_and_below_topics),
                verify_only=False,
            )
        }
    return {
        one.transactional_id: Added(
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            _partitions(one.topics),
            verify_only=one.verify_only,
        )
        for one in request.transactions
    }


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[Partition]:
    return list(dict.fromkeys((topic.name, index) for topic in topics for index in topic.partitions))


def _refusals(context: RequestContext, added: Added, from_client: bool) -> PartitionErrors | None:
    """Why none of the partitions may join; None: the coordinator decides."""
    if from_client and not context.authorize(Operation.WRITE, transactional_id(added.transactional_id)):
        return dict.fromkeys(added.partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    image = context.broker.image
    # Clients do not write to internal topics: AddOffsetsToTxn is the way there.
    writable = {
        topic: not from_client
        or (topic not in INTERNAL_TOPICS and context.authorize(Operation.WRITE, topic_resource(topic)))
        for topic in {topic for topic, _ in added.partitions}
    }
    errors = {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not writable[partition[0]]
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in added.partitions
        if not writable[partition[0]] or image.partition(*partition) is None
    }
    if not errors:
        return None
    return dict.fromkeys(added.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | errors


def _results(
    errors: PartitionErrors, partitions: Sequence[Partition], version: int
) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for partition in partitions:
        error = error_for_version(errors[partition], "AddPartitionsToTxn", version)
        topics.setdefault(partition[0], []).append(
            AddPartitionsToTxnPartitionResult(partition_index=partition[1], partition_error_code=int(error))
        )
    return [
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=results)
        for name, results in topics.items()
    ]
