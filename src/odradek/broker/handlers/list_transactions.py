"""ListTransactions 0-2: the transactional ids that this broker coordinates (KIP-664).

- Filters by state and producer id; 1 also by how long a transaction has been going on (KIP-994), 2 by a
  pattern that the whole id has to match (KIP-1152): INVALID_REGULAR_EXPRESSION for one that is none. States
  that do not exist are named in the answer.
- COORDINATOR_LOAD_IN_PROGRESS while a partition of `__transaction_state` is being loaded.
- Ids that the principal may not describe are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, count_each
from odradek.broker.requests.authorization import Operation, transactional_id
from odradek.errors import InvalidRegularExpressionError
from odradek.util.linear_regex import LinearPattern, PatternError
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext


@handler(ApiKey.LIST_TRANSACTIONS, versions=range(3))
def handle(context: RequestContext, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    """List those that pass the filters."""
    try:
        pattern = (
            LinearPattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
        )
    except PatternError as error:
        raise InvalidRegularExpressionError(str(error)) from error
    states = yield from count_each(request.state_filters, str)
    listing = context.broker.transactions.coordinator.list(
        producer_ids=request.producer_id_filters,
        states=states,
        longer_than_ms=request.duration_filter,
    )
    response = ListTransactionsResponse(unknown_state_filters=listing.unknown_states, transaction_states=[])
    for transaction in listing.transactions:
        if (pattern is None or pattern.matches(transaction.transactional_id)) and context.authorize(
            Operation.DESCRIBE, transactional_id(transaction.transactional_id)
        ):
            response.transaction_states.append(
                TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.title,
                )
            )
        yield
    return response
