"""Who may open a transaction in a partition."""

from __future__ import annotations

import pytest

from odradek.errors import ConcurrentTransactionsError, OutOfOrderSequenceError
from odradek.log.producers.producer_state import ProducerState
from odradek.log.producers.verification import Verifications
from odradek.records.batch import BatchHeader
from odradek.records.builder import build_batch
from odradek.records.control import ControlType, EndTransactionMarker, end_marker_batch


def data(
    producer_id: int = 7, epoch: int = 0, sequence: int = 0, *, transactional: bool = True
) -> BatchHeader:
    return BatchHeader.parse(
        build_batch(
            [(1, None, b"v", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def marker(producer_id: int = 7, epoch: int = 0) -> tuple[BatchHeader, EndTransactionMarker]:
    raw = end_marker_batch(
        ControlType.ABORT, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp=1
    )
    return BatchHeader.parse(raw), EndTransactionMarker(ControlType.ABORT, 0)


def test_an_append_brings_the_answer_to_its_own_question() -> None:
    verifications = Verifications()
    with pytest.raises(ConcurrentTransactionsError):
        verifications.require(7, 0, None)
    asked = verifications.begin(7, 0, 0, 1)
    verifications.require(7, 0, asked)
    with pytest.raises(ConcurrentTransactionsError):
        verifications.require(7, 0, None)
    with pytest.raises(ConcurrentTransactionsError):
        verifications.require(8, 0, asked)


@pytest.mark.parametrize("by_marker", [True, False])
def test_a_marker_or_the_first_batch_makes_answers_stale(by_marker: bool) -> None:
    state = ProducerState()
    asked = state.verifications.begin(7, 0, 0, 1)
    others = state.verifications.begin(8, 0, 0, 1)
    if by_marker:
        state.append(*marker())
    else:
        state.append(data(), None)
        assert state.in_transaction(7)
    with pytest.raises(ConcurrentTransactionsError):
        state.verifications.require(7, 0, asked)
    # The next question is another one, even of the same producer.
    again = state.verifications.begin(7, 0, 0, 2)
    with pytest.raises(ConcurrentTransactionsError):
        state.verifications.require(7, 0, asked)
    state.verifications.require(7, 0, again)
    state.verifications.require(8, 0, others)


def test_a_batch_outside_of_transactions_leaves_the_question() -> None:
    state = ProducerState()
    asked = state.verifications.begin(7, 0, 0, 1)
    state.append(data(transactional=False), None)
    state.verifications.require(7, 0, asked)


def test_a_later_batch_waits_for_the_earlier_one() -> None:
    verifications = Verifications()
    first = verifications.begin(7, 0, 10, 1)
    assert verifications.begin(7, 0, 20, 1) is first
    with pytest.raises(OutOfOrderSequenceError):
        verifications.require(7, 20, first)
    verifications.require(7, 10, first)
    # One that comes again from further back goes first, and a new epoch begins anew.
    verifications.begin(7, 0, 5, 2)
    with pytest.raises(OutOfOrderSequenceError):
        verifications.require(7, 10, first)
    verifications.begin(7, 1, 30, 3)
    verifications.require(7, 30, first)
    verifications.begin(7, 0, 0, 4)
    verifications.require(7, 30, first)


def test_questions_that_are_left_are_forgotten() -> None:
    state = ProducerState()
    state.verifications.begin(7, 0, 0, 1_000)
    state.verifications.begin(8, 0, 0, 2_000)
    state.remove_expired(2_500, 1_500)
    assert len(state.verifications) == 1
    state.clear()
    assert len(state.verifications) == 0


def test_an_error_for_a_former_producer_does_not_touch_the_question_of_the_next() -> None:
    verifications = Verifications()
    verifications.begin(7, 0, 0, 1)
    asked = verifications.begin(7, 1, 0, 2)
    verifications.give_up(7, 0)
    verifications.require(7, 0, asked)
    verifications.give_up(7, 1)
    verifications.give_up(7, 1)
    assert len(verifications) == 0
