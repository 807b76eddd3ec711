"""DescribeTransactions 0: the state of transactional ids (KIP-664).

Each id for itself: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST without a name, NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_NOT_FOUND. Topics that the principal may not describe are left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, each
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.authorization import transactional_id as transactional_id_resource
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.DESCRIBE_TRANSACTIONS, versions=range(1))
def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> Steps[DescribeTransactionsResponse]:
    """Describe each transactional id."""
    states = yield from each(
        request.transactional_ids, lambda transactional_id: _describe(context, transactional_id)
    )
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    if not context.authorize(Operation.DESCRIBE, transactional_id_resource(transactional_id)):
        return _failed(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        transaction = context.broker.transactions.coordinator.describe(transactional_id)
    except KafkaError as error:
        return _failed(transactional_id, error.code)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
            if context.authorize(Operation.DESCRIBE, topic_resource(topic))
        ],
    )


def _failed(transactional_id: str, error: ErrorCode) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=int(error), topics=[])
