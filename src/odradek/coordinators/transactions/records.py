"""The records of `__transaction_state` (Kafka's `TransactionLog.scala`).

Value version 0 until the feature `transaction.version` is at least 1, then version 1. A state without
partitions has an empty list of them, except Empty, which has none at all (null).
"""

from __future__ import annotations

from odradek.coordinators.outcome import CoordinatorRecord
from odradek.coordinators.transactions.states import TransactionState
from odradek.coordinators.transactions.transaction import Transaction
from odradek.errors import ProtocolError
from odradek.wire.schemas.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue

KEY_VERSION = 0


def transaction_value(transaction: Transaction) -> TransactionLogValue:
    """The durable picture of `transaction`; topics and partitions in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        next_producer_epoch=transaction.next_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )


def transaction_record(transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """The record of `transaction` at a level of the feature `transaction.version`."""
    value = transaction_value(transaction)
    if transaction_version < 1:
        # Version 0 has no room for them.
        value.previous_producer_id = value.next_producer_id = value.next_producer_epoch = -1
        value.client_transaction_version = 0
    key = TransactionLogKey(transactional_id=transaction.transactional_id)
    return CoordinatorRecord(key, KEY_VERSION, value, 1 if transaction_version >= 1 else 0)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that removes an id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION, None, 0)


def read_transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """The transaction that a record's value tells of.

    Raises:
        ProtocolError: the state is unknown, or one that is never written.
    """
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolError(f"transaction state {value.transaction_status} is unknown") from None
    if state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise ProtocolError(f"transaction state {state.title} does not belong into the log")
    topics = [] if state is TransactionState.EMPTY else value.transaction_partitions or []
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        value.transaction_last_update_timestamp_ms,
        partitions=frozenset((entry.topic, index) for entry in topics for index in entry.partition_ids),
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
        next_epoch=value.next_producer_epoch,
    )
