"""Random histories of the transactional producer against a model of the coordinator, the log and the group.

What must hold, whatever fails on the way: a transaction that is told to be committed has exactly what was
sent in it; one that is not told so is committed only if nobody was told otherwise; every call gets its
answer; only legal moves are made; and a producer that is not fatal can always be brought back to begin
another transaction.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from client.transaction_model import ModelCoordinator, versions
from odradek.client.core.transactions.requests import TxnRequest
from odradek.client.core.transactions.state_machine import MOVES, TxnState
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, InvalidProducerEpochError, OdradekError, RecordTooLargeError
from odradek.wire.api import ApiKey

PARTITIONS = [TopicPartition("t", n) for n in range(4)]
ERRORS = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
]
S = TxnState


class Watched(TransactionManager):
    """Checks every move against the table."""

    def _move(self, target: TxnState, error: OdradekError | None = None) -> None:
        before = self.state
        super()._move(target, error)
        assert target in MOVES[before]


class Transactions(RuleBasedStateMachine):
    """One producer, its coordinator, and what the application knows."""

    @initialize(kind=st.sampled_from(["0.11", "3.9", "4.x"]))
    def start(self, kind: str) -> None:
        self.kind = kind
        self.model = ModelCoordinator(kind)
        self.manager = Watched("id", 60_000)
        self.request: TxnRequest | None = None
        self.lost = False
        self.end: tuple[str, TransactionalRequestResult] | None = None
        self.calls: list[TransactionalRequestResult] = []
        self.queued: set[TopicPartition] = set()
        self.sent: set[TopicPartition] = set()
        self.offsets: dict[TopicPartition, int] = {}
        self.offset_calls: list[TransactionalRequestResult] = []
        self.told: list[bool] = []
        self.fenced = False
        self._finish(self.manager.init_transactions())

    def _finish(self, call: TransactionalRequestResult) -> None:
        self.calls.append(call)
        while not call.done:
            self.step()
        call.acked = True

    # The network

    @rule()
    def step(self) -> None:
        """What is due is asked and answered; batches leave when they may."""
        self._ask()
        if self.request is not None:
            self._answer(ErrorCode.NONE)
        self._send_batches()

    @rule(code=st.sampled_from(ERRORS))
    def step_with_an_error(self, code: ErrorCode) -> None:
        self._ask()
        request = self.request
        if request is None:
            return
        if code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.ILLEGAL_GENERATION) and (
            request.api is not ApiKey.TXN_OFFSET_COMMIT
        ):
            return
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and request.api is not ApiKey.ADD_PARTITIONS_TO_TXN:
            return
        if code == ErrorCode.UNKNOWN_PRODUCER_ID and request.api not in (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN,
        ):
            return
        self._answer(code)

    @rule(done=st.booleans())
    def step_without_an_answer(self, done: bool) -> None:
        """The connection breaks before or after the coordinator has done what was asked."""
        self._ask()
        request = self.request
        if request is None:
            return
        # Of what is not safe to repeat with an old epoch, KIP-890's coordinator remembers the last answer.
        if done and request.api is not ApiKey.INIT_PRODUCER_ID and request.api is not ApiKey.END_TXN:
            self.model.answer(self.manager, request)
        self.request = None
        self.manager.not_answered(request)

    def _ask(self) -> None:
        if self.request is None:
            left = bool(self.queued - self.sent) and not self.manager.drops_batches
            self.request = self.manager.next_request(batches_left=left)
            if self.request is not None:
                assert self.manager.next_request(batches_left=left) is None
                if self.request.api is ApiKey.END_TXN:
                    assert not left

    def _answer(self, code: ErrorCode) -> None:
        request, self.request = self.request, None
        assert request is not None
        _, response = self.model.answer(self.manager, request, code)
        highest = versions(self.kind).highest(ApiKey.INIT_PRODUCER_ID)
        self.manager.answered(request, response, highest)

    def _send_batches(self) -> None:
        if self.manager.drops_batches:
            return
        for tp in sorted(self.queued - self.sent):
            if not self.manager.may_send(tp):
                continue
            if self.fenced:
                self.manager.batch_failed(InvalidProducerEpochError())
                return
            self.model.produced(self.manager, tp)
            self.sent.add(tp)

    # The application

    @precondition(lambda self: self.manager.state is S.READY and self.end is None)
    @rule()
    def begin(self) -> None:
        self.manager.begin(v2=self.model.v2)
        self.queued, self.sent, self.offsets, self.offset_calls = set(), set(), {}, []

    @precondition(lambda self: self.manager.state is S.IN_TRANSACTION)
    @rule(tp=st.sampled_from(PARTITIONS))
    def send(self, tp: TopicPartition) -> None:
        self.manager.add_partition(tp)
        self.queued.add(tp)
        self.sent.discard(tp)

    @precondition(lambda self: self.manager.state is S.IN_TRANSACTION)
    @rule(tp=st.sampled_from(PARTITIONS), offset=st.integers(0, 99))
    def send_offsets(self, tp: TopicPartition, offset: int) -> None:
        if any(not call.done for call in self.offset_calls):
            return  # one after the other, as the blocking call makes it
        call = self.manager.send_offsets({tp: OffsetAndMetadata(offset)}, ConsumerGroupMetadata("g"))
        self.offset_calls.append(call)
        self.calls.append(call)
        self.offsets[tp] = offset

    @precondition(lambda self: self.manager.state is S.IN_TRANSACTION and self.end is None)
    @rule()
    def commit(self) -> None:
        if all(call.done and call.error is None for call in self.offset_calls):
            self.end = ("commit", self.manager.commit())
            self.calls.append(self.end[1])

    @precondition(
        lambda self: self.manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR) and self.end is None
    )
    @rule()
    def abort(self) -> None:
        self.end = ("abort", self.manager.abort())
        self.calls.append(self.end[1])

    @precondition(lambda self: self.end is not None and self.end[1].done)
    @rule()
    def learn_how_it_ended(self) -> None:
        assert self.end is not None
        (what, call), self.end = self.end, None
        call.acked = True
        if call.error is not None:
            assert call.error.requires_abort or call.error.fatal
            return
        assert self.manager.state is S.READY
        ended = self.model.ended[-1] if self.model.ended else None
        if what == "commit" and (self.queued or self.offsets):
            assert ended is not None and ended.committed
            assert ended.partitions == self.queued == self.sent
            assert ended.offsets == self.offsets
            self.told.append(True)
        elif what == "abort" and self.kind != "0.11":
            # (Without KIP-360 what the coordinator began unheard is left to its timeout.)
            assert not (self.model.partitions or self.model.groups)

    @precondition(lambda self: self.manager.state in (S.IN_TRANSACTION, S.COMMITTING))
    @rule()
    def a_batch_fails(self) -> None:
        if self.queued - self.sent:
            self.manager.batch_failed(RecordTooLargeError("too large"))

    @precondition(lambda self: self.model.producer_id >= 0 and not self.fenced)
    @rule(really=st.integers(0, 20))
    def another_takes_over(self, really: int) -> None:
        if really == 0:
            self.model.fence()
            self.fenced = True

    # What holds

    @invariant()
    def what_is_told_to_be_committed_is(self) -> None:
        if hasattr(self, "model"):
            assert sum(ended.committed for ended in self.model.ended) == len(self.told) + (
                self.end is not None
                and self.end[0] == "commit"
                and self.end[1].done
                and self.end[1].error is None
                and bool(self.queued or self.offsets)
            )

    def teardown(self) -> None:
        """Left alone, everything gets its answer; and what is not fatal can begin anew."""
        if not hasattr(self, "model"):
            return
        for _ in range(200):
            self.step()
        assert all(call.done for call in self.calls), [call.name for call in self.calls if not call.done]
        if self.end is not None:
            self.learn_how_it_ended()
        manager = self.manager
        if manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            call = manager.abort()
            for _ in range(50):
                self.step()
            assert call.done
            if call.error is not None and call.error.requires_abort:
                call.acked = True
                self._finish(manager.abort())
        if self.fenced:
            return
        forgotten = manager.state is S.FATAL_ERROR and self.kind == "0.11"
        assert manager.state is S.READY or forgotten


TestTransactions = Transactions.TestCase
