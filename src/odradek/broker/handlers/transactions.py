"""DescribeTransactions 0 and ListTransactions 0-2 where nobody coordinates transactions (KIP-664).

Described ones are NOT_COORDINATOR, as on a Kafka that does not lead the partition of
`__transaction_state`; one without a name is INVALID_REQUEST. Listed are none, with the states that were asked
for and do not exist. Should the topic exist, taken over from a Kafka, its transactions cannot be listed:
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.authorization import Operation
from odradek.broker.authorization import transactional_id as transactional_id_resource
from odradek.broker.registry import handler
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

TRANSACTION_STATE_TOPIC = "__transaction_state"
_STATES = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    }
)


@handler(ApiKey.DESCRIBE_TRANSACTIONS, versions=range(1))
def describe(context: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Refuse each transactional id."""
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=one, error_code=int(_error(context, one)), topics=[])
            for one in request.transactional_ids
        ]
    )


def _error(context: RequestContext, transactional_id: str) -> ErrorCode:
    if not context.authorize(Operation.DESCRIBE, transactional_id_resource(transactional_id)):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NOT_COORDINATOR if transactional_id else ErrorCode.INVALID_REQUEST


@handler(ApiKey.LIST_TRANSACTIONS, versions=range(3))
def list_transactions(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List none."""
    if context.broker.image.topic(TRANSACTION_STATE_TOPIC) is not None:
        return ListTransactionsResponse(error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    unknown = dict.fromkeys(state for state in request.state_filters if state not in _STATES)
    return ListTransactionsResponse(unknown_state_filters=list(unknown), transaction_states=[])
