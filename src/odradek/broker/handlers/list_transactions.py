"""ListTransactions 0-1: the transactional ids that this broker coordinates (KIP-664).

- Filters by state and producer id; 1 also by how long a transaction has been going on (KIP-994). States that
  do not exist are named in the answer.
- COORDINATOR_LOAD_IN_PROGRESS while a partition of `__transaction_state` is being loaded.
- Ids that the principal may not describe are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.authorization import Operation, transactional_id
from odradek.broker.registry import handler
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext


@handler(ApiKey.LIST_TRANSACTIONS, versions=range(2))
def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List those that pass the filters."""
    listing = context.broker.transactions.coordinator.list(
        producer_ids=request.producer_id_filters,
        states=dict.fromkeys(request.state_filters),
        longer_than_ms=request.duration_filter,
    )
    return ListTransactionsResponse(
        unknown_state_filters=listing.unknown_states,
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.title,
            )
            for one in listing.transactions
            if context.authorize(Operation.DESCRIBE, transactional_id(one.transactional_id))
        ],
    )
