"""Keys and values of `__transaction_state`."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int16, int32, int64, string
from odradek.wire.message import Data, Struct, record_key, record_value, struct


@record_key(record_type=0, versions="0")
class TransactionLogKey(Data):
    """The key of a transactional id."""

    transactional_id: str = string()


@struct
class PartitionsSchema(Struct):
    """An element of `TransactionLogValue.transaction_partitions`."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


@record_value(versions="0-1", flexible="1+")
class TransactionLogValue(Data):
    """The state of a transactional id."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)
