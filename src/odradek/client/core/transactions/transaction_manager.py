"""The transactional producer's state machine: which request is due next, and what an answer means.

KIP-98; KIP-360 (a producer that goes on after an error raises its epoch); KIP-447 (offsets prove the
consumer's generation); KIP-890 (partitions join by themselves, every transaction has an epoch); KIP-939 (two
phases). The module `state_machine` has the states and what errors do to them, `errors` the meaning of errors;
`queue` keeps the requests that are due.

Nothing here sends, waits or reads a clock. A shell asks `next_request`, sends it, and hands the answer to
`answered`, or says `not_answered`. One request is on its way at a time. `add_partition` and `next_request`
are to be called under the lock of the batches if several threads append.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.core.find_coordinator import coordinator_in, refusal_in
from odradek.client.core.transactions.errors import ErrorReaction, reaction_to
from odradek.client.core.transactions.queue import Priority
from odradek.client.core.transactions.requests import (
    BUMP_FROM,
    CoordinatorKind,
    Identity,
    TxnRequest,
    partition_errors,
)
from odradek.client.core.transactions.state_machine import TransactionStateMachine, TxnState
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.errors import IllegalStateError, TransactionAbortedError
from odradek.client.types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTxnState,
    TopicPartition,
)
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey

FIRST_ADD_BACKOFF_MS = 20.0
"""The pause before the first partition is added again, as the transaction before is just being completed
(Kafka's TransactionManager.AddPartitionsToTxnHandler)."""


class TransactionManager(TransactionStateMachine):
    """The transactions of one producer.

    Args:
        transactional_id: the producer's name over its restarts.
        timeout_ms: after which the coordinator aborts a transaction.
        two_phase_commit: the coordinator must never abort a transaction by itself (KIP-939).

    Attributes:
        state: the producer's state; it changes by `state_machine.MOVES` alone.
        v2: whether transactions are KIP-890's. It does not change within a transaction.
        producer_id, producer_epoch: the identity under which records are sent; -1 until initialised. Within a
            transaction it does not change.
        partitions: what has been added to the transaction; batches leave for these alone.
        prepared: the transaction that is prepared, in the state PREPARED and while it is ended; else empty.
        on_producer_id: called when producer id or epoch have changed.
    """

    def __init__(self, transactional_id: str, timeout_ms: int, *, two_phase_commit: bool = False) -> None:
        super().__init__(transactional_id)
        self.timeout_ms = timeout_ms
        self.two_phase_commit = two_phase_commit
        self.producer_id = -1
        self.producer_epoch = -1
        self.partitions: set[TopicPartition] = set()
        self.prepared = PreparedTxnState()
        self.on_producer_id: Callable[[], None] = lambda: None
        # Before KIP-890 a partition goes from `_new` (to be asked for) to `_pending` (asked for) to
        # `partitions` (joined), and is in one of them at a time; they are Kafka's newPartitionsInTransaction,
        # pendingPartitionsInTransaction and partitionsInTransaction. Since KIP-890 it joins with its first
        # batch.
        self._new: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        # `_started`: the coordinator has, or may get, a transaction to end; else no end is sent.
        # `_maybe_started`: a request that would have started it had no answer. `_begun`: the application has
        # begun it, and `v2` stays until its end. `_resumed`: it is another producer's
        # (`resume`), whose id goes with it.
        self._started = self._maybe_started = self._begun = False
        self._resumed = False

    # What the application calls

    def init_transactions(self, *, keep_prepared: bool = False) -> TransactionalRequestResult:
        """Get a producer id. The producer that had the transactional id before is fenced; its transaction is
        aborted, or with `keep_prepared` taken over if it is prepared.

        Raises:
            IllegalStateError, OdradekError: as `begin`.
        """
        call, again = self._cached("init_transactions")
        if not again:
            self._check()
            if self.state in (TxnState.READY, TxnState.IN_TRANSACTION, TxnState.PREPARED):
                raise IllegalStateError(f"init_transactions is called once, and {self._where} already")
            self._move(TxnState.INITIALIZING)
            self._queue.add(
                TxnRequest(ApiKey.INIT_PRODUCER_ID, Priority.INIT, call, keep_prepared=keep_prepared)
            )
            self._call = call
        return call

    def resume(self, prepared: PreparedTxnState) -> None:
        """Take up a transaction of a producer that is gone, under that producer's own id and epoch, to end
        it.

        That fences nobody. If the transaction has been ended the same way before, the coordinator answers
        with success.
        """
        if self.state is not TxnState.UNINITIALIZED:
            raise IllegalStateError(f"{self._where}: it cannot take up another transaction")
        self._move(TxnState.PREPARED)
        self.producer_id, self.producer_epoch = prepared
        self.prepared = prepared
        self._started = self._resumed = True

    def begin(self, *, v2: bool | None = None) -> None:
        """Begin a transaction; nothing is sent.

        Args:
            v2: the cluster has finalised `transaction.version` 2 or higher; None: as far as was known before.

        Raises:
            IllegalStateError: the call does not fit the one before.
            OdradekError: the error that stands in the way.
        """
        self._nothing_pending("begin_transaction")
        self._check()
        if self.state in (TxnState.IN_TRANSACTION, TxnState.PREPARED):
            raise IllegalStateError(
                f"a transaction is open already, {self._where}: end it with commit_transaction or "
                "abort_transaction before the next begins"
            )
        if self.state is TxnState.UNINITIALIZED:
            raise IllegalStateError(f"{self._where}: init_transactions is to be called first, once")
        self._move(TxnState.IN_TRANSACTION)
        if v2 is not None:
            self.v2 = v2
        self._begun = True

    def add_partition(self, tp: TopicPartition) -> None:
        """Let a partition join the transaction, before a record is queued for it.

        Raises:
            IllegalStateError, OdradekError: as `begin`.
        """
        if self.has_joined(tp):
            return
        self._nothing_pending("send")
        self._check()
        if self.state is not TxnState.IN_TRANSACTION:
            raise IllegalStateError(f"a record can be sent only inside a transaction, not when {self._where}")
        if self.v2:
            # Produce adds it (KIP-890). The batch may get there unheard, so there is an end to be sent.
            self.partitions.add(tp)
            self._started = True
        elif tp not in self._pending:
            self._new.add(tp)

    def has_joined(self, tp: TopicPartition) -> bool:
        """Return whether `add_partition` has nothing to do; may be asked from any thread."""
        return tp in self.partitions and self.state is TxnState.IN_TRANSACTION

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TransactionalRequestResult:
        """Commit a group's offsets with the transaction.

        Raises:
            IllegalStateError, OdradekError: as `begin`.
        """
        self._nothing_pending("send_offsets_to_transaction")
        self._check()
        if self.state is not TxnState.IN_TRANSACTION:
            raise IllegalStateError(f"offsets can be sent only inside a transaction, not when {self._where}")
        call = TransactionalRequestResult("send_offsets_to_transaction")
        request = TxnRequest(
            ApiKey.ADD_OFFSETS_TO_TXN, Priority.ADD, call, offsets=dict(offsets), group=group
        )
        if self.v2:
            # TxnOffsetCommit adds the group (KIP-890).
            self._started = True
            request = self._commit_offsets(request)
        self._queue.add(request)
        return call

    def prepare(self) -> PreparedTxnState:
        """Prepare the transaction: from now on it can only be ended. The shell has seen to it that all
        records are acknowledged.

        Raises:
            IllegalStateError, OdradekError: as `begin`.
        """
        self._nothing_pending("prepare_transaction")
        self._check()
        if self.state is not TxnState.IN_TRANSACTION:
            raise IllegalStateError(f"{self._where}: there is nothing to prepare")
        self._move(TxnState.PREPARED)
        self.prepared = PreparedTxnState(self.producer_id, self.producer_epoch)
        return self.prepared

    def commit(self) -> TransactionalRequestResult:
        """End the transaction: everything counts.

        Raises:
            IllegalStateError, OdradekError: as `begin`.
        """
        return self._end("commit_transaction", commit=True)

    def abort(self) -> TransactionalRequestResult:
        """End the transaction: nothing counts.

        Raises:
            IllegalStateError, OdradekError: as `begin`, but for an error that asks for just this.
        """
        return self._end("abort_transaction", commit=False)

    def complete(self, prepared: PreparedTxnState) -> TransactionalRequestResult:
        """End a prepared transaction: commit it if it is the one that was decided on, else abort it
        (KIP-939).

        Raises:
            IllegalStateError, OdradekError: as `begin`.
        """
        call, again = self._cached("complete_transaction")
        if again:
            return call
        if self.state is TxnState.READY and not prepared.has_transaction:
            # Nothing was prepared, and none is open: the decision has come true already.
            call.finish()
            return call
        if self.state is not TxnState.PREPARED:
            self._check()
            raise IllegalStateError(f"there is no prepared transaction when {self._where}")
        return self._end("complete_transaction", commit=prepared == self.prepared)

    def _end(self, name: str, *, commit: bool) -> TransactionalRequestResult:
        call, again = self._cached(name)
        if again:
            return call
        if commit or self.state is not TxnState.ABORTABLE_ERROR:
            self._check()
        if self.state in (TxnState.UNINITIALIZED, TxnState.READY):
            raise IllegalStateError(f"no transaction is open, {self._where}: begin_transaction begins one")
        call.commits = commit
        cause = self.last_error
        self._move(TxnState.COMMITTING if commit else TxnState.ABORTING)
        if not commit:
            # Partitions that were not asked for yet have no records, and need not join to be aborted.
            self._new.clear()
        if isinstance(cause, KafkaError) and cause.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # The coordinator does not know this producer any more, and would refuse EndTxn (Kafka's
            # TransactionManager.beginCompletingTransaction).
            self._started = self._maybe_started = False
        self._queue.add(TxnRequest(ApiKey.END_TXN, Priority.END, call, committed=commit))
        self._call = call
        return call

    # What the sender asks

    @property
    def is_completing(self) -> bool:
        """Return whether the transaction is being ended, so that batches should not linger."""
        return self.state in (TxnState.COMMITTING, TxnState.ABORTING)

    @property
    def drops_batches(self) -> bool:
        """Return whether batches that have never left must be failed rather than sent."""
        return self.state in (TxnState.ABORTING, TxnState.ABORTABLE_ERROR, TxnState.FATAL_ERROR)

    @property
    def is_open(self) -> bool:
        """Return whether closing now would leave a transaction to its timeout. A prepared transaction is
        meant to stay.
        """
        return self.state in (TxnState.IN_TRANSACTION, TxnState.ABORTABLE_ERROR) or self.is_completing

    def may_send(self, tp: TopicPartition) -> bool:
        """Return whether the partition belongs to the transaction yet."""
        return self.state is not TxnState.FATAL_ERROR and tp in self.partitions

    @property
    def me(self) -> Identity:
        """Return the producer's present identity."""
        return Identity(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            self.two_phase_commit,
            self.v2,
        )

    def next_request(self, *, batches_left: bool) -> TxnRequest | None:
        """Return the request to send now; None if none is due, or one is on its way.

        Args:
            batches_left: records are not yet acknowledged; the end waits for them.
        """
        if self._queue.on_its_way is not None:
            return None
        if self._new:
            self._pending |= self._new
            self._queue.add(
                TxnRequest(ApiKey.ADD_PARTITIONS_TO_TXN, Priority.ADD, partitions=sorted(self._new))
            )
            self._new.clear()
        while (request := self._queue.first()) is not None:
            # A marker ends what is before it in the log: a record behind it would be outside the transaction
            # (likewise in Kafka's TransactionManager.nextRequest).
            if request.api is ApiKey.END_TXN and batches_left:
                return None
            self._queue.take(request)
            if request.call is not None and request.call.done:
                continue  # the call that needed it has failed; the application calls anew
            # The abort that is to come needs the coordinator, and looking for it does no harm (Kafka's
            # TransactionManager.maybeTerminateRequestWithError).
            if self.last_error is not None and (
                self.state is TxnState.FATAL_ERROR or request.api is not ApiKey.FIND_COORDINATOR
            ):
                if request.call is not None:
                    request.call.finish(self.last_error)
                continue
            if self._aborted_before(request):
                if request.call is not None:
                    request.call.finish(TransactionAbortedError(f"{self._who}: the transaction was aborted"))
                continue
            if request.api is ApiKey.END_TXN and not self._started:
                if request.committed or not self._maybe_started:
                    self._ended(request)
                    continue
                # The coordinator may have begun the transaction without our knowing: it says whether there
                # is an end to be made. A higher epoch keeps out what it has not yet received.
                self._bump_required |= self.can_bump
            return self._queue.leave(request)
        return None

    def _aborted_before(self, request: TxnRequest) -> bool:
        """Return whether a request would only have added to the transaction that is being aborted.

        Such a request need not come to an end by itself: its group may have no coordinator.
        """
        if self.state is not TxnState.ABORTING:
            return False
        for_group = request.find is not None and request.find[0] is CoordinatorKind.GROUP
        return for_group or request.priority == Priority.ADD

    def target(self, request: TxnRequest) -> int | None:
        """Return which broker is to be asked; None: any."""
        return self._queue.target(request)

    def learned(self, *, v2: bool | None) -> None:
        """Take note of what the cluster has finalised, before a request is made.

        So a transaction that was taken over is ended in the right way.
        """
        # A transaction ends by the rules by which it began, also while the cluster changes its level.
        if v2 is not None and not self._begun:
            self.v2 = v2

    def delay_ms(self, request: TxnRequest, backoff_ms: float) -> float:
        """Return how long to wait before the request is sent.

        Args:
            backoff_ms: the pause that the producer's configs say.
        """
        if not request.tries:
            return 0.0
        if request.api is ApiKey.ADD_PARTITIONS_TO_TXN and not self.partitions:
            return min(FIRST_ADD_BACKOFF_MS, backoff_ms)
        return backoff_ms

    # Answers

    def not_answered(self, request: TxnRequest) -> None:
        """Repeat a request: the connection broke, or no broker could be reached. The request may have been
        carried out; each of these may be, again.
        """
        self._queue.on_its_way = None
        self._maybe_started |= request.api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)
        self._queue.forget(request)
        self._queue.again(request)

    def refused(self, request: TxnRequest, error: OdradekError) -> None:
        """Fail for good: a request could not even be sent, as the broker has no version that would do."""
        self._queue.on_its_way = None
        self._fatal(request, error)

    def answered(self, request: TxnRequest, response: Any, highest_init: int = 0) -> None:
        """Take an answer.

        Args:
            highest_init: the newest version of InitProducerId that the broker which answered knows.
        """
        self._queue.on_its_way = None
        if self.state is TxnState.FATAL_ERROR:
            if request.call is not None:
                request.call.finish(self.last_error)
            return
        # As in Kafka's TransactionManager.handleCoordinatorReady.
        if request.coordinator is not None and request.coordinator[0] is CoordinatorKind.TRANSACTION:
            self.can_bump = highest_init >= BUMP_FROM
        if request.api is ApiKey.ADD_PARTITIONS_TO_TXN:
            self._partitions_added(request, response)
        elif request.api is ApiKey.TXN_OFFSET_COMMIT:
            self._offsets_committed(request, response)
        elif request.api is ApiKey.FIND_COORDINATOR:
            self._coordinator_found(request, response)
        elif (code := to_code(response.error_code)) != ErrorCode.NONE:
            if code == ErrorCode.INVALID_TXN_STATE and request.api is ApiKey.END_TXN and not self._started:
                # Sent in case that the transaction had begun (`_maybe_started`): it had not.
                self._ended(request)
            else:
                self._react(request, code)
        elif request.api is ApiKey.INIT_PRODUCER_ID:
            self._initialised(request, response)
        elif request.api is ApiKey.ADD_OFFSETS_TO_TXN:
            self._started = True
            self._queue.add(self._commit_offsets(request))
        else:
            self._ended(request, self._take_identity(response.producer_id, response.producer_epoch))

    def _commit_offsets(self, request: TxnRequest) -> TxnRequest:
        assert request.group is not None
        return TxnRequest(
            ApiKey.TXN_OFFSET_COMMIT,
            Priority.ADD,
            request.call,
            coordinator=(CoordinatorKind.GROUP, request.group.group_id),
            offsets=request.offsets,
            group=request.group,
        )

    def _coordinator_found(self, request: TxnRequest, response: Any) -> None:
        answer = coordinator_in(response)
        assert request.find is not None
        kind, key = request.find
        if code := refusal_in(answer):
            self._react(request, code, answer.error_message or "")
            return
        self._queue.found(kind, key, answer.node_id)

    def _take_identity(self, producer_id: int, producer_epoch: int) -> bool:
        """Take the id and epoch that an answer has, and return whether they are new."""
        # An answer to EndTxn before version 5 has none (KIP-890).
        if producer_id < 0 or (producer_id, producer_epoch) == (self.producer_id, self.producer_epoch):
            return False
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.on_producer_id()
        return True

    def _initialised(self, request: TxnRequest, response: Any) -> None:
        self._take_identity(response.producer_id, response.producer_epoch)
        if request.keep_prepared and response.ongoing_txn_producer_id >= 0:
            # The prepared transaction has the id and epoch of before; its end is sent under the new identity.
            self._move(TxnState.PREPARED)
            self.prepared = PreparedTxnState(
                response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            )
            self._started = True
        else:
            self._move(TxnState.READY)
            self.prepared = PreparedTxnState()
        self._bump_required = False
        request.call.finish()

    def _partitions_added(self, request: TxnRequest, response: Any) -> None:
        refused: list[tuple[TopicPartition, ErrorCode]] = []
        unanswered = set(request.partitions)
        for tp, code in partition_errors(request.api, response):
            unanswered.discard(tp)
            if code == ErrorCode.NONE:
                continue
            if (
                reaction_to(request.api, code) is not ErrorReaction.ABORT
                or code == ErrorCode.TRANSACTION_ABORTABLE
            ):
                self._react(request, code, f"{tp}: {code.message}")
                return
            refused.append((tp, code))
        self._pending.difference_update(request.partitions)
        if unanswered:
            # Nobody has said that they have joined. The coordinator may have begun the transaction.
            refused += ((tp, ErrorCode.UNKNOWN_SERVER_ERROR) for tp in sorted(unanswered))
            self._maybe_started = True
        if refused:
            # Partitions that were not attempted are so because of the others, which have the reason.
            code = next((c for _, c in refused if c != ErrorCode.OPERATION_NOT_ATTEMPTED), refused[0][1])
            which = ", ".join(f"{tp} ({c.name})" for tp, c in refused)
            self._abortable(request, error_for(code, f"not added to the transaction: {which}"))
            return
        self.partitions.update(request.partitions)
        self._started = True

    def _offsets_committed(self, request: TxnRequest, response: Any) -> None:
        moved = False
        for tp, code in partition_errors(request.api, response):
            if code == ErrorCode.NONE:
                # Only what is left is committed again.
                request.offsets.pop(tp, None)
                continue
            reaction = reaction_to(request.api, code)
            if reaction is ErrorReaction.FIND_COORDINATOR:
                moved = True
            elif reaction is not ErrorReaction.RETRY:
                self._react(request, code, f"{tp}: {code.message}")
                return
        if moved:
            self._queue.forget(request)
        if request.offsets:
            self._queue.again(request)
        else:
            request.call.finish()

    def _ended(self, request: TxnRequest, raised: bool = False) -> None:
        self._completed(raised)
        if self.state is TxnState.INITIALIZING:
            self._queue.add(TxnRequest(ApiKey.INIT_PRODUCER_ID, Priority.BUMP, request.call, bump=True))
        else:
            request.call.finish()

    def _completed(self, raised: bool = False) -> None:
        """Take leave of the transaction.

        Args:
            raised: its end has raised the epoch, as every end does under V2.
        """
        # A transaction that was taken over by `resume` takes its id with it: that belongs to a producer that
        # may be writing again.
        anonymous = self._resumed or self.producer_id < 0
        bump = self._bump_required and not raised and not anonymous
        target = TxnState.UNINITIALIZED if anonymous else TxnState.READY
        self._move(TxnState.INITIALIZING if bump else target)
        self._bump_required = bump
        self._resumed = False
        self._started = self._maybe_started = self._begun = False
        self.prepared = PreparedTxnState()
        self._new.clear()
        self._pending.clear()
        self.partitions.clear()
