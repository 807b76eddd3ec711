"""The transaction coordinator: what a broker's handlers are to call.

Answers come through a `Reply`, perhaps before the method returns. They are plain data: a handler puts them
into the form of the request's version (`error_for_version` says what old clients cannot understand).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.coordinators.deadlines import Deadlines
from odradek.coordinators.outcome import Outcome
from odradek.coordinators.partitioner import partition_for
from odradek.coordinators.reply import Reply
from odradek.coordinators.runtime import CoordinatorRuntime, DeferredResponse, RecordLog, ShardState
from odradek.coordinators.transactions.commands import Expected, ProducerResult, add, end, verify
from odradek.coordinators.transactions.commands import init_producer_id as init
from odradek.coordinators.transactions.config import TransactionConfig
from odradek.coordinators.transactions.markers import TransactionMarkers
from odradek.coordinators.transactions.shard import TransactionEnv, TransactionShard
from odradek.coordinators.transactions.states import STATE_BY_TITLE
from odradek.coordinators.transactions.transaction import Transaction
from odradek.errors import (
    CoordinatorLoadInProgressError,
    ErrorCode,
    KafkaError,
    error_for,
)
from odradek.util.clock import Clock
from odradek.util.timers import Timers
from odradek.util.topic_partition import TopicPartition
from odradek.wire.internal_topics import TRANSACTION_STATE_TOPIC

# PRODUCER_FENCED came with KIP-588; clients before know the same by the other error.
_FIRST_VERSION_WITH_FENCED = {
    "InitProducerId": 4,
    "AddPartitionsToTxn": 2,
    "AddOffsetsToTxn": 2,
    "EndTxn": 2,
}

_LOAD_TIMES_KEPT = 1_000
"""For the gauges of loading: enough for each partition of the topic, and bounded."""

PartitionErrors = dict[TopicPartition, ErrorCode]


def error_for_version(error: ErrorCode, api: str, version: int) -> ErrorCode:
    """The code that a client of this version understands (`KafkaApis.scala`).

    Args:
        error: what happened.
        api: the request's name.
        version: the request's version.
    """
    if error is ErrorCode.PRODUCER_FENCED and version < _FIRST_VERSION_WITH_FENCED[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


class Added(NamedTuple):
    """One transaction of a batched AddPartitionsToTxn (v4+, sent by brokers)."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Sequence[TopicPartition]
    verify_only: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """The data of a ListTransactions response."""

    transactions: list[Transaction]
    unknown_states: list[str]


