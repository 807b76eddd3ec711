# compiled: mypyc
"""The admission of transactional batches: the partition belongs to the producer's open transaction (KIP-890).

    the producer has a transaction open in the partition ──────────────────────────────────► append
    else ── the coordinator is asked, or told (`joins`) ── NONE ── no marker came meanwhile ─► append
                                                        │      └─ one came: to be asked again
                                                        └─ an error ────────────────────────► refused

CONCURRENT_TRANSACTIONS, which says that the markers of the transaction before are still on their way, is no
error yet for who `asks_again`: the coordinator is asked every `add.partitions.to.txn.retry.backoff.ms`, until
`add.partitions.to.txn.retry.backoff.max.ms` (or `request.timeout.ms`) have passed. A client that did so by
itself would send all of its records again.

Clients up to Produce 11 and TxnOffsetCommit 4 have added the partition themselves; of newer ones the broker
adds it. Kafka: `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`,
`CoordinatorPartitionWriter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from odradek.errors import NotLeaderOrFollowerError, OutOfOrderSequenceError
from odradek.errors.codes import ErrorCode
from odradek.util.futures import then
from odradek.util.promise import Promise
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices
    from odradek.log.producers.producer_state import ProducerState
    from odradek.log.producers.verification import Verification
    from odradek.replication.partition import Partition


@final
class Admission:
    """The answers known of a request's transactional batches, which one producer has written.

    `note` each of them, `ask`, and `check` each right before it is appended: while the coordinator was asked,
    a marker may have come. In a transaction that goes on this is two looks into the producers' state, and
    nothing is kept.

    Attributes:
        producer_id, epoch: the producer.
        errors: why partitions may not be written.
    """

    __slots__ = (
        "_asks_again",
        "_began_ms",
        "_broker",
        "_joins",
        "_knows_abortable",
        "_outside",
        "_verified",
        "epoch",
        "errors",
        "producer_id",
    )

    def __init__(
        self,
        broker: BrokerServices,
        producer_id: int,
        epoch: int,
        *,
        joins: bool,
        knows_abortable: bool,
        asks_again: bool = False,
    ) -> None:
        """
        Args:
            broker: that leads the partitions.
            producer_id, epoch: the producer.
            joins: whether partitions are added that do not belong to the transaction yet.
            knows_abortable: whether the client knows TRANSACTION_ABORTABLE; else it is told
                INVALID_TXN_STATE.
            asks_again: whether the coordinator is asked again where it answers CONCURRENT_TRANSACTIONS.
        """
        self.producer_id = producer_id
        self.epoch = epoch
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self._asks_again = asks_again
        self._began_ms = 0.0
        """When the coordinator was asked first, monotonic."""
        self._broker = broker
        self._joins = joins
        self._knows_abortable = knows_abortable
        self._outside: dict[TopicPartition, tuple[ProducerState, int]] = {}
        """Partitions that the transaction is not open in, and the first sequence of what is to be written."""
        self._verified: dict[TopicPartition, Verification | None] = {}
        """What was asked of these; None where this broker did not lead."""

    def is_open_in(self, producers: ProducerState) -> bool:
        """Return whether the producer has its transaction open in a partition. One of an older epoch is
        another.
        """
        return producers.in_transaction(self.producer_id, self.epoch)

    def note(self, key: TopicPartition, partition: Partition | None, sequence: int) -> None:
        """Take note of a batch that is to be written.

        Args:
            key, partition: where to. What is not here, or not led here, is left to the append, which says so.
            sequence: the batch's first.
        """
        if partition is None or not partition.is_leader:
            self._verified[key] = None
            return
        producers = partition.log.producers
        if not self.is_open_in(producers):
            self._outside[key] = producers, sequence

    def is_asked_for(self) -> bool:
        """Return whether a question is open about the producer in a partition that was noted."""
        if not self._outside or not self._is_required():
            return False
        for producers, _ in self._outside.values():
            if producers.verifications.is_asked_of(self.producer_id):
                return True
        return False

    def ask(self, transactional_id: str) -> Admission | asyncio.Future[Admission]:
        """Find out where the producer may write to, of what was noted.

        Returns:
            This, or a future of it where the coordinator has to wait for its log.
        """
        if not self._outside or not self._is_required():
            return self
        self._began_ms = self._broker.stopwatch.monotonic_ms()
        return self._ask(transactional_id)

    def _ask(self, transactional_id: str) -> Admission | asyncio.Future[Admission]:
        broker = self._broker
        producer_id, epoch = self.producer_id, self.epoch
        now_ms = broker.clock.now_ms()
        for key, (producers, sequence) in self._outside.items():
            self._verified[key] = producers.verifications.begin(producer_id, epoch, sequence, now_ms)
        ask = broker.transactions.add if self._joins else broker.transactions.verify
        answer = ask(transactional_id, producer_id, epoch, list(self._outside))
        if not isinstance(answer, Promise):
            return self._take(transactional_id, answer)
        return then(answer, lambda errors: self._take(transactional_id, errors))

    def _take(
        self, transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
    ) -> Admission | asyncio.Future[Admission]:
        """The coordinator has answered: it is asked again after a pause, or that is all."""
        if self._asks_again and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values():
            broker = self._broker
            config = broker.config
            most_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
            if broker.stopwatch.monotonic_ms() - self._began_ms < most_ms:
                pause: asyncio.Future[None] = broker.loop.create_future()
                broker.pauses.call_later(
                    config.add_partitions_to_txn_retry_backoff_ms, lambda: _end_pause(pause)
                )
                return then(pause, lambda _: self._ask(transactional_id))
        return self._conclude(errors)

    def _is_required(self) -> bool:
        """Return whether the coordinator has to know of what is written."""
        return self._joins or self._broker.config.transaction_partition_verification_enable

    def _conclude(self, errors: Mapping[TopicPartition, ErrorCode]) -> Admission:
        """The coordinator is not asked any more."""
        failures = 0
        for key, (producers, _) in self._outside.items():
            error = errors.get(key, ErrorCode.NONE)
            if error is ErrorCode.NONE:
                continue
            failures += 1
            self.errors[key] = _seen_by_client(error, self._knows_abortable)
            if error not in _OF_A_KNOWN_PRODUCER:
                # Nothing is kept of whoever makes ids up.
                producers.verifications.give_up(self.producer_id, self.epoch)
        broker = self._broker
        broker.transactions.verified.observe(broker.stopwatch.monotonic_ms() - self._began_ms, failures)
        return self

    def check(self, key: TopicPartition, producers: ProducerState, sequence: int) -> None:
        """Check whether a batch may be appended now; to be called right before it is.

        Args:
            key: the partition.
            producers: of the partition.
            sequence: the batch's first.

        Raises:
            KafkaError: a transaction has ended meanwhile, or no batch was noted for the partition,
                CONCURRENT_TRANSACTIONS; an earlier batch is still to come; or this broker did not lead
                the partition when the coordinator was asked, NOT_LEADER_OR_FOLLOWER.
        """
        if self.is_open_in(producers) or not self._is_required():
            return
        verification = self._verified.get(key)
        if verification is None and key in self._verified:
            raise NotLeaderOrFollowerError(
                f"this broker did not lead {key[0]}-{key[1]} when the transaction was verified"
            )
        producers.verifications.require(self.producer_id, sequence, verification)
        entry = producers.entries.get(self.producer_id)
        if self._joins and sequence > 0 and (entry is None or not entry.batches):
            # Its epoch is of this transaction alone, so there is nothing that could have been deleted.
            raise OutOfOrderSequenceError(
                f"producer {self.producer_id} begins a transaction with sequence {sequence}, not 0"
            )


def _end_pause(pause: asyncio.Future[None]) -> None:
    """The time is up, unless nobody waits for it any more."""
    if not pause.done():
        pause.set_result(None)


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
