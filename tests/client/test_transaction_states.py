"""The transactional producer's state machine: requests in their order, calls, two phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from client.transaction_bench import GROUP, A, B, Bench, S
from client.transaction_model import versions
from odradek.client.core.transactions.state_machine import MOVES, TxnState
from odradek.client.core.versions import NodeVersions, v2_if_known
from odradek.client.errors import CommitFailedError, IllegalStateError, UnsupportedByBrokerError
from odradek.client.types import OffsetAndMetadata, PreparedTxnState
from odradek.errors import (
    ErrorCode,
    error_for,
)
from odradek.wire.api import ApiKey


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
    assert not bench.model.partitions and ApiKey.END_TXN in bench.apis
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


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_that_timed_out_is_taken_up_again_also_when_it_is_done(commit: bool) -> None:
    bench = Bench("4.x").with_record()
    manager = bench.manager
    prepared = manager.prepare()
    wanted = prepared if commit else PreparedTxnState(prepared.producer_id, prepared.epoch + 1)
    call = manager.complete(wanted)
    assert manager.complete(wanted) is call
    with pytest.raises(IllegalStateError, match="complete_transaction timed out"):
        manager.begin()
    bench.run()
    assert call.done and manager.complete(wanted) is call
    call.outcome()
    assert call.commits == commit == bench.model.ended[0].committed
    manager.begin()
