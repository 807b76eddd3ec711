"""The commands on a transactional id: each a function from the shard to an outcome.

The order of the checks decides which error a client sees; it is that of Kafka's
`TransactionCoordinator.scala` (its function is named at each). Where Kafka answers
CONCURRENT_TRANSACTIONS because an earlier change is still being replicated, commands here run on, and the
answers wait for the commit in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from odradek.coordinators.outcome import Outcome
from odradek.coordinators.transactions.config import TransactionConfig
from odradek.coordinators.transactions.shard import TransactionShard
from odradek.coordinators.transactions.states import AT_REST, PREPARED, TransactionState
from odradek.coordinators.transactions.transaction import (
    MAX_EPOCH,
    NEVER_MS,
    NO_ID,
    TRANSACTIONS_V2,
    Transaction,
    add_partitions,
    is_exhausted,
    keep,
    new_transaction,
    prepare,
    raise_epoch,
    rotate,
)
from odradek.errors import ErrorCode, ProducerFencedError, error_for
from odradek.util.topic_partition import TopicPartition
from odradek.wire.epochs import NO_EPOCH

_S = TransactionState

MAX_PARTITIONS = 20_000
"""Partitions that one transaction may have. Each that joins has all of them written anew, in one go: so many
take 40 ms. Kafka's own bound is the size of that record: UNKNOWN_SERVER_ERROR from some 250,000 on."""


class ProducerResult(NamedTuple):
    """The answer to InitProducerId and EndTxn; ids and epochs are -1 with an error.

    Attributes:
        error: what happened.
        producer_id, epoch: to go on with.
        ongoing_producer_id, ongoing_epoch: of the transaction that InitProducerId has kept, else -1.
    """

    error: ErrorCode
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH
    ongoing_producer_id: int = NO_ID
    ongoing_epoch: int = NO_EPOCH


class Expected(NamedTuple):
    """Producer id and epoch that a producer which goes on after an error has (InitProducerId v3+)."""

    producer_id: int
    epoch: int


def failed(error: ErrorCode) -> Outcome:
    """The outcome that only answers."""
    return Outcome(response=ProducerResult(error))


def init_producer_id(
    shard: TransactionShard,
    transactional_id: str,
    timeout_ms: int,
    expected: Expected | None,
    *,
    two_phase: bool = False,
    keep_prepared: bool = False,
) -> Outcome:
    """InitProducerId with a transactional id (`handleInitProducerId`, `prepareInitProducerIdTransit`).

    Args:
        shard: of the id.
        transactional_id: whose producer comes.
        timeout_ms: of the producer's transactions.
        expected: what a producer that goes on holds, else `None`.
        two_phase: its transactions never time out (KIP-939).
        keep_prepared: an ongoing transaction is kept for the producer to end, not aborted (KIP-939).
    """
    env = shard.env
    if not transactional_id:
        return failed(ErrorCode.INVALID_REQUEST)
    refusal = _refusal(env.config, timeout_ms, expected, two_phase, keep_prepared)
    if refusal is not None:
        return failed(refusal)
    if two_phase:
        timeout_ms = NEVER_MS
    now_ms = env.clock.now_ms()
    before = shard.transactions.get(transactional_id)
    # An id that has expired is like a new one: its producer goes on under another producer id.
    if before is None:
        before = new_transaction(transactional_id, env.new_producer_id(), timeout_ms, now_ms)
    # Decided, but not told to all partitions: a new epoch would fence the markers that are on their way.
    elif before.state in PREPARED:
        return failed(ErrorCode.CONCURRENT_TRANSACTIONS)
    elif expected is not None and not _is_of(before, expected):
        return failed(ErrorCode.PRODUCER_FENCED)
    if before.state is _S.ONGOING and keep_prepared:
        rotated = env.new_producer_id() if is_exhausted(before.client[1]) else NO_ID
        after = keep(before, rotated, now_ms)
        ongoing = after.producer_id, after.epoch
        return shard.write(after, ProducerResult(ErrorCode.NONE, *after.client, *ongoing))
    if before.state is _S.ONGOING:
        if expected is not None and expected != before.client:
            # Whoever is not its owner could not go on after the abort either.
            return failed(ErrorCode.PRODUCER_FENCED)
        # The producer tries again until the abort is complete, and gets an epoch above this one then.
        again = ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        return shard.fence(before, again, for_another=expected is None)
    # A producer that names the epoch before this one repeats a request whose answer was lost, and gets that
    # answer again.
    if is_exhausted(before.epoch) and (expected is None or expected.epoch == before.epoch):
        after = rotate(before, env.new_producer_id(), timeout_ms, expected is not None, now_ms)
    else:
        try:
            after = raise_epoch(before, timeout_ms, None if expected is None else expected.epoch, now_ms)
        except ProducerFencedError as error:
            return failed(error.code)
    return shard.write(after, ProducerResult(ErrorCode.NONE, after.producer_id, after.epoch))


