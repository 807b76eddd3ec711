"""What each request is answered, and what follows from it."""

from __future__ import annotations

import pytest

from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.commands import MAX_PARTITIONS
from odradek.coordinators.transactions.coordinator import error_for_version
from odradek.coordinators.transactions.markers import TransactionMarkers, by_leader
from odradek.coordinators.transactions.states import TransactionState
from odradek.coordinators.transactions.transaction import MAX_EPOCH, Transaction
from odradek.errors import ErrorCode, KafkaError, NotEnoughReplicasError

from .world import ID, START_MS, A, B, World

E = ErrorCode
S = TransactionState


def place(world: World, **fields: object) -> None:
    """Put a state into the log, as another coordinator has left it."""
    base = {"producer_id": 1, "epoch": 0, "timeout_ms": 60_000, "state": S.EMPTY, "updated_ms": START_MS}
    after = Transaction(ID, **{**base, **fields})  # type: ignore[arg-type]
    world.coordinator.runtime.run(0, "place", lambda shard: shard.write(after))
    world.restart()


@pytest.fixture
def world() -> World:
    return World(transaction_version=2)


def test_a_producer_is_new_then_raised(world: World) -> None:
    assert world.init() == (E.NONE, 1000, 0)
    assert world.init() == (E.NONE, 1000, 1)
    assert world.init(who=None) == (E.NONE, 1001, 0)
    assert world.now().state is S.EMPTY


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [
        (0, E.INVALID_TRANSACTION_TIMEOUT),
        (-1, E.INVALID_TRANSACTION_TIMEOUT),
        (1, E.NONE),
        (900_000, E.NONE),
        (900_001, E.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_bounds_of_the_timeout(world: World, timeout_ms: int, error: ErrorCode) -> None:
    assert world.init(timeout_ms=timeout_ms).error is error


def test_an_empty_id_is_invalid(world: World) -> None:
    assert world.init(who="").error is E.INVALID_REQUEST
    assert world.add(1, 1, A, who="") == {A: E.INVALID_REQUEST}
    assert world.end(1, 1, who="").error is E.INVALID_REQUEST


def test_a_producer_that_goes_on(world: World) -> None:
    world.init()
    assert world.init((1000, 0)) == (E.NONE, 1000, 1)
    # The answer was lost: the same again, and no higher epoch.
    assert world.init((1000, 0)) == (E.NONE, 1000, 1)
    # Somebody else comes: the one that went on is fenced now.
    assert world.init() == (E.NONE, 1000, 2)
    assert world.init((1000, 0)).error is E.PRODUCER_FENCED
    assert world.init((1000, 1)).error is E.PRODUCER_FENCED
    assert world.init((5, 2)).error is E.PRODUCER_FENCED
    # Unknown here, as after expiry: it gets a new id.
    assert world.init((5, 2), who="other") == (E.NONE, 1001, 0)


def test_used_up_epochs_give_a_new_id(world: World) -> None:
    place(world, epoch=MAX_EPOCH - 1)
    assert world.init((1, 5)).error is E.PRODUCER_FENCED
    assert world.init((1, MAX_EPOCH - 1)) == (E.NONE, 1000, 0)
    # The old id is not a repeated end's.
    assert world.end(1, MAX_EPOCH - 1, version=2).error is E.PRODUCER_FENCED
    assert world.end(1, MAX_EPOCH - 2, version=2).error is E.INVALID_PRODUCER_ID_MAPPING
    # Its answer was lost: the last producer id is still known.
    assert world.init((1, MAX_EPOCH - 1)) == (E.NONE, 1000, 0)
    place(world, epoch=MAX_EPOCH)
    assert world.init() == (E.NONE, 1001, 0)


def test_an_ongoing_transaction_is_aborted_first(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    assert (world.now().state, world.now().epoch) == (S.PREPARE_ABORT, 1)
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    assert world.end(1000, 0, commit=False).error is E.PRODUCER_FENCED
    assert world.mark() == [TransactionMarkers(ID, 1000, 1, world.epoch, False, frozenset({A}))]
    # The former owner cannot slip in before the new one has asked again.
    for version in (0, 2):
        assert world.end(1000, 0, commit=False, version=version).error is E.PRODUCER_FENCED
    assert world.init((1000, 0)).error is E.PRODUCER_FENCED
    assert world.init() == (E.NONE, 1000, 2)


def test_a_producer_that_goes_on_within_its_transaction(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    assert world.init((1000, 0)).error is E.CONCURRENT_TRANSACTIONS
    # Whoever it says to be, the end of the abort is waited for first.
    assert world.init((5, 0)).error is E.CONCURRENT_TRANSACTIONS
    assert [(m.commit, m.producer_epoch) for m in world.mark()] == [(False, 1)]
    assert world.init((5, 0)).error is E.PRODUCER_FENCED
    assert world.init((1000, 0)) == (E.NONE, 1000, 1)
    assert world.add(1000, 1, A) == {A: E.NONE}


def test_a_transaction_has_no_more_partitions_than_can_be_written_at_once(world: World) -> None:
    world.init()
    half = MAX_PARTITIONS // 2
    first, second, beyond = [[("t", n * half + i) for i in range(half)] for n in range(3)]
    assert set(world.add(1000, 0, *first, *second, *beyond).values()) == {E.INVALID_REQUEST}
    assert world.now().state is S.EMPTY, "nothing has begun"
    assert set(world.add(1000, 0, *first, *second).values()) == {E.NONE}
    assert set(world.add(1000, 0, *second).values()) == {E.NONE}, "it has them already"
    assert world.add(1000, 0, beyond[0]) == {beyond[0]: E.INVALID_REQUEST}
    assert len(world.now().partitions) == MAX_PARTITIONS
    assert world.end(1000, 0).error is E.NONE


def test_a_former_owner_that_wants_to_go_on_leaves_the_transaction_alone(world: World) -> None:
    world.init()
    world.init((1000, 0))
    world.add(1000, 1, A)
    for former in ((1000, 0), (1000, 2), (5, 1)):
        assert world.init(former).error is E.PRODUCER_FENCED
    assert world.now().state is S.ONGOING
    assert world.end(1000, 1, version=2) == (E.NONE, 1000, 2)


def test_a_producer_that_goes_on_within_its_transaction_as_before_v2() -> None:
    world = World(transaction_version=1)
    world.init()
    world.add(1000, 0, A)
    assert world.init((1000, 0)).error is E.CONCURRENT_TRANSACTIONS
    assert [(m.producer_epoch, m.transaction_version) for m in world.mark()] == [(1, 0)]
    # The fencing has used up the epoch, and remembers none before it.
    assert world.init((1000, 0)).error is E.PRODUCER_FENCED


@pytest.mark.parametrize("resumed", [False, True])
def test_fencing_at_the_last_epoch_gives_a_new_id(world: World, resumed: bool) -> None:
    last = MAX_EPOCH - 1
    place(world, epoch=last, state=S.ONGOING, partitions=frozenset({A}), start_ms=START_MS)
    assert world.init((1, last) if resumed else None).error is E.CONCURRENT_TRANSACTIONS
    assert [(m.producer_id, m.producer_epoch) for m in world.mark()] == [(1, MAX_EPOCH)]
    assert (world.now().producer_id, world.now().epoch) == (1000, 0)
    assert world.init((1, last) if resumed else None) == (E.NONE, 1000, 0 if resumed else 1)


def test_an_id_from_before_the_last_one_cannot_abort_what_is_ongoing(world: World) -> None:
    place(world, epoch=MAX_EPOCH - 1)
    assert world.init((1, MAX_EPOCH - 1)) == (E.NONE, 1000, 0)
    world.add(1000, 0, A)
    assert world.init((1, MAX_EPOCH - 1)).error is E.PRODUCER_FENCED
    assert world.now().state is S.ONGOING


def test_a_fenced_transaction_began_when_it_began(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    world.timers.advance(7)
    world.init()
    assert world.now().start_ms == START_MS


def test_fencing_waits_for_a_producer_id(world: World) -> None:
    place(world, epoch=MAX_EPOCH - 1, state=S.ONGOING, partitions=frozenset({A}), start_ms=START_MS)
    world.ids_are_there = False
    world.timers.advance(80_000)
    assert world.now().state is S.ONGOING
    world.ids_are_there = True
    world.timers.advance(20_000)
    assert world.now().state is S.PREPARE_ABORT


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_errors_while_prepared(world: World, state: TransactionState) -> None:
    place(world, state=state, partitions=frozenset({A}), start_ms=START_MS)
    commit = state is S.PREPARE_COMMIT
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    assert world.add(1, 0, A) == {A: E.CONCURRENT_TRANSACTIONS}
    assert world.add(1, 0, A, verify=True) == {A: E.CONCURRENT_TRANSACTIONS}
    # Of what comes next the id, and with transactions V2 the epoch, may be known to the client only.
    assert world.add(7, 0, A) == {A: E.CONCURRENT_TRANSACTIONS}
    assert world.add(7, 0, A, verify=True) == {A: E.INVALID_PRODUCER_ID_MAPPING}
    assert world.init((7, 0)).error is E.CONCURRENT_TRANSACTIONS
    for outcome in (commit, not commit):
        assert world.end(1, 0, commit=outcome).error is E.CONCURRENT_TRANSACTIONS
        assert world.end(1, 1, commit=outcome).error is E.PRODUCER_FENCED
        assert world.end(7, 0, commit=outcome).error is E.INVALID_PRODUCER_ID_MAPPING
        assert world.end(7, 1, commit=outcome, version=2).error is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("verify", [False, True])
def test_errors_of_adding(world: World, verify: bool) -> None:
    assert world.add(1, 0, A, B, verify=verify) == dict.fromkeys((A, B), E.INVALID_PRODUCER_ID_MAPPING)
    world.init()
    assert world.add(1, 0, A, verify=verify) == {A: E.INVALID_PRODUCER_ID_MAPPING}
    assert world.add(1000, 1, A, verify=verify) == {A: E.PRODUCER_FENCED}


def test_adding_and_verifying(world: World) -> None:
    world.init()
    assert world.add(1000, 0, A) == {A: E.NONE}
    appended = world.log.next_offset[0]
    assert world.add(1000, 0, A) == {A: E.NONE}
    assert world.log.next_offset[0] == appended
    assert world.add(1000, 0, A, B, verify=True) == {A: E.NONE, B: E.TRANSACTION_ABORTABLE}
    began = world.now().start_ms
    world.timers.advance(5)
    offsets: list[object] = []
    world.coordinator.add_offsets(
        ID, 1000, 0, ("__consumer_offsets", 7), Reply(offsets.append, lambda error: {})
    )
    assert offsets == [{("__consumer_offsets", 7): E.NONE}]
    assert (world.now().start_ms, world.now().updated_ms) == (began, began + 5)


@pytest.mark.parametrize("commit", [True, False])
def test_end_as_old_clients_do(world: World, commit: bool) -> None:
    assert world.end(1000, 0, commit).error is E.INVALID_PRODUCER_ID_MAPPING
    world.init()
    assert world.end(1000, 0, commit).error is E.INVALID_TXN_STATE
    world.add(1000, 0, A, B)
    assert world.end(1, 0, commit).error is E.INVALID_PRODUCER_ID_MAPPING
    assert world.end(1000, 1, commit).error is E.PRODUCER_FENCED
    assert world.end(1000, 0, commit) == (E.NONE, 1000, 0)
    assert world.end(1000, 0, commit).error is E.CONCURRENT_TRANSACTIONS
    assert world.mark() == [TransactionMarkers(ID, 1000, 0, 0, commit, frozenset({A, B}))]
    assert world.now().state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert world.end(1000, 0, commit) == (E.NONE, 1000, 0)
    assert world.end(1000, 0, not commit).error is E.INVALID_TXN_STATE
    assert world.add(1000, 0, B) == {B: E.NONE}
    assert world.now().partitions == {B}


def test_end_with_an_epoch_per_transaction(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    assert world.end(1000, 0, version=2) == (E.NONE, 1000, 1)
    assert world.end(1000, 0, version=2).error is E.CONCURRENT_TRANSACTIONS
    # The next one, which nothing has joined yet, comes while the markers are written.
    assert world.end(1000, 1, commit=False, version=2).error is E.CONCURRENT_TRANSACTIONS
    assert [markers.producer_epoch for markers in world.mark()] == [1]
    assert world.end(1000, 0, version=2) == (E.NONE, 1000, 1)
    # Before V2 ends are not repeated with the epoch from before.
    assert world.end(1000, 0).error is E.PRODUCER_FENCED
    assert world.end(1000, 0, commit=False).error is E.PRODUCER_FENCED
    assert world.end(1000, 0, commit=False, version=2).error is E.INVALID_TXN_STATE
    assert world.end(1000, 1, version=2).error is E.INVALID_TXN_STATE
    assert world.end(1000, 2, commit=False, version=2).error is E.PRODUCER_FENCED
    assert world.add(1000, 0, A) == {A: E.PRODUCER_FENCED}
    assert world.add(1000, 1, A) == {A: E.NONE}


@pytest.mark.parametrize("crash", [False, True])
def test_the_last_epoch_ends_under_a_new_id(world: World, crash: bool) -> None:
    place(world, epoch=MAX_EPOCH - 1, state=S.ONGOING, partitions=frozenset({A}), start_ms=START_MS)
    assert world.end(1, MAX_EPOCH - 1, version=2) == (E.NONE, 1000, 0)
    if crash:
        world.restart()
    assert world.add(1000, 0, A) == {A: E.CONCURRENT_TRANSACTIONS}
    assert [(m.producer_id, m.producer_epoch) for m in world.mark()] == [(1, MAX_EPOCH)]
    assert (world.now().producer_id, world.now().epoch) == (1000, 0)
    # The answer was lost: the new id is told.
    assert world.end(1, MAX_EPOCH - 1, version=2) == (E.NONE, 1000, 0)


def test_without_the_feature_no_epoch_is_raised() -> None:
    world = World(transaction_version=0)
    world.init()
    world.add(1000, 0, A)
    assert world.end(1000, 0, version=2) == (E.NONE, 1000, 0)


def test_a_transaction_without_partitions_completes(world: World) -> None:
    world.init()
    world.add(1000, 0)
    assert world.end(1000, 0).error is E.NONE
    assert world.sent == []
    assert world.now().state is S.COMPLETE_COMMIT


def test_nothing_is_sent_or_said_before_the_commit(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    world.log.hold_commits = True
    assert world.end(1000, 0) is None
    world.timers.advance(4_000)
    assert world.sent == []
    world.log.commit_held()
    world.timers.advance(0)
    assert len(world.sent) == 1


def test_markers_of_a_commit_that_takes_long_are_not_lost(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    world.log.hold_commits = True
    world.end(1000, 0)
    world.timers.advance(6_000)
    assert world.sent == []
    world.log.commit_held()
    world.timers.advance(0)
    world.mark()
    world.log.commit_held()
    assert world.now().state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [E.NOT_LEADER_OR_FOLLOWER, E.REQUEST_TIMED_OUT, E.KAFKA_STORAGE_ERROR])
def test_markers_are_tried_again(world: World, error: ErrorCode) -> None:
    world.init()
    world.add(1000, 0, A, B)
    world.end(1000, 0)
    (markers,) = world.sent
    world.sent.clear()
    world.coordinator.markers_answered(markers, {A: E.NONE, B: error})
    world.timers.advance(100)
    assert [again.partitions for again in world.sent] == [{B}]
    # Answers that come twice change nothing.
    world.coordinator.markers_answered(markers, {A: E.NONE})
    world.mark()
    assert world.now().state is S.COMPLETE_COMMIT


def test_an_answer_that_comes_late_is_not_taken_for_one_of_the_next_transaction(world: World) -> None:
    world.init()
    told: list[TransactionMarkers] = []
    for _ in range(2):
        world.add(1000, 0, A)
        world.end(1000, 0)
        # Before V2 the next transaction has the same id and epoch.
        for markers in told:
            world.coordinator.markers_answered(markers, {A: E.NONE})
        assert world.now().state is S.PREPARE_COMMIT
        told += world.mark()
        assert world.now().state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_markers_are_given_up_when_somebody_took_over(world: World, error: ErrorCode) -> None:
    world.init()
    world.add(1000, 0, A)
    world.end(1000, 0)
    world.mark(error)
    world.timers.advance(10_000)
    assert world.sent == []
    assert world.now().state is S.PREPARE_COMMIT


def test_a_completion_that_cannot_be_written_is_tried_again(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    world.end(1000, 0)
    world.log.failure = NotEnoughReplicasError()
    world.mark()
    assert world.now().state is S.PREPARE_COMMIT
    world.timers.advance(250)
    world.log.failure = None
    world.timers.advance(200)
    assert world.now().state is S.COMPLETE_COMMIT


def test_a_failed_append_changes_nothing(world: World) -> None:
    world.init()
    world.add(1000, 0, A)
    before = world.now()
    world.log.failure = NotEnoughReplicasError()
    for _ in range(2):
        assert world.init().error is E.COORDINATOR_NOT_AVAILABLE
        assert world.end(1000, 0).error is E.COORDINATOR_NOT_AVAILABLE
        assert world.add(1000, 0, B) == {B: E.COORDINATOR_NOT_AVAILABLE}
    assert world.now() == before


def test_a_timeout_aborts_and_fences(world: World) -> None:
    world.init(timeout_ms=15_000)
    world.add(1000, 0, A)
    world.timers.advance(15_000)
    assert world.now().state is S.ONGOING
    world.restart()
    world.timers.advance(10_000)
    assert (world.now().state, world.now().epoch) == (S.PREPARE_ABORT, 1)
    assert world.end(1000, 0, commit=False, version=2).error is E.CONCURRENT_TRANSACTIONS
    world.mark()
    assert world.now().state is S.COMPLETE_ABORT
    assert world.add(1000, 0, A) == {A: E.PRODUCER_FENCED}
    assert world.end(1000, 0).error is E.PRODUCER_FENCED
    assert world.end(1000, 0, version=2).error is E.INVALID_TXN_STATE
    # An abort of its own came to the same: it may go on.
    assert world.end(1000, 0, commit=False, version=2) == (E.NONE, 1000, 1)


HOURS_MS = 6 * 3_600_000


@pytest.mark.parametrize("jump_ms", [HOURS_MS, -HOURS_MS], ids=["forward", "back"])
def test_a_clock_that_is_set_ends_no_transaction_early_or_late(world: World, jump_ms: int) -> None:
    world.init(timeout_ms=15_000)
    world.add(1000, 0, A)
    world.clock.jump(jump_ms)
    world.timers.advance(10_000)
    # The partitions that it adds later are a part of the same transaction.
    world.add(1000, 0, B)
    world.clock.jump(jump_ms)
    assert world.now().state is S.ONGOING
    world.timers.advance(10_000)
    assert world.now().state is S.PREPARE_ABORT


def test_each_transaction_is_counted_from_its_own_beginning(world: World) -> None:
    world.init(timeout_ms=15_000)
    world.add(1000, 0, A)
    world.timers.advance(10_000)
    world.end(1000, 0)
    world.mark()
    world.add(1000, 0, A)
    world.timers.advance(10_000)
    assert world.now().state is S.ONGOING
    world.timers.advance(10_000)
    assert world.now().state is S.PREPARE_ABORT


@pytest.mark.parametrize(
    ("jump_ms", "lasts_ms"), [(HOURS_MS, 10_000), (-HOURS_MS, 20_000)], ids=["forward", "back"]
)
def test_what_is_loaded_is_counted_on_by_what_the_log_says(world: World, jump_ms: int, lasts_ms: int) -> None:
    """The next coordinator has the wall clock alone, and takes no beginning for one in the future."""
    world.init(timeout_ms=15_000)
    world.add(1000, 0, A)
    world.clock.jump(jump_ms)
    world.restart()
    world.timers.advance(lasts_ms - 10_000)
    assert world.now().state is S.ONGOING
    world.timers.advance(10_000)
    assert world.now().state is S.PREPARE_ABORT


def test_a_fenced_producer_is_not_told_the_outcome_of_another_one(world: World) -> None:
    world.init()
    assert world.init() == (E.NONE, 1000, 1)
    world.add(1000, 1, A)
    world.end(1000, 1)
    world.mark()
    assert world.now().state is S.COMPLETE_COMMIT
    assert world.end(1000, 0, version=2).error is E.PRODUCER_FENCED


def test_ids_expire(world: World) -> None:
    world = World(transactional_id_expiration_ms=3 * 3_600_000)
    world.init()
    world.init(who="open", timeout_ms=900_000)
    world.add(1001, 0, A, who="open")
    world.timers.advance(3_600_000 * 2)
    world.end(1001, 0, who="open")
    assert world.now().state is S.EMPTY
    world.timers.advance(3_600_000)
    with pytest.raises(KafkaError) as caught:
        world.now()
    assert caught.value.code is E.TRANSACTIONAL_ID_NOT_FOUND
    world.restart()
    assert set(world.shard.transactions) == {"open"}


@pytest.mark.parametrize("state", S)
def test_recovery_in_every_state(world: World, state: TransactionState) -> None:
    if state in (S.DEAD, S.PREPARE_EPOCH_FENCE):
        return
    partitions = frozenset() if state in (S.EMPTY, S.COMPLETE_ABORT, S.COMPLETE_COMMIT) else frozenset({A})
    place(world, state=state, partitions=partitions, start_ms=-1 if state is S.EMPTY else START_MS)
    sent = world.mark()
    if state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
        assert sent == [TransactionMarkers(ID, 1, 0, world.epoch, state is S.PREPARE_COMMIT, partitions)]
        assert world.now().state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
    else:
        assert sent == []
        assert world.add(1, 0, B) == {B: E.NONE}
        assert world.end(1, 0) == (E.NONE, 1, 0)


def test_listing(world: World) -> None:
    world.init()
    world.init(who="b")
    world.add(1001, 0, A, who="b")
    world.timers.advance(50)

    def ids(**filters: object) -> set[str]:
        return {t.transactional_id for t in world.coordinator.list(**filters).transactions}  # type: ignore[arg-type]

    assert ids() == {ID, "b"}
    assert ids(producer_ids=[1001]) == {"b"}
    assert ids(states=["Empty", "What"]) == {ID}
    assert ids(states=["What"]) == set()
    assert world.coordinator.list(states=["What"]).unknown_states == ["What"]
    assert ids(longer_than_ms=50) == {ID}


def test_nobody_coordinates_without_the_topic(world: World) -> None:
    world.coordinator.partition_count = 0
    assert world.init().error is E.NOT_COORDINATOR
    world.coordinator.partition_count = 1
    world.coordinator.runtime.unload(0)
    assert world.init().error is E.NOT_COORDINATOR


def test_markers_go_to_leaders() -> None:
    gone = ("gone", 1)
    markers = TransactionMarkers(ID, 1, 0, 0, True, frozenset({A, B, gone}))
    sends, missing = by_leader([markers], {A: 2, B: -1}.get)
    assert {leader: [m.partitions for m in entries] for leader, entries in sends.items()} == {
        2: [{A}],
        -1: [{B}],
    }
    assert [m.partitions for m in missing] == [{gone}]


@pytest.mark.parametrize(
    ("api", "first"),
    [("InitProducerId", 4), ("AddPartitionsToTxn", 2), ("AddOffsetsToTxn", 2), ("EndTxn", 2)],
)
def test_old_clients_do_not_know_fencing(api: str, first: int) -> None:
    assert error_for_version(E.PRODUCER_FENCED, api, first) is E.PRODUCER_FENCED
    assert error_for_version(E.PRODUCER_FENCED, api, first - 1) is E.INVALID_PRODUCER_EPOCH
    assert error_for_version(E.NOT_COORDINATOR, api, 0) is E.NOT_COORDINATOR


def test_repeated_requests_after_a_crash(world: World) -> None:
    world.init()
    assert world.init((1000, 0)) == (E.NONE, 1000, 1)
    world.restart()
    # The last epoch is not in the log.
    assert world.init((1000, 0)).error is E.PRODUCER_FENCED
    world.add(1000, 1, A)
    world.end(1000, 1, version=2)
    world.restart()
    world.mark()
    assert world.end(1000, 1, version=2) == (E.NONE, 1000, 2)
