"""DescribeTransactions: the state of transactions (KIP-664)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    """The transactional ids."""

    transactional_ids: list[str] = array(string)


@struct
class TopicData(Struct):
    """An element of `TransactionState.topics`."""

    topic: str = string()
    partitions: list[int] = array(int32)


@struct
class TransactionState(Struct):
    """An element of `DescribeTransactionsResponse.transaction_states`."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@response(ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    """Their transactions."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
