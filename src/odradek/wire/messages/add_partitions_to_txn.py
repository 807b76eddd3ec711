"""AddPartitionsToTxn: partitions join a transaction.

Up to version 3 clients send it; from 4 on brokers do, for several transactions, or only to verify
(KIP-890).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AddPartitionsToTxnTopic(Struct):
    """An element of `AddPartitionsToTxnTransaction.topics`."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AddPartitionsToTxnTransaction(Struct):
    """An element of `AddPartitionsToTxnRequest.transactions`."""

    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


@request(ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    """The partitions."""

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    """An element of `AddPartitionsToTxnTopicResult.results_by_partition`."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult(Struct):
    """An element of `AddPartitionsToTxnResult.topic_results`."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@struct
class AddPartitionsToTxnResult(Struct):
    """An element of `AddPartitionsToTxnResponse.results_by_transaction`."""

    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


@response(ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    """Per partition, whether it joined."""

    throttle_time_ms: int = int32()
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )
