"""Who may write a transactional batch: the partition belongs to the producer's open transaction (KIP-890).

    the producer has a transaction open in the partition ──────────────────────────────────► append
    else ── the coordinator is asked, or told (`joins`) ── NONE ── no marker came meanwhile ─► append
                                                        │      └─ one came: to be asked again
                                                        └─ an error ────────────────────────► refused

Clients up to Produce 11 and TxnOffsetCommit 4 have added the partition themselves; of newer ones the broker
adds it. Kafka: `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`,
`CoordinatorPartitionWriter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.errors import NotLeaderOrFollowerError, OutOfOrderSequenceError
from odradek.errors.codes import ErrorCode
from odradek.util.futures import then

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices
    from odradek.log.producers.producer_state import ProducerState
    from odradek.log.producers.verification import Verification

PartitionKey = tuple[str, int]


class Admission:
    """What is known of a request's transactional batches.

    Attributes:
        errors: why partitions may not be written.
    """

    __slots__ = ("_joins", "_required", "_verified", "errors")

    def __init__(self, required: bool, joins: bool) -> None:
        self.errors: dict[PartitionKey, ErrorCode] = {}
        self._required = required
        self._joins = joins
        self._verified: dict[PartitionKey, Verification | None] = {}

    def check(
        self, key: PartitionKey, producers: ProducerState, producer_id: int, epoch: int, sequence: int
    ) -> None:
        """Whether a batch may be appended now; to be called right before it is.

        Args:
            key: the partition.
            producers: of the partition.
            producer_id, epoch: whose transactional batch it is.
            sequence: the batch's first.

        Raises:
            KafkaError: a transaction has ended meanwhile, CONCURRENT_TRANSACTIONS; an earlier batch is still
                to come; or this broker did not lead the partition when the coordinator was asked,
                NOT_LEADER_OR_FOLLOWER.
        """
        if self._required and not producers.in_transaction(producer_id, epoch):
            if key not in self._verified:
                raise NotLeaderOrFollowerError(
                    f"this broker did not lead {key[0]}-{key[1]} when the transaction was verified"
                )
            producers.verifications.require(producer_id, sequence, self._verified.get(key))
            entry = producers.entries.get(producer_id)
            if self._joins and sequence > 0 and (entry is None or not entry.batches):
                # Its epoch is of this transaction alone, so there is nothing that could have been deleted.
                raise OutOfOrderSequenceError(
                    f"producer {producer_id} begins a transaction with sequence {sequence}, not 0"
                )


def admit(
    broker: BrokerServices,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    sequences: Mapping[PartitionKey, int],
    *,
    joins: bool,
    knows_abortable: bool,
) -> Admission | asyncio.Future[Admission]:
    """Find out which partitions a producer may write to in its transaction.

    Args:
        broker: that leads them. Partitions that it does not lead are left to the append, which says so.
        transactional_id, producer_id, epoch: the producer.
        sequences: the partitions, and the first sequence of what is to be written.
        joins: whether partitions are added that do not belong to the transaction yet.
        knows_abortable: whether the client knows TRANSACTION_ABORTABLE; else it is told INVALID_TXN_STATE.

    Returns:
        What came of it, or a future of that where the coordinator has to wait for its log.
    """
    required = joins or broker.config.transaction_partition_verification_enable
    admission = Admission(required, joins)
    if not required:
        return admission
    asked = _begin(broker, admission, producer_id, epoch, sequences)
    if not asked:
        return admission
    began_ms = broker.clock.monotonic_ms()

    def take(errors: Mapping[PartitionKey, ErrorCode]) -> Admission:
        failures = sum(errors.get(key, ErrorCode.NONE) is not ErrorCode.NONE for key in asked)
        broker.transactions.verified.observe(broker.clock.monotonic_ms() - began_ms, failures)
        for key, producers in asked.items():
            error = errors.get(key, ErrorCode.NONE)
            if error is ErrorCode.NONE:
                continue
            admission.errors[key] = _seen_by_client(error, knows_abortable)
            if error not in _OF_A_KNOWN_PRODUCER:
                # Nothing is kept of whoever makes ids up.
                producers.verifications.give_up(producer_id, epoch)
        return admission

    ask = broker.transactions.add if joins else broker.transactions.verify
    answer = ask(transactional_id, producer_id, epoch, list(asked))
    if not isinstance(answer, asyncio.Future):
        return take(answer)
    return then(answer, take)


def _begin(
    broker: BrokerServices,
    admission: Admission,
    producer_id: int,
    epoch: int,
    sequences: Mapping[PartitionKey, int],
) -> dict[PartitionKey, ProducerState]:
    """Note which partitions are in the transaction already; return those that the coordinator is asked of."""
    now_ms = broker.clock.now_ms()
    asked: dict[PartitionKey, ProducerState] = {}
    for key, sequence in sequences.items():
        partition = broker.replicas.find(*key)
        if partition is None or not partition.is_leader:
            continue
        producers = partition.log.producers
        # One of an older epoch is another one.
        if producers.in_transaction(producer_id, epoch):
            admission._verified[key] = None
            continue
        asked[key] = producers
        admission._verified[key] = producers.verifications.begin(producer_id, epoch, sequence, now_ms)
    return asked


_OF_A_KNOWN_PRODUCER = {
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
}
"""Errors after which a later batch has to wait for the one that was refused, as in Kafka."""


def _seen_by_client(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        # Producers abort at the one and give up at the other; while they write the first is meant.
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
