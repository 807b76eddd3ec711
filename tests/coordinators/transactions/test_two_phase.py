"""Transactions that are kept for a producer which comes back (KIP-939), and aborts of nothing (KIP-890)."""

from __future__ import annotations

import pytest

from odradek.coordinators.transactions.markers import TransactionMarkers
from odradek.coordinators.transactions.states import TransactionState
from odradek.coordinators.transactions.transaction import MAX_EPOCH, NEVER_MS
from odradek.errors import ErrorCode

from .test_coordinator import place
from .world import ID, START_MS, A, B, World

E, S = ErrorCode, TransactionState


@pytest.fixture
def world() -> World:
    return World(transaction_version=2, transaction_two_phase_commit_enable=True)


def prepared(world: World, epoch: int = 0) -> None:
    """An ongoing transaction of producer 1 with an epoch."""
    place(world, epoch=epoch, state=S.ONGOING, partitions=frozenset({A}), start_ms=START_MS)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("crash", [True, False])
def test_a_kept_transaction_is_ended_by_whom_it_was_kept_for(world: World, commit: bool, crash: bool) -> None:
    prepared(world, 4)
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1, 5, 1, 4)
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1, 6, 1, 4)
    if crash:
        world.restart()
    assert world.end(1, 4, commit, version=2).error is E.PRODUCER_FENCED
    assert world.end(1, 5, commit, version=2).error is E.PRODUCER_FENCED
    assert world.end(1, 6, commit, version=2) == (E.NONE, 1, 7)
    if crash:
        world.restart()
    assert world.end(1, 6, commit, version=2).error is E.CONCURRENT_TRANSACTIONS
    assert world.end(1, 6, not commit, version=2).error is E.CONCURRENT_TRANSACTIONS
    # Markers are of the transaction, whose epoch is raised as by every end of V2.
    assert world.mark() == [TransactionMarkers(ID, 1, 5, world.epoch, commit, frozenset({A}), 2)]
    now = world.now()
    assert (now.producer_id, now.epoch, now.is_kept) == (1, 7, False)
    assert world.end(1, 6, commit, version=2) == (E.NONE, 1, 7)
    assert world.end(1, 6, not commit, version=2).error is E.INVALID_TXN_STATE
    assert world.add(1, 7, B) == {B: E.NONE}


def test_nothing_can_be_added_to_a_kept_transaction(world: World) -> None:
    prepared(world)
    world.init_in_full(keep_prepared=True)
    for verify in (False, True):
        assert world.add(1, 0, A, verify=verify) == {A: E.PRODUCER_FENCED}
        assert world.add(1, 1, A, verify=verify) == {A: E.INVALID_TXN_STATE}
        assert world.add(1, 2, A, verify=verify) == {A: E.PRODUCER_FENCED}


def test_the_client_may_use_up_its_epochs_while_the_transaction_stays(world: World) -> None:
    prepared(world, MAX_EPOCH - 2)
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1, MAX_EPOCH - 1, 1, MAX_EPOCH - 2)
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1000, 0, 1, MAX_EPOCH - 2)
    assert world.end(1000, 0, version=2) == (E.NONE, 1000, 1)
    assert [(m.producer_id, m.producer_epoch) for m in world.mark()] == [(1, MAX_EPOCH - 1)]
    assert (world.now().producer_id, world.now().epoch, world.now().previous_producer_id) == (1000, 1, 1)
    assert world.end(1000, 0, version=2) == (E.NONE, 1000, 1)


@pytest.mark.parametrize("crash", [True, False])
def test_the_clients_last_epoch_ends_under_a_new_id(world: World, crash: bool) -> None:
    prepared(world, MAX_EPOCH - 3)
    world.init_in_full(keep_prepared=True)
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1, MAX_EPOCH - 1, 1, MAX_EPOCH - 3)
    assert world.end(1, MAX_EPOCH - 1, version=2) == (E.NONE, 1000, 0)
    if crash:
        world.restart()
    assert world.end(1, MAX_EPOCH - 1, version=2).error is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert (world.now().producer_id, world.now().epoch) == (1000, 0)
    assert world.end(1, MAX_EPOCH - 1, version=2) == (E.NONE, 1000, 0)