def _refusal(
    config: TransactionConfig,
    timeout_ms: int,
    expected: Expected | None,
    two_phase: bool,
    keep_prepared: bool,
) -> ErrorCode | None:
    """Return why a producer cannot have what it asks for, whatever its transaction is like; None where it
    can.
    """
    if two_phase and not config.transaction_two_phase_commit_enable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if keep_prepared and expected is not None:
        return ErrorCode.INVALID_REQUEST
    if keep_prepared and config.transaction_version < TRANSACTIONS_V2:
        # The records have no room for the second epoch.
        return ErrorCode.UNSUPPORTED_VERSION
    if not two_phase and not 0 < timeout_ms <= config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def _is_of(transaction: Transaction, expected: Expected) -> bool:
    """Return whether a producer that goes on may be the present one, or its predecessor whose answer was
    lost."""
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
    if transaction is not None and transaction.state is _S.ONGOING and transaction.is_kept:
        # A kept transaction can only be ended; whoever has begun it is fenced.
        if transaction.client == (producer_id, epoch):
            raise error_for(ErrorCode.INVALID_TXN_STATE)
        raise ProducerFencedError
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
    partitions: Collection[TopicPartition],
) -> Outcome:
    """AddPartitionsToTxn and AddOffsetsToTxn (`handleAddPartitionsToTransaction`): one error for all.

    Raises:
        KafkaError: the producer may not; INVALID_REQUEST for more than `MAX_PARTITIONS`.
    """
    _require_room(len(partitions))
    added = frozenset(partitions)
    current = shard.transactions.get(transactional_id)
    if current is not None and current.state in PREPARED:
        # First of all: after the end of V2 the client may have an id that is still to take over.
        raise error_for(ErrorCode.CONCURRENT_TRANSACTIONS)
    before = _checked(shard, transactional_id, producer_id, epoch)
    result = dict.fromkeys(added, ErrorCode.NONE)
    if before.state is _S.ONGOING:
        # Known already, so nothing is written: a producer that was not answered asks again.
        if added <= before.partitions:
            return Outcome(response=result)
        if len(before.partitions) + len(added) > MAX_PARTITIONS:
            _require_room(len(before.partitions | added))
    return shard.write(add_partitions(before, added, shard.env.clock.now_ms()), result)


def _require_room(partitions: int) -> None:
    if partitions > MAX_PARTITIONS:
        raise error_for(
            ErrorCode.INVALID_REQUEST,
            f"a transaction has at most {MAX_PARTITIONS} partitions, not {partitions}",
        )


def verify(
    shard: TransactionShard,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Iterable[TopicPartition],
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
    if before.is_kept:
        # Only the end as V2 has it can make one pair of the two.
        client_version = TRANSACTIONS_V2
    is_v2 = client_version >= TRANSACTIONS_V2
    if is_v2 and before.state in PREPARED:
        # Repeated, or already of the next transaction: that can be told when this one is complete.
        return failed(ErrorCode.CONCURRENT_TRANSACTIONS)
    client_id, client_epoch = before.client
    former = is_v2 and _is_former(before, producer_id, epoch)
    repeated = former and before.client_version >= TRANSACTIONS_V2 and before.state in AT_REST - {_S.EMPTY}
    if client_id != producer_id and not former:
        return failed(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client_epoch != epoch and not repeated:
        return failed(ErrorCode.PRODUCER_FENCED)
    if before.state in PREPARED:
        return failed(ErrorCode.CONCURRENT_TRANSACTIONS)
    if before.state in AT_REST:
        # Nothing is open. The outcome that was, asked for again, is answered as it was; an abort of nothing
        # is allowed to V2 clients, who cannot know whether anything was written (KIP-890).
        same = before.state is (_S.COMPLETE_COMMIT if commit else _S.COMPLETE_ABORT)
        if same and (repeated or not is_v2):
            return Outcome(response=ProducerResult(ErrorCode.NONE, *before.client))
        if commit or not is_v2 or repeated:
            return failed(ErrorCode.INVALID_TXN_STATE)
    after = prepare(
        before,
        commit=commit,
        client_version=client_version,
        next_producer_id=shard.env.new_producer_id() if is_v2 and is_exhausted(client_epoch) else NO_ID,
        now_ms=shard.env.clock.now_ms(),
    )
    return shard.write(after, ProducerResult(ErrorCode.NONE, *after.client))


def _is_former(current: Transaction, producer_id: int, epoch: int) -> bool:
    """Return whether a client names the id and epoch before the present ones."""
    client_id, client_epoch = current.client
    if client_id == producer_id:
        return client_epoch == epoch + 1
    return client_epoch == 0 and epoch == MAX_EPOCH - 1 and current.previous_producer_id == producer_id
