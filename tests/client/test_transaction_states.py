"""The transactional producer's state machine: what each error does to it, request by request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from client.transaction_model import ModelCoordinator, versions
from odradek.client.core.transaction_calls import Call
from odradek.client.core.transaction_requests import CoordinatorKind, TxnRequest
from odradek.client.core.transaction_states import MOVES, TxnState
from odradek.client.core.transactions import TransactionManager
from odradek.client.core.versions import NodeVersions, v2_if_known
from odradek.client.errors import CommitFailedError, IllegalStateError, UnsupportedByBrokerError
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTxnState, TopicPartition
from odradek.errors import (
    ErrorCode,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionalIdAuthorizationError,
    error_for,
)
from odradek.wire.api import ApiKey

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "m", "i")
S = TxnState
Seen = list[tuple[ApiKey, Any]]


class Bench:
    """A manager beside a model of what it talks to."""

    def __init__(self, kind: str = "3.9", *, two_phase_commit: bool = False) -> None:
        self.kind = kind
        self.model = ModelCoordinator(kind)
        self.manager = TransactionManager("id", 60_000, two_phase_commit=two_phase_commit)
        self.seen: Seen = []
        self.manager.learned(v2=kind == "4.x")

    def ask(self, *, batches_left: bool = False) -> TxnRequest | None:
        return self.manager.next_request(batches_left=batches_left)

    def answer(self, request: TxnRequest, code: int = 0) -> None:
        message, response = self.model.answer(self.manager, request, code)
        self.seen.append((request.api, message))
        self.manager.answered(request, response, versions(self.kind).highest(ApiKey.INIT_PRODUCER_ID))

    def run(self, *, until: ApiKey | None = None) -> TxnRequest | None:
        """Answer what is asked, until nothing is, or up to a request of that kind."""
        while (request := self.ask()) is not None:
            if request.api is until:
                return request
            self.answer(request)
        assert until is None, f"{until} was never asked"
        return None

    def done(self, call: Call) -> None:
        self.run()
        call.outcome()

    def started(self) -> Bench:
        self.done(self.manager.init_transactions())
        self.manager.begin(v2=self.model.v2)
        return self

    def with_record(self) -> Bench:
        self.started()
        self.manager.add_partition(A)
        self.run()
        self.model.produced(self.manager, A)
        return self

    @property
    def apis(self) -> list[ApiKey]:
        return [api for api, _ in self.seen]


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("0.11", [10, 22, 24, 25, 10, 28, 26]),
        ("3.9", [10, 22, 24, 25, 10, 28, 26]),
        ("4.x", [10, 22, 10, 28, 26]),
    ],
)
def test_a_transaction_with_records_and_offsets(kind: str, asked: list[int]) -> None:
    bench = Bench(kind).with_record()
    manager = bench.manager
    assert manager.may_send(A) and not manager.may_send(B)
    call = manager.send_offsets({B: OffsetAndMetadata(9, "note", 4)}, GROUP)
    bench.done(call)
    bench.done(manager.commit())
    assert bench.apis == asked
    assert manager.state is S.READY and not manager.partitions
    (ended,) = bench.model.ended
    assert ended.committed and ended.partitions == {A} and ended.offsets == {B: 9}
    offsets = next(message for api, message in bench.seen if api is ApiKey.TXN_OFFSET_COMMIT)
    member = (offsets.generation_id_or_member_epoch, offsets.member_id, offsets.group_instance_id)
    assert member == ((-1, "", None) if kind == "0.11" else (3, "m", "i"))
    # Under KIP-890 every transaction has an epoch of its own.
    assert manager.producer_epoch == (1 if kind == "4.x" else 0)


@pytest.mark.parametrize("kind", ["0.11", "3.9", "4.x"])
@pytest.mark.parametrize("commit", [True, False])
def test_an_empty_transaction_asks_nobody(kind: str, commit: bool) -> None:
    bench = Bench(kind).started()
    bench.seen.clear()
    bench.done(bench.manager.commit() if commit else bench.manager.abort())
    assert bench.seen == [] and bench.manager.state is S.READY


def test_the_end_waits_for_batches() -> None:
    bench = Bench().with_record()
    call = bench.manager.commit()
    assert bench.ask(batches_left=True) is None
    assert bench.manager.state is S.COMMITTING
    bench.done(call)


def test_the_end_comes_after_what_belongs_to_the_transaction() -> None:
    bench = Bench().started()
    bench.manager.add_partition(A)
    offsets = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    call = bench.manager.commit()
    bench.done(call)
    offsets.outcome()
    assert bench.apis[-5:] == [25, 24, 10, 28, 26]
    assert bench.model.ended[0].partitions == {A}


def test_the_protocol_is_what_was_last_known_and_stays_within_a_transaction() -> None:
    assert v2_if_known([None]) is None
    assert v2_if_known([versions("3.9")]) is False
    newer = NodeVersions(features={"transaction.version": 2}, features_epoch=5)
    assert v2_if_known([newer, versions("3.9"), None]) is True
    bench = Bench("4.x")
    bench.done(bench.manager.init_transactions())
    bench.manager.begin(v2=None)  # no connection is open just now
    assert bench.manager.v2
    bench.manager.learned(v2=False)
    assert bench.manager.v2
    bench.done(bench.manager.commit())
    bench.manager.learned(v2=False)
    assert not bench.manager.v2


def test_one_request_is_on_its_way_at_a_time() -> None:
    bench = Bench().started()
    bench.manager.add_partition(A)
    first = bench.ask()
    assert first is not None and bench.ask() is None
    bench.manager.add_partition(B)
    assert bench.ask() is None
    bench.answer(first)
    second = bench.ask()
    assert second is not None and second.partitions == [B]


# Errors, by request. What Kafka's TransactionManager does with each.

RETRIED = ["CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"]
RETRIED += [
    "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "UNKNOWN_TOPIC_OR_PARTITION",
]
FENCED = ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"]
ODD = ["UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "UNSUPPORTED_VERSION", "CLUSTER_AUTHORIZATION_FAILED"]
EXPECTED: dict[ApiKey, dict[str, list[str]]] = {
    ApiKey.INIT_PRODUCER_ID: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": [*ODD[:3], "INVALID_TRANSACTION_TIMEOUT", "INVALID_TXN_STATE", "UNKNOWN_PRODUCER_ID"],
        "again from the start": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"],
        "abortable": ["TRANSACTION_ABORTABLE"],
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_TXN_STATE"],
        "abortable": ["TOPIC_AUTHORIZATION_FAILED", "OPERATION_NOT_ATTEMPTED", "TRANSACTION_ABORTABLE", *ODD],
        "under a higher epoch": ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"],
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_TXN_STATE", *ODD],
        "abortable": ["GROUP_AUTHORIZATION_FAILED", "TRANSACTION_ABORTABLE"],
        "under a higher epoch": ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"],
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_FOR_MESSAGE_FORMAT", *ODD],
        "abortable": ["GROUP_AUTHORIZATION_FAILED", "FENCED_INSTANCE_ID", "TRANSACTION_ABORTABLE"],
        "the group moved on": ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"],
    },
    ApiKey.END_TXN: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_TXN_STATE", *ODD],
        "abortable": ["TRANSACTION_ABORTABLE"],
        "under a higher epoch": ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"],
    },
    ApiKey.FIND_COORDINATOR: {
        "retried": RETRIED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", *ODD, *FENCED],
        "abortable": ["TRANSACTION_ABORTABLE"],
    },
}
CASES = [(api, code, what) for api, by in EXPECTED.items() for what, codes in by.items() for code in codes]


def _in_flight(api: ApiKey, kind: str = "3.9") -> tuple[Bench, TxnRequest, Call | None]:
    bench = Bench(kind)
    manager = bench.manager
    call: Call | None
    if api in (ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR):
        call = manager.init_transactions()
    elif api is ApiKey.ADD_PARTITIONS_TO_TXN:
        bench.started()
        manager.add_partition(A)
        call = None
    elif api is ApiKey.END_TXN:
        call = bench.with_record().manager.commit()
    else:
        call = bench.with_record().manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    request = bench.run(until=api)
    assert request is not None
    return bench, request, call


@pytest.mark.parametrize(("api", "name", "what"), CASES)
def test_what_an_error_does(api: ApiKey, name: str, what: str) -> None:
    bench, request, call = _in_flight(api)
    manager, before = bench.manager, bench.manager.state
    code = ErrorCode[name]
    bench.answer(request, code)
    if what == "retried":
        assert manager.state is before
        bench.run()
        assert call is None or (call.done and call.error is None)
        asked = bench.apis
        assert asked.count(api) >= 2
        moved = name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
        moved |= api is ApiKey.TXN_OFFSET_COMMIT and name == "REQUEST_TIMED_OUT"
        if moved and api is not ApiKey.FIND_COORDINATOR:
            last = len(asked) - 1 - asked[::-1].index(api)
            assert asked[last - 1] is ApiKey.FIND_COORDINATOR
        return
    error = manager.last_error
    if call is not None:
        assert call.done
        error = call.error
        with pytest.raises(type(error)):
            call.outcome()
    assert error is not None
    if what in ("fatal", "fenced"):
        assert manager.state is S.FATAL_ERROR and error.fatal and not error.requires_abort
        assert isinstance(error, ProducerFencedError if what == "fenced" else type(error_for(code)))
        with pytest.raises(type(error)) as raised:
            manager.begin()
        assert raised.value.fatal
        return
    if what == "again from the start":
        assert manager.state is S.UNINITIALIZED and not error.fatal
        bench.done(manager.init_transactions())
        assert manager.state is S.READY
        return
    assert manager.state is S.ABORTABLE_ERROR and error.requires_abort and not error.fatal
    expected = CommitFailedError if what == "the group moved on" else type(error_for(code))
    assert isinstance(error, expected)
    with pytest.raises(expected):
        manager.add_partition(B)
    if manager.producer_id < 0:
        return
    with pytest.raises(expected):
        manager.commit()
    epoch = manager.producer_epoch
    bench.seen.clear()
    bench.done(manager.abort())
    assert manager.state is S.READY and not any(ended.committed for ended in bench.model.ended)
    bumped = [m for a, m in bench.seen if a is ApiKey.INIT_PRODUCER_ID]
    assert (len(bumped) == 1) == (what == "under a higher epoch")
    if bumped:
        assert (bumped[0].producer_id, bumped[0].producer_epoch) == (manager.producer_id, epoch)
        assert manager.producer_epoch == epoch + 1
        # Of what the coordinator knows no more, nothing is to be ended.
        assert (ApiKey.END_TXN in bench.apis) == (
            name != "INVALID_PRODUCER_ID_MAPPING" and api is not ApiKey.ADD_PARTITIONS_TO_TXN
        )


@pytest.mark.parametrize("name", ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"])
@pytest.mark.parametrize("api", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN])
def test_without_kip_360_a_forgotten_producer_is_of_no_use(api: ApiKey, name: str) -> None:
    bench, request, _ = _in_flight(api, "0.11")
    bench.answer(request, ErrorCode[name])
    assert bench.manager.state is S.FATAL_ERROR


def test_a_group_that_may_not_be_used_is_no_fault_of_the_producer() -> None:
    bench = Bench().with_record()
    call = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    bench.run(until=ApiKey.ADD_OFFSETS_TO_TXN)
    # ... and so is a group's coordinator that may not be asked for.
    bench = Bench().with_record()
    call = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    adding = bench.run(until=ApiKey.ADD_OFFSETS_TO_TXN)
    assert adding is not None
    bench.answer(adding)
    finding = bench.ask()
    assert finding is not None and finding.find == (CoordinatorKind.GROUP, "g")
    bench.answer(finding, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert call.error is not None and call.error.requires_abort
    bench.done(bench.manager.abort())


# Batches


@pytest.mark.parametrize("kind", ["3.9", "4.x"])
def test_a_batch_that_fails_ends_the_transaction_only(kind: str) -> None:
    bench = Bench(kind).with_record()
    manager, epoch = bench.manager, bench.manager.producer_epoch
    manager.batch_failed(RecordTooLargeError("too large"))
    assert manager.state is S.ABORTABLE_ERROR and manager.drops_batches
    with pytest.raises(RecordTooLargeError) as raised:
        manager.commit()
    assert raised.value.requires_abort
    bench.done(manager.abort())
    assert manager.state is S.READY and manager.producer_epoch == epoch + 1
    # KIP-890 raises the epoch with the end; before, InitProducerId does (KIP-360).
    assert (bench.apis[-1] is ApiKey.INIT_PRODUCER_ID) == (kind == "3.9")


@pytest.mark.parametrize("kind", ["3.9", "4.x"])
def test_a_batch_that_fails_while_committing_fails_the_commit(kind: str) -> None:
    bench = Bench(kind).with_record()
    call = bench.manager.commit()
    assert bench.ask(batches_left=True) is None
    bench.manager.batch_failed(OutOfOrderSequenceError("lost"))
    assert bench.ask() is None
    with pytest.raises(OutOfOrderSequenceError):
        call.outcome()
    bench.done(bench.manager.abort())
    assert [ended.committed for ended in bench.model.ended] == [False]


def test_a_batch_that_fails_while_aborting_is_no_news() -> None:
    bench = Bench().with_record()
    call = bench.manager.abort()
    bench.manager.batch_failed(RecordTooLargeError("too large"))
    assert bench.manager.state is S.ABORTING
    bench.done(call)
    assert bench.manager.producer_epoch == 1  # its sequences are not trusted any more


@pytest.mark.parametrize(
    "error", [TransactionalIdAuthorizationError(), ProducerFencedError(), UnsupportedByBrokerError("old")]
)
def test_a_batch_may_show_that_the_producer_is_of_no_use(error: Any) -> None:
    bench = Bench().with_record()
    bench.manager.batch_failed(error)
    assert bench.manager.state is S.FATAL_ERROR and not bench.manager.may_send(A)
    bench.manager.batch_failed(RecordTooLargeError("later"))
    assert bench.manager.last_error is error


@pytest.mark.parametrize(("kind", "state"), [("0.11", S.FATAL_ERROR), ("3.9", S.ABORTABLE_ERROR)])
def test_lost_sequences_need_a_higher_epoch(kind: str, state: TxnState) -> None:
    bench = Bench(kind).with_record()
    bench.manager.sequences_lost(error_for(ErrorCode.REQUEST_TIMED_OUT))
    assert bench.manager.state is state


# Calls


def test_calls_out_of_order_are_refused() -> None:
    bench = Bench()
    manager = bench.manager
    wrong: list[Callable[[], Any]] = [
        manager.begin,
        manager.commit,
        manager.abort,
        manager.prepare,
        lambda: manager.add_partition(A),
        lambda: manager.send_offsets({}, GROUP),
        lambda: manager.complete(PreparedTxnState(1, 1)),
    ]
    for call in wrong:
        with pytest.raises(IllegalStateError):
            call()
    bench.done(manager.init_transactions())
    for call in wrong[1:]:
        with pytest.raises(IllegalStateError):
            call()
    manager.begin()
    with pytest.raises(IllegalStateError):
        manager.begin()
    with pytest.raises(IllegalStateError):
        manager.init_transactions()


def test_a_call_that_timed_out_is_taken_up_again_and_nothing_else_meanwhile() -> None:
    bench = Bench().with_record()
    call = bench.manager.commit()
    for other in (bench.manager.abort, bench.manager.begin, lambda: bench.manager.add_partition(B)):
        with pytest.raises(IllegalStateError, match="commit_transaction timed out"):
            other()
    assert bench.manager.commit() is call
    bench.done(call)
    bench.manager.begin()


def test_a_broken_connection_makes_the_coordinator_unknown() -> None:
    bench = Bench().with_record()
    call = bench.manager.commit()
    request = bench.ask()
    assert request is not None and bench.manager.target(request) == 1
    bench.manager.not_answered(request)
    bench.model.node = 2
    found = bench.ask()
    assert found is not None and found.api is ApiKey.FIND_COORDINATOR
    bench.answer(found)
    again = bench.ask()
    assert again is request and bench.manager.target(again) == 2 and again.tries == 1
    bench.answer(again)
    call.outcome()


@pytest.mark.parametrize("kind", ["0.11", "3.9"])
def test_what_the_coordinator_began_unheard_does_not_stay_open(kind: str) -> None:
    bench = Bench(kind).started()
    bench.manager.add_partition(A)
    request = bench.ask()
    assert request is not None
    bench.model.answer(bench.manager, request)
    bench.manager.not_answered(request)
    finding = bench.ask()
    assert finding is not None
    bench.answer(finding, ErrorCode.TRANSACTION_ABORTABLE)
    assert bench.ask() is None
    bench.done(bench.manager.abort())
    # EndTxn would be refused if it had not begun; a higher epoch ends it either way, where there are such.
    assert bench.model.partitions == (set() if kind == "3.9" else {A})
    assert ApiKey.END_TXN not in bench.apis
    bench.manager.begin()


def test_pauses_are_short_where_the_transaction_before_is_being_completed() -> None:
    bench = Bench().started()
    bench.manager.add_partition(A)
    request = bench.ask()
    assert request is not None and bench.manager.delay_ms(request, 100) == 0
    bench.answer(request, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.ask() is request and bench.manager.delay_ms(request, 100) == 20
    bench.answer(request)
    bench.manager.add_partition(B)
    request = bench.ask()
    assert request is not None
    bench.answer(request, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bench.ask() is request and bench.manager.delay_ms(request, 100) == 100


def test_closing_answers_whoever_waits() -> None:
    bench = Bench()
    call = bench.manager.init_transactions()
    told: list[int] = []
    call.when_done(lambda: told.append(1))
    bench.manager.close(error_for(ErrorCode.NETWORK_EXCEPTION))
    assert told == [1] and call.error is not None
    call.when_done(lambda: told.append(2))
    assert told == [1, 2]


# Two phases


def test_what_is_answered_after_closing_changes_nothing() -> None:
    bench = Bench().with_record()
    call = bench.manager.commit()
    ending = bench.run(until=ApiKey.END_TXN)
    assert ending is not None
    bench.manager.close(IllegalStateError("closed"))
    bench.answer(ending)
    assert bench.manager.state is S.FATAL_ERROR and bench.ask() is None
    with pytest.raises(IllegalStateError, match="closed"):
        call.outcome()


@pytest.mark.parametrize("kind", ["0.11", "3.9", "4.x"])
def test_what_fails_while_aborting_does_not_fail_the_abort(kind: str) -> None:
    bench = Bench(kind).with_record()
    offsets = bench.manager.send_offsets({B: OffsetAndMetadata(9)}, GROUP)
    committing = bench.run(until=ApiKey.TXN_OFFSET_COMMIT)
    assert committing is not None
    # The application was not told in time, and gives the transaction up; then it comes that the group has
    # moved on.
    abort = bench.manager.abort()
    bench.answer(committing, ErrorCode.ILLEGAL_GENERATION)
    bench.done(abort)
    assert bench.manager.state is S.READY
    assert not bench.model.ended[-1].committed
    with pytest.raises(CommitFailedError):
        offsets.outcome()


def test_a_prepared_transaction_is_taken_over_and_decided() -> None:
    for commit in (True, False):
        bench = Bench("4.x", two_phase_commit=True).with_record()
        state = bench.manager.prepare()
        assert PreparedTxnState.parse(str(state)) == state == (7, 0)
        with pytest.raises(IllegalStateError):
            bench.manager.add_partition(A)
        assert not bench.manager.is_open
        bench.model.prepared = True
        after = Bench("4.x", two_phase_commit=True)
        after.model = bench.model
        after.done(after.manager.init_transactions(keep_prepared=True))
        assert after.manager.state is S.PREPARED and after.manager.prepared == state
        after.done(after.manager.complete(state if commit else PreparedTxnState(7, 8)))
        assert [ended.committed for ended in bench.model.ended] == [commit]
        assert after.manager.state is S.READY


def test_without_a_prepared_transaction_there_is_nothing_to_complete() -> None:
    bench = Bench("4.x")
    bench.done(bench.manager.init_transactions(keep_prepared=True))
    assert bench.manager.state is S.READY and not bench.manager.prepared.has_transaction
    bench.done(bench.manager.complete(PreparedTxnState()))
    with pytest.raises(IllegalStateError):
        bench.manager.complete(PreparedTxnState(1, 1))


def test_an_older_broker_cannot_keep_what_is_prepared() -> None:
    bench = Bench("3.9")
    bench.manager.init_transactions(keep_prepared=True)
    bench.answer(bench.ask() or pytest.fail())
    request = bench.ask()
    assert request is not None
    with pytest.raises(UnsupportedByBrokerError) as refused:
        bench.model.answer(bench.manager, request)
    bench.manager.refused(request, refused.value)
    assert bench.manager.state is S.FATAL_ERROR


@pytest.mark.parametrize("kind", ["0.11", "3.9", "4.x"])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_of_somebody_gone_is_ended_under_its_identity(kind: str, commit: bool) -> None:
    bench = Bench(kind).with_record()
    state = bench.manager.prepare()
    other = Bench(kind)
    other.model = bench.model
    other.manager.resume(state)
    other.done(other.manager.commit() if commit else other.manager.abort())
    assert [ended.committed for ended in bench.model.ended] == [commit]
    # It knows nothing of that producer's sequences: before it writes it has to initialise.
    assert other.manager.state is S.UNINITIALIZED
    with pytest.raises(IllegalStateError):
        other.manager.begin()


def test_prepared_states_as_text() -> None:
    assert str(PreparedTxnState()) == "" and PreparedTxnState.parse("") == PreparedTxnState()
    for wrong in ("x", "5", "5:", "5:-1", "-1:5"):
        with pytest.raises(ValueError, match=r".+"):
            PreparedTxnState.parse(wrong)


def test_every_state_has_its_moves_and_fatal_is_final() -> None:
    assert MOVES.keys() == set(TxnState)
    assert MOVES[S.FATAL_ERROR] == {S.FATAL_ERROR}
    assert all(S.FATAL_ERROR in after for after in MOVES.values())