def test_a_kept_transaction_can_be_aborted_by_a_producer_that_does_not_keep_it(world: World) -> None:
    prepared(world, 4)
    world.init_in_full(keep_prepared=True)
    assert world.init_in_full(keep_prepared=True)[:3] == (E.NONE, 1, 6)
    # Neither the one that has begun it, nor the first that it was kept for.
    assert world.init((1, 4)).error is E.PRODUCER_FENCED
    assert world.init((1, 5)).error is E.PRODUCER_FENCED
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    assert world.end(1, 6, commit=False, version=2).error is E.CONCURRENT_TRANSACTIONS
    assert [(m.producer_epoch, m.commit) for m in world.mark()] == [(5, False)]
    # The one that it was kept for is fenced, too, and can no longer commit.
    assert world.end(1, 6, version=2).error is E.INVALID_TXN_STATE
    assert world.end(1, 5, commit=False, version=2).error is E.PRODUCER_FENCED
    assert world.init() == (E.NONE, 1, 8)
    assert world.end(1, 6, commit=False, version=2).error is E.PRODUCER_FENCED


def test_a_kept_transaction_whose_client_has_no_epochs_left_is_aborted(world: World) -> None:
    prepared(world, MAX_EPOCH - 2)
    assert world.init_in_full(keep_prepared=True)[:3] == (E.NONE, 1, MAX_EPOCH - 1)
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    assert [(m.producer_epoch, m.commit) for m in world.mark()] == [(MAX_EPOCH - 1, False)]
    assert world.init() == (E.NONE, 1000, 1)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_with_nothing_to_keep_it_is_an_ordinary_start(world: World, state: TransactionState) -> None:
    place(world, state=state, epoch=2)
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1, 3, -1, -1)
    assert world.now().state is S.EMPTY
    assert world.init_in_full(who="new", keep_prepared=True) == (E.NONE, 1000, 0, -1, -1)


def test_what_is_decided_cannot_be_kept(world: World) -> None:
    place(world, state=S.PREPARE_COMMIT, partitions=frozenset({A}), start_ms=START_MS)
    assert world.init_in_full(keep_prepared=True).error is E.CONCURRENT_TRANSACTIONS


def test_two_phase_transactions_have_no_timeout(world: World) -> None:
    assert world.init_in_full(two_phase=True, timeout_ms=0).error is E.NONE
    world.add(1000, 0, A)
    assert world.now().timeout_ms == NEVER_MS
    world.timers.advance(2.0**32)
    assert world.now().state is S.ONGOING
    assert world.init_in_full(two_phase=True, keep_prepared=True) == (E.NONE, 1000, 1, 1000, 0)
    world.timers.advance(2.0**32)
    assert world.now().state is S.ONGOING


def test_refusals() -> None:
    world = World(transaction_version=2)
    assert world.init_in_full(two_phase=True).error is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.init_in_full(who="", two_phase=True).error is E.INVALID_REQUEST
    assert world.init_in_full((1, 0), keep_prepared=True).error is E.INVALID_REQUEST
    for version in (0, 1):
        world = World(transaction_version=version)
        assert world.init_in_full(keep_prepared=True).error is E.UNSUPPORTED_VERSION


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_an_abort_of_nothing_raises_the_epoch(world: World, state: TransactionState) -> None:
    place(world, state=state, epoch=2)
    assert world.end(1, 2, commit=False).error is (
        E.NONE if state is S.COMPLETE_ABORT else E.INVALID_TXN_STATE
    )
    assert world.end(1, 2, commit=True, version=2).error is E.INVALID_TXN_STATE
    assert world.end(1, 2, commit=False, version=2) == (E.NONE, 1, 3)
    assert world.sent == []
    assert (world.now().state, world.now().epoch) == (S.COMPLETE_ABORT, 3)
    # Repeated it is answered alike; the next one is another.
    assert world.end(1, 2, commit=False, version=2) == (E.NONE, 1, 3)
    assert world.end(1, 3, commit=False, version=2) == (E.NONE, 1, 4)
    assert world.end(1, 2, commit=False, version=2).error is E.PRODUCER_FENCED


def test_an_abort_of_nothing_at_the_last_epoch(world: World) -> None:
    place(world, epoch=MAX_EPOCH - 1)
    assert world.end(1, MAX_EPOCH - 1, commit=False, version=2) == (E.NONE, 1000, 0)
    assert (world.now().producer_id, world.now().epoch) == (1000, 0)


def test_the_highest_epoch_is_nobodys_and_does_not_overflow(world: World) -> None:
    place(world, epoch=MAX_EPOCH)
    assert world.add(1, MAX_EPOCH, A) == {A: E.NONE}
    assert world.init_in_full(keep_prepared=True) == (E.NONE, 1000, 0, 1, MAX_EPOCH)
    assert world.end(1000, 0, commit=False, version=2) == (E.NONE, 1000, 1)
    assert [m.producer_epoch for m in world.mark()] == [MAX_EPOCH]
    place(world, epoch=MAX_EPOCH)
    world.add(1, MAX_EPOCH, A)
    assert world.end(1, MAX_EPOCH, version=2) == (E.NONE, 1001, 0)
