"""ListTransactions: the transactions that a broker coordinates (KIP-664)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    """Filters by state, producer, age (1, KIP-994) and pattern (2, KIP-1152)."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class TransactionState(Struct):
    """An element of `ListTransactionsResponse.transaction_states`."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@response(ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    """The transactions."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