class TransactionCoordinator:
    """Coordinates the transactional ids whose partitions of `__transaction_state` this broker leads.

    Args:
        config: the broker's settings; may be replaced later.
        log: the partitions of the topic.
        clock: the time.
        timers: for timeouts and expiry.
        stopwatch, pauses: for what is tried again, and for how long an answer waits for its commit.
        new_producer_id: a producer id that nobody has; raises `KafkaError` if there is none at the moment.
        send: takes markers that are to be written; `markers_answered` is to be called with what came of it.
        partition_count: partitions of the topic as it is; 0 while it does not exist.

    Attributes:
        load_times: how long the last partitions took to be loaded, in milliseconds.
    """

    def __init__(
        self,
        *,
        config: TransactionConfig,
        log: RecordLog,
        clock: Clock,
        timers: Timers,
        stopwatch: Clock,
        pauses: Timers,
        new_producer_id: Callable[[], int],
        send: Callable[[TransactionMarkers], None],
        partition_count: int = 0,
    ) -> None:
        self.config = config
        self.partition_count = partition_count
        self._clock = clock
        self._timers = timers
        self._stopwatch = stopwatch
        self._pauses = pauses
        self._new_producer_id = new_producer_id
        self._send = send
        # Of the `load` under way: the runtime calls `_new_shard` with the partition alone, before it returns.
        self._loading_epoch = -1
        self.load_times: deque[float] = deque(maxlen=_LOAD_TIMES_KEPT)
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            topic=TRANSACTION_STATE_TOPIC,
            log=log,
            clock=clock,
            timers=pauses,
            new_shard=self._new_shard,
            commit_timeout_ms=config.commit_timeout_ms,
        )

    def _new_shard(self, partition: int) -> tuple[TransactionShard, list[DeferredResponse]]:
        began_ms = self._clock.monotonic_ms()

        def run(name: str, command: Callable[[], Outcome]) -> None:
            self.runtime.run(partition, name, lambda shard: command())

        env = TransactionEnv(
            lambda: self.config,
            self._clock,
            Deadlines(self._timers, self._clock),
            Deadlines(self._pauses, self._stopwatch),
            self._loading_epoch,
            self._new_producer_id,
            self._send,
            run,
            lambda: self.load_times.append(self._clock.monotonic_ms() - began_ms),
        )
        return TransactionShard(env), env.outbox

    def load(self, partition: int, leader_epoch: int) -> None:
        """Take a partition over as its leader; markers will carry `leader_epoch`."""
        self._loading_epoch = leader_epoch
        self.runtime.load(partition, leader_epoch)

    def partition_of(self, transactional_id: str) -> int:
        """The partition that coordinates an id.

        Raises:
            NotCoordinatorError: the topic does not exist yet, so nobody does.
        """
        return partition_for(transactional_id, self.partition_count)

    # Requests

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: Expected | None,
        reply: Reply[ProducerResult],
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> None:
        """InitProducerId.

        Args:
            transactional_id: `None` for a producer that is idempotent only.
            timeout_ms: of the producer's transactions.
            expected: id and epoch that the producer has, if it goes on after an error (v3+).
            reply: gets the producer's id and epoch.
            two_phase, keep_prepared: of KIP-939 (v6); see `commands.init_producer_id`.
        """
        # Nothing is remembered of an idempotent producer, so any broker can answer it (KIP-98).
        if transactional_id is None:
            try:
                reply.answer(ProducerResult(ErrorCode.NONE, self._new_producer_id(), 0))
            except KafkaError as error:
                reply.fail(error.code)
            return
        self._run(
            transactional_id,
            "init",
            lambda shard: init(
                shard,
                transactional_id,
                timeout_ms,
                expected,
                two_phase=two_phase,
                keep_prepared=keep_prepared,
            ),
            reply,
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        reply: Reply[PartitionErrors],
        *,
        verify_only: bool = False,
    ) -> None:
        """AddPartitionsToTxn for one transaction."""
        command = verify if verify_only else add
        self._run(
            transactional_id,
            "add",
            lambda shard: command(shard, transactional_id, producer_id, epoch, partitions),
            reply,
        )

    def add_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        offsets_partition: TopicPartition,
        reply: Reply[PartitionErrors],
    ) -> None:
        """AddOffsetsToTxn: adds the partition of `__consumer_offsets` that has the group."""
        self.add_partitions(transactional_id, producer_id, epoch, [offsets_partition], reply)

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        client_version: int,
        reply: Reply[ProducerResult],
    ) -> None:
        """EndTxn; `client_version` is 2 for request versions from 5 on (KIP-890), else 0."""
        self._run(
            transactional_id,
            "end",
            lambda shard: end(
                shard, transactional_id, producer_id, epoch, commit=commit, client_version=client_version
            ),
            reply,
        )

    def _run(
        self,
        transactional_id: str,
        name: str,
        command: Callable[[TransactionShard], Outcome],
        reply: Reply[ProducerResult] | Reply[PartitionErrors],
    ) -> None:
        # Null is a producer without transactions; the empty id would be one that all bad clients share.
        if not transactional_id:
            reply.fail(ErrorCode.INVALID_REQUEST)
            return
        try:
            partition = self.partition_of(transactional_id)
        except KafkaError as error:
            reply.fail(error.code)
            return
        self.runtime.run(partition, name, command, reply)  # type: ignore[misc]

    # Markers

    @property
    def incomplete(self) -> int:
        """The number of transactions that have all their markers, and a completion that is still to be
        written.
        """
        runtime = self.runtime
        return sum(
            runtime.shard(partition).incomplete
            for partition in runtime.partitions()
            if runtime.state(partition) is ShardState.ACTIVE
        )

    def markers_answered(
        self, markers: TransactionMarkers, results: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        """Take what came of markers that were given out; see `TransactionShard.markers_answered`."""
        self.runtime.run(
            self.partition_of(markers.transactional_id),
            "markers",
            lambda shard: shard.markers_answered(markers, results),
        )

    def owes(self, markers: TransactionMarkers) -> bool:
        """Return whether markers that were given out are still to be written, by this coordinator."""
        # The topic is not known here any more, so nobody's markers are this broker's to write.
        if not self.partition_count:
            return False
        partition = self.partition_of(markers.transactional_id)
        return self.runtime.state(partition) is ShardState.ACTIVE and self.runtime.shard(partition).owes(
            markers
        )

    # Reading

    def describe(self, transactional_id: str) -> Transaction:
        """Describe an id, as DescribeTransactions does (`handleDescribeTransactions`).

        Raises:
            KafkaError: it is not known, or not known here.
        """
        if not transactional_id:
            raise error_for(ErrorCode.INVALID_REQUEST)
        shard = self.runtime.shard(self.partition_of(transactional_id))
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            raise error_for(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction

    def list(
        self, *, producer_ids: Iterable[int] = (), states: Iterable[str] = (), longer_than_ms: int = -1
    ) -> Listing:
        """List transactions, as ListTransactions does (`listTransactionStates`).

        Args:
            producer_ids: only of these producers; none given: of all.
            states: only in these states, by name; none given: in all.
            longer_than_ms: only what began more than this ago; negative: all.

        Raises:
            CoordinatorLoadInProgressError: a partition is being loaded.
        """
        partitions = self.runtime.partitions()
        # A list that silently lacks a partition's transactions would hide the one that hangs.
        if any(self.runtime.state(partition) is ShardState.LOADING for partition in partitions):
            raise CoordinatorLoadInProgressError
        ids, names, now_ms = set(producer_ids), list(states), self._clock.now_ms()
        # Names that no state has are told apart, so that a client of a newer release knows (KIP-664).
        wanted_states = {STATE_BY_TITLE[name] for name in names if name in STATE_BY_TITLE}
        listed = [
            transaction
            for partition in partitions
            if self.runtime.state(partition) is ShardState.ACTIVE
            for transaction in self.runtime.shard(partition).transactions.values()
            if (not ids or transaction.producer_id in ids)
            and (not names or transaction.state in wanted_states)
            and (longer_than_ms < 0 or now_ms - transaction.start_ms > longer_than_ms)
        ]
        return Listing(listed, [name for name in names if name not in STATE_BY_TITLE])
