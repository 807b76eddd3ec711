"""The small parts: the hash, deadlines, the table of states, offsets in transactions."""

from __future__ import annotations

import itertools

import pytest

from odradek.coordinators.append_errors import seen_by_client
from odradek.coordinators.deadlines import Deadlines
from odradek.coordinators.groups.offset_store import OffsetStore
from odradek.coordinators.groups.offsets import metadata_too_long
from odradek.coordinators.groups.states import LEGAL_MOVES, GroupState, can_rebalance
from odradek.coordinators.partitioner import java_string_hash, partition_for
from odradek.errors import ErrorCode
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.schemas.consumer_offsets import OffsetCommitValue


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 1463617347),
        # The string whose hash is Integer.MIN_VALUE.
        ("polygenelubricants", -(2**31)),
        # Outside the basic plane: two code units.
        ("\U0001f98a", 31 * 0xD83E + 0xDD8A),
    ],
)
def test_java_string_hash(text: str, hashed: int) -> None:
    if text == "console-consumer-12345":
        value = 0
        for character in text:
            value = (31 * value + ord(character)) % 2**32
        hashed = value - 2**32 if value >= 2**31 else value
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize("length", [0, 255, 256, 257, 512, 32_767])
def test_java_string_hash_of_long_texts(length: int) -> None:
    value = 0
    text = "".join(chr(0x61 + at % 997) for at in range(length))
    for character in text:
        value = (31 * value + ord(character)) % 2**32
    assert java_string_hash(text) == (value - 2**32 if value >= 2**31 else value)


def test_smallest_hash_goes_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("hello", 50) == 99162322 % 50


def test_deadlines_that_are_put_off_cost_no_timer() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)
    deadlines = Deadlines(timers, clock)
    fired: list[str] = []
    deadlines.set("a", 10, lambda: fired.append("first"))
    for _ in range(100):
        timers.advance(5)
        deadlines.set("a", 10, lambda: fired.append("last"))
        assert timers.pending == 1
    timers.advance(9)
    assert not fired
    timers.advance(1)
    assert fired == ["last"]
    assert len(deadlines) == 0 and timers.pending == 0


def test_the_time_of_a_deadline_may_be_over_at_once() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)
    deadlines = Deadlines(timers, clock)
    fired: list[str] = []
    deadlines.set("a", 100, lambda: fired.append("a"))
    deadlines.set("b", 100, lambda: fired.append("b"))
    deadlines.pass_now("a")
    deadlines.pass_now("a")
    deadlines.pass_now("unknown")
    assert (fired, len(deadlines), timers.pending) == (["a"], 1, 1)
    timers.advance(100)
    assert fired == ["a", "b"]


def test_deadlines_may_come_closer_and_be_cancelled() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)
    deadlines = Deadlines(timers, clock)
    fired: list[str] = []
    deadlines.set("a", 100, lambda: fired.append("late"))
    deadlines.set("a", 10, lambda: fired.append("early"))
    deadlines.set("b", 5, lambda: fired.append("b"))
    deadlines.cancel("b")
    deadlines.cancel("unknown")
    timers.advance(10)
    assert fired == ["early"]
    deadlines.set("c", 5, lambda: fired.append("c"))
    assert "c" in deadlines
    deadlines.cancel_all()
    timers.advance(100)
    assert fired == ["early"]


def test_a_deadline_may_set_itself_again() -> None:
    clock = ManualClock()
    timers = ManualTimers(clock)
    deadlines = Deadlines(timers, clock)
    fired: list[int] = []

    def again() -> None:
        fired.append(clock.now_ms())
        if len(fired) < 3:
            deadlines.set("a", 10, again)

    deadlines.set("a", 10, again)
    timers.advance(100)
    assert [b - a for a, b in itertools.pairwise(fired)] == [10, 10]


def test_states() -> None:
    assert set(LEGAL_MOVES) == set(GroupState)
    assert {s for s in GroupState if can_rebalance(s)} == {
        GroupState.EMPTY,
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
    }
    # Only its own table leads back from Dead.
    assert LEGAL_MOVES[GroupState.DEAD] == {GroupState.DEAD}
    assert all(GroupState.DEAD in moves for moves in LEGAL_MOVES.values())


def value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1)


def test_transactional_offsets_count_when_the_transaction_is_committed() -> None:
    store = OffsetStore()
    store.replay(0, 7, "g", "t", 0, value(1))
    store.replay(1, 8, "g", "t", 1, value(2))
    assert store.get("g", "t", 0) is None
    assert (
        store.is_pending("g", "t", 0) and store.is_pending("g", "t", 1) and store.has_open_transactions("g")
    )
    assert not store.is_pending("g", "t", 2)
    assert store.group_ids() == {"g"}
    store.replay_end_of_transaction(7, committed=True)
    store.replay_end_of_transaction(8, committed=False)
    store.replay_end_of_transaction(9, committed=True)
    assert store.get("g", "t", 0) is not None and store.get("g", "t", 1) is None
    assert not store.has_open_transactions("g")


def test_a_later_plain_commit_outlives_an_earlier_transactional_one() -> None:
    store = OffsetStore()
    store.replay(0, 7, "g", "t", 0, value(1))
    store.replay(1, -1, "g", "t", 0, value(2))
    store.replay_end_of_transaction(7, committed=True)
    entry = store.get("g", "t", 0)
    assert entry is not None and entry.offset == 2


def test_a_tombstone_removes_pending_offsets_too() -> None:
    store = OffsetStore()
    store.replay(0, 7, "g", "t", 0, value(1))
    store.replay(1, -1, "g", "t", 0, value(1))
    assert list(store.keys_of_group("g")) == [("t", 0)]
    store.replay(2, -1, "g", "t", 0, None)
    store.replay_end_of_transaction(7, committed=True)
    assert store.snapshot() == {}
    assert store.group_ids() == set()


def test_metadata_is_measured_as_java_does() -> None:
    assert not metadata_too_long(None, 4) and not metadata_too_long("abcd", 4)
    assert metadata_too_long("abcde", 4)
    assert not metadata_too_long("äöüß", 4)
    assert metadata_too_long("\U0001f98a\U0001f98aa", 4)


def test_append_errors() -> None:
    assert seen_by_client(ErrorCode.NOT_ENOUGH_REPLICAS) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert seen_by_client(ErrorCode.NOT_LEADER_OR_FOLLOWER) is ErrorCode.NOT_COORDINATOR
    assert seen_by_client(ErrorCode.MESSAGE_TOO_LARGE) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert seen_by_client(ErrorCode.INVALID_TOPIC_EXCEPTION) is ErrorCode.INVALID_TOPIC_EXCEPTION
