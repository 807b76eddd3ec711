"""What an abort leaves behind in the transactional producer's state machine: nothing of the transaction."""

from __future__ import annotations

import pytest

from client.transaction_bench import GROUP, A, B, Bench, S
from odradek.client.core.transactions.requests import CoordinatorKind
from odradek.client.errors import TransactionAbortedError
from odradek.client.types import OffsetAndMetadata
from odradek.errors import ErrorCode, UnknownServerError
from odradek.wire.api import ApiKey


@pytest.mark.parametrize("kind", ["0.11", "3.9", "4.x"])
def test_offsets_that_cannot_be_committed_do_not_hold_up_the_abort(kind: str) -> None:
    """The topic was deleted, say: TxnOffsetCommit would be repeated for ever."""
    bench = Bench(kind).with_record()
    offsets = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    committing = bench.run(until=ApiKey.TXN_OFFSET_COMMIT)
    assert committing is not None
    bench.answer(committing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    again = bench.ask()
    assert again is committing
    aborting = bench.manager.abort()
    bench.answer(again, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    bench.seen.clear()
    bench.done(aborting)
    assert bench.apis == [ApiKey.END_TXN]
    with pytest.raises(TransactionAbortedError):
        offsets.outcome()


def test_a_group_that_may_not_be_asked_for_does_not_hold_up_the_abort() -> None:
    bench = Bench("4.x").with_record()
    offsets = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    finding = bench.ask()
    assert finding is not None and finding.find == (CoordinatorKind.GROUP, "g")
    aborting = bench.manager.abort()
    bench.answer(finding, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ending = bench.ask()
    assert ending is not None and ending.api is ApiKey.END_TXN
    bench.answer(ending)
    aborting.outcome()
    assert offsets.error is not None


def test_a_partition_that_cannot_be_added_does_not_hold_up_the_abort() -> None:
    bench = Bench().with_record()
    bench.manager.add_partition(B)
    adding = bench.ask()
    assert adding is not None
    bench.answer(adding, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    bench.seen.clear()
    bench.done(bench.manager.abort())
    assert bench.apis == [ApiKey.END_TXN]


def test_a_partition_that_an_answer_leaves_out_has_not_joined() -> None:
    """Records sent to it would be outside the transaction, if the coordinator did not add it."""
    bench = Bench().started()
    bench.manager.add_partition(A)
    adding = bench.ask()
    assert adding is not None
    _, response = bench.model.answer(bench.manager, adding)
    response.results_by_topic_v3_and_below.clear()
    bench.manager.answered(adding, response)
    assert not bench.manager.may_send(A)
    with pytest.raises(UnknownServerError, match="t-0"):
        bench.manager.commit()
    # The coordinator may have begun the transaction all the same.
    bench.seen.clear()
    bench.done(bench.manager.abort())
    assert ApiKey.END_TXN in bench.apis


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("kind", ["0.11", "3.9"])
def test_a_coordinator_that_may_have_begun_is_asked_to_end_it(kind: str, begun: bool) -> None:
    """InitProducerId alone would not do: while a transaction is open, it fences whoever repeats it."""
    bench = Bench(kind).started()
    bench.manager.add_partition(A)
    adding = bench.ask()
    assert adding is not None
    if begun:
        bench.model.answer(bench.manager, adding)
    bench.manager.not_answered(adding)
    bench.seen.clear()
    aborting = bench.manager.abort()
    ending = bench.run(until=ApiKey.END_TXN)
    assert ending is not None and bench.apis == [ApiKey.FIND_COORDINATOR]
    bench.answer(ending, ErrorCode.NONE if begun else ErrorCode.INVALID_TXN_STATE)
    bench.done(aborting)
    assert bench.apis[2:] == ([ApiKey.INIT_PRODUCER_ID] if kind == "3.9" else [])
    assert not bench.model.partitions
    bench.manager.begin()


def test_a_producer_that_the_coordinator_forgot_awaits_its_batches_before_it_has_another_epoch() -> None:
    """Else batches of the aborted transaction would be among the next one's."""
    bench = Bench().with_record()
    manager = bench.manager
    manager.add_partition(B)
    adding = bench.ask()
    assert adding is not None
    offsets = manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    bench.answer(adding, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    aborting = manager.abort()
    bench.seen.clear()
    assert bench.ask(batches_left=True) is None
    assert manager.drops_batches
    bench.done(aborting)
    assert bench.apis == [ApiKey.INIT_PRODUCER_ID] and manager.state is S.READY
    assert offsets.error is not None


@pytest.mark.parametrize("problem", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_offsets_that_are_repeated_stay_before_newer_ones(problem: ErrorCode) -> None:
    bench = Bench("4.x").with_record()
    manager = bench.manager
    manager.send_offsets({A: OffsetAndMetadata(5)}, GROUP)
    committing = bench.run(until=ApiKey.TXN_OFFSET_COMMIT)
    assert committing is not None
    # The application gave up waiting for the first ones, and sends newer ones.
    manager.send_offsets({A: OffsetAndMetadata(9)}, GROUP)
    bench.answer(committing, problem)
    bench.done(manager.commit())
    (ended,) = bench.model.ended
    assert ended.offsets == {A: 9}


@pytest.mark.parametrize("api", [ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID])
def test_who_never_got_a_producer_id_has_to_ask_for_one_again(api: ApiKey) -> None:
    bench = Bench()
    manager = bench.manager
    call = manager.init_transactions()
    request = bench.run(until=api)
    assert request is not None
    bench.answer(request, ErrorCode.TRANSACTION_ABORTABLE)
    call.acked = True
    bench.done(manager.abort())
    assert manager.state is S.UNINITIALIZED
    bench.done(manager.init_transactions())
    assert manager.state is S.READY and manager.producer_id >= 0


def test_an_abort_that_failed_is_not_sent_beside_the_next_one() -> None:
    bench = Bench().with_record()
    manager = bench.manager
    first = manager.abort()
    ending = bench.ask()
    assert ending is not None
    manager.not_answered(ending)
    finding = bench.ask()
    assert finding is not None and finding.api is ApiKey.FIND_COORDINATOR
    bench.answer(finding, ErrorCode.TRANSACTION_ABORTABLE)
    assert first.error is not None and first.error.requires_abort
    first.acked = True
    bench.seen.clear()
    bench.done(manager.abort())
    assert bench.apis == [ApiKey.FIND_COORDINATOR, ApiKey.END_TXN] and manager.state is S.READY
