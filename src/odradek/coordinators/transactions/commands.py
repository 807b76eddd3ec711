"""What requests do to a transactional id: each a function from the shard to an outcome.

The order of the checks decides which error a client sees; it is that of Kafka's
`TransactionCoordinator.scala` (its function is named at each). Where Kafka answers
CONCURRENT_TRANSACTIONS because an earlier change is still being replicated, commands here run on, and the
answers wait for the commit in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.coordinators.outcome import Outcome
from odradek.coordinators.transactions.shard import TransactionShard
from odradek.coordinators.transactions.states import AT_REST, PREPARED, TransactionState
from odradek.coordinators.transactions.transaction import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_ID,
    TRANSACTIONS_V2,
    Partition,
    Transaction,
    add_partitions,
    fence_and_abort,
    is_exhausted,
    new_transaction,
    prepare,
    raise_epoch,
    rotate,
)
from odradek.errors import ErrorCode, ProducerFencedError, error_for

_S = TransactionState


class ProducerResult(NamedTuple):
    """The answer to InitProducerId and EndTxn; id and epoch are -1 with an error."""

    error: ErrorCode
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH


class Expected(NamedTuple):
    """Producer id and epoch that a producer which goes on after an error has (InitProducerId v3+)."""

    producer_id: int
    epoch: int


def failed(error: ErrorCode) -> Outcome:
    """The outcome that only answers."""
    return Outcome(response=ProducerResult(error))


def init_producer_id(
    shard: TransactionShard, transactional_id: str, timeout_ms: int, expected: Expected | None
) -> Outcome:
    """InitProducerId with a transactional id (`handleInitProducerId`, `prepareInitProducerIdTransit`)."""
    env = shard.env
    if not transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    if not 0 < timeout_ms <= env.config.transaction_max_timeout_ms:
        return failed(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    now_ms = env.clock.now_ms()
    before = shard.transactions.get(transactional_id)
    if before is None:
        before = new_transaction(transactional_id, env.new_producer_id(), timeout_ms, now_ms)
    elif expected is not None and not _is_of(before, expected):
        return failed(ErrorCode.PRODUCER_FENCED)
    if before.state in PREPARED:
        return failed(ErrorCode.CONCURRENT_TRANSACTIONS)
    if before.state is _S.ONGOING:
        # The producer tries again until the abort is complete, and gets an epoch above this one then.
        return shard.write(fence_and_abort(before, now_ms), ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
    if is_exhausted(before.epoch) and (expected is None or expected.epoch == before.epoch):
        after = rotate(before, env.new_producer_id(), timeout_ms, expected is not None, now_ms)
    else:
        try:
            after = raise_epoch(before, timeout_ms, None if expected is None else expected.epoch, now_ms)
        except ProducerFencedError as error:
            return failed(error.code)
    return shard.write(after, ProducerResult(ErrorCode.NONE, after.producer_id, after.epoch))


def _is_of(transaction: Transaction, expected: Expected) -> bool:
    """Whether a producer that goes on may be the present one, or the one before whose answer was lost."""
    return expected.producer_id == transaction.producer_id or (
        expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch)
    )


def _checked(shard: TransactionShard, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
    """The transaction that a producer wants to widen or look at.

    Raises:
        KafkaError: it may not.
    """
    if not transactional_id:
        raise error_for(ErrorCode.INVALID_REQUEST)
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.producer_id != producer_id:
        raise error_for(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.epoch != epoch:
        raise ProducerFencedError
    if transaction.state in PREPARED:
        raise error_for(ErrorCode.CONCURRENT_TRANSACTIONS)
    return transaction


def add(
    shard: TransactionShard,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Iterable[Partition],
) -> Outcome:
    """AddPartitionsToTxn and AddOffsetsToTxn (`handleAddPartitionsToTransaction`): one error for all.

    Raises:
        KafkaError: the producer may not.
    """
    wanted = frozenset(partitions)
    before = _checked(shard, transactional_id, producer_id, epoch)
    result = dict.fromkeys(wanted, ErrorCode.NONE)
    if before.state is _S.ONGOING and wanted <= before.partitions:
        return Outcome(response=result)
    return shard.write(add_partitions(before, wanted, shard.env.clock.now_ms()), result)


def verify(
    shard: TransactionShard,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Iterable[Partition],
) -> Outcome:
    """AddPartitionsToTxn, verify only (`handleVerifyPartitionsInTransaction`): an error per partition.

    Raises:
        KafkaError: the producer may not.
    """
    transaction = _checked(shard, transactional_id, producer_id, epoch)
    return Outcome(
        response={
            partition: ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }
    )


def end(
    shard: TransactionShard,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    client_version: int,
) -> Outcome:
    """EndTxn (`endTransaction`).

    Args:
        shard: of the id.
        transactional_id: whose transaction.
        producer_id: the client's.
        epoch: the client's.
        commit: or abort.
        client_version: 2 for EndTxn v5+ (KIP-890), which raises the epoch, else 0.
    """
    if not transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    client_version = min(client_version, shard.env.config.transaction_version)
    before = shard.transactions.get(transactional_id)
    if before is None:
        return failed(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    ended_by_v2 = before.client_version >= TRANSACTIONS_V2
    # Repeated requests of V2, whose first answer was lost, know the epoch (or id) from before the end.
    after_rotation = (
        ended_by_v2
        and before.previous_producer_id == producer_id
        and epoch == MAX_EPOCH - 1
        and before.epoch == 0
    )
    if before.producer_id != producer_id and not after_rotation:
        return failed(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if ended_by_v2 and before.state in PREPARED:
        known = before.epoch == epoch + 1
    elif ended_by_v2 and before.state in AT_REST and before.state is not _S.EMPTY:
        known = before.epoch == epoch + 1 or after_rotation
    else:
        known = before.epoch == epoch
    if not known:
        return failed(ErrorCode.PRODUCER_FENCED)
    if before.state is _S.ONGOING:
        next_id = NO_ID
        if client_version >= TRANSACTIONS_V2 and is_exhausted(before.epoch):
            next_id = shard.env.new_producer_id()
        after = prepare(
            before,
            commit=commit,
            client_version=client_version,
            next_producer_id=next_id,
            now_ms=shard.env.clock.now_ms(),
        )
        return shard.write(after, ProducerResult(ErrorCode.NONE, after.producer_id, after.epoch))
    if before.state is (_S.COMPLETE_COMMIT if commit else _S.COMPLETE_ABORT):
        return Outcome(response=ProducerResult(ErrorCode.NONE, before.producer_id, before.epoch))
    if before.state is (_S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT):
        return failed(ErrorCode.CONCURRENT_TRANSACTIONS)
    return failed(ErrorCode.INVALID_TXN_STATE)
