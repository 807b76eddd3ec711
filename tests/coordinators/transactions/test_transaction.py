"""The table of moves, and the moves themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.coordinators.transactions.states import AT_REST, LEGAL_MOVES, PREPARED, TransactionState
from odradek.coordinators.transactions.transaction import (
    MAX_EPOCH,
    IllegalMoveError,
    Transaction,
    add_partitions,
    complete,
    fence_and_abort,
    keep,
    prepare,
    raise_epoch,
    rotate,
)

S = TransactionState
BEFORE = Transaction("t", 7, 3, 60_000, S.EMPTY, 10, frozenset({("a", 0)}), 5)

MOVES = {
    "raise": (lambda t: raise_epoch(t, 1, None, 20), S.EMPTY, AT_REST),
    "rotate": (lambda t: rotate(t, 8, 1, False, 20), S.EMPTY, AT_REST),
    "add": (lambda t: add_partitions(t, frozenset({("b", 1)}), 20), S.ONGOING, AT_REST | {S.ONGOING}),
    "commit": (
        lambda t: prepare(t, commit=True, client_version=0, next_producer_id=-1, now_ms=20),
        S.PREPARE_COMMIT,
        {S.ONGOING},
    ),
    "abort": (
        lambda t: prepare(t, commit=False, client_version=2, next_producer_id=-1, now_ms=20),
        S.PREPARE_ABORT,
        AT_REST | {S.ONGOING, S.PREPARE_EPOCH_FENCE},
    ),
    "keep": (lambda t: keep(t, -1, 20), S.ONGOING, {S.ONGOING}),
    "fence": (
        lambda t: fence_and_abort(t, raises=False, next_producer_id=-1, now_ms=20),
        S.PREPARE_ABORT,
        {S.ONGOING},
    ),
}


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("move", MOVES)
def test_every_move_from_every_state(move: str, state: TransactionState) -> None:
    make, to, legal = MOVES[move]
    before = replace(BEFORE, state=state)
    if state in legal:
        assert make(before).state is to
    else:
        with pytest.raises(IllegalMoveError):
            make(before)


@pytest.mark.parametrize("state", S)
def test_completion_from_every_state(state: TransactionState) -> None:
    if state in PREPARED:
        after = complete(replace(BEFORE, state=state), 20)
        assert after.state in LEGAL_MOVES[state]
        assert after.partitions == frozenset()
    else:
        with pytest.raises(IllegalMoveError):
            complete(replace(BEFORE, state=state), 20)


def test_the_table_is_kafkas_previous_states() -> None:
    previous = {to: {s for s in S if to in LEGAL_MOVES[s]} for to in S}
    rest = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
    assert previous == {
        S.EMPTY: rest,
        S.ONGOING: rest | {S.ONGOING},
        S.PREPARE_COMMIT: {S.ONGOING},
        S.PREPARE_ABORT: rest | {S.ONGOING, S.PREPARE_EPOCH_FENCE},
        S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
        S.COMPLETE_ABORT: {S.PREPARE_ABORT},
        S.DEAD: rest,
        S.PREPARE_EPOCH_FENCE: {S.ONGOING},
    }
    assert S.PREPARE_EPOCH_FENCE.title == "PrepareEpochFence"


@pytest.mark.parametrize("raises", [False, True])
def test_fencing_at_the_highest_epoch_does_not_overflow(raises: bool) -> None:
    before = replace(BEFORE, state=S.ONGOING, epoch=MAX_EPOCH)
    assert fence_and_abort(before, raises=raises, next_producer_id=-1, now_ms=20).epoch == MAX_EPOCH
