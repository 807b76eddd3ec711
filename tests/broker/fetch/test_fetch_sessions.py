"""Fetch sessions: what a request means, what a response leaves out, who makes room (KIP-227)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.broker.fetch import sessions as sessions_module
from odradek.broker.fetch.sessions import (
    FINAL_EPOCH,
    FetchContext,
    FetchedPartition,
    FetchSessionCache,
    IdOrName,
    next_epoch,
)
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.fetch import EpochEndOffset, FetchPartition, PartitionData
from seeds import seed

NO_ID = bytes(16)
ID_A, ID_B = b"a" * 16, b"b" * 16


def one(topic: str | None, index: int = 0, topic_id: bytes = NO_ID, *, offset: int = 0) -> FetchedPartition:
    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)
    return FetchedPartition(topic, topic_id, wanted)


def keys(context: FetchContext) -> list[tuple[str | None, int]]:
    return [(one.topic, one.fetch_partition.partition) for one in context.partitions]


def answer(
    index: int = 0, *, hw: int = 0, start: int = 0, records: bytes = b"", error: int = 0
) -> PartitionData:
    return PartitionData(
        partition_index=index, high_watermark=hw, log_start_offset=start, records=records, error_code=error
    )


@dataclass
class Client:
    """One consumer's side of the conversation."""

    cache: FetchSessionCache
    now_ms: int = 1_000_000
    by_id: bool = False

    def open(
        self,
        session_id: int,
        epoch: int,
        wanted: list[FetchedPartition] | None = None,
        forgotten: list[IdOrName] | None = None,
        *,
        by_id: bool | None = None,
        follower: bool = False,
    ) -> FetchContext:
        return self.cache.open(
            session_id,
            epoch,
            named_partitions=wanted or [],
            forgotten=forgotten or [],
            uses_topic_ids=self.by_id if by_id is None else by_id,
            privileged=follower,
            now_ms=self.now_ms,
        )

    def answer(self, context: FetchContext, *answers: PartitionData) -> tuple[ErrorCode, int, list[Any]]:
        """Finish a fetch with what is said of its partitions, in order."""
        paired = list(zip(context.partitions, answers, strict=True)) if answers else []
        return self.cache.finish(context, paired, now_ms=self.now_ms)

    def full(self, *wanted: FetchedPartition, follower: bool = False) -> int:
        """Open a session and answer it; returns its id."""
        context = self.open(0, 0, list(wanted), follower=follower)
        error, session_id, _ = self.answer(
            context, *(answer(one.fetch_partition.partition) for one in wanted)
        )
        assert error == ErrorCode.NONE
        return session_id


@pytest.fixture
def client() -> Client:
    return Client(FetchSessionCache(max_sessions=3, eviction_ms=1000, rng=random.Random(7)))


def test_epochs_wrap_past_zero() -> None:
    assert [next_epoch(epoch) for epoch in (-1, 0, 1, 2**31 - 2, 2**31 - 1)] == [-1, 1, 2, 2**31 - 1, 1]


def test_a_full_fetch_opens_a_session_and_is_answered_in_full(client: Client) -> None:
    context = client.open(0, 0, [one("t", 0), one("t", 1)])
    assert keys(context) == [("t", 0), ("t", 1)]
    error, session_id, sent = client.answer(context, answer(0), answer(1))
    assert (error, [said.partition_index for _, said in sent]) == (ErrorCode.NONE, [0, 1])
    assert session_id > 0
    assert (len(client.cache), client.cache.total_partitions) == (1, 2)


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [
        ("unknown", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ("none", 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ("known", 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ("known", 1, ErrorCode.NONE),
    ],
)
def test_which_session_is_meant(client: Client, session_id: str, epoch: int, error: ErrorCode) -> None:
    known = client.full(one("t"))
    context = client.open({"known": known, "none": 0, "unknown": known ^ 1}[session_id], epoch)
    assert context.error == error
    if error:
        assert client.answer(context) == (error, 0, [])


def test_topic_ids_may_not_come_or_go_within_a_session(client: Client) -> None:
    by_name = client.full(one("t"))
    assert client.open(by_name, 1, by_id=True).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    client.by_id = True
    by_id = client.full(one("a", 0, ID_A))
    assert client.open(by_id, 1, by_id=False).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize(
    ("then", "sent"),
    [
        (answer(), False),
        (answer(hw=1), True),
        (answer(start=1), True),
        (answer(records=b"x"), True),
        (answer(error=3), True),
        (PartitionData(records=b"", log_start_offset=0, diverging_epoch=EpochEndOffset(epoch=1)), True),
        (PartitionData(records=b"", log_start_offset=0, preferred_read_replica=2), True),
    ],
)
def test_an_incremental_answer_says_only_what_is_new(client: Client, then: PartitionData, sent: bool) -> None:
    session_id = client.full(one("t"))
    context = client.open(session_id, 1)
    assert keys(context) == [("t", 0)]
    error, answered_id, chosen = client.answer(context, then)
    assert (error, answered_id) == (ErrorCode.NONE, session_id)
    assert bool(chosen) is sent
    # The same once more: an error, data, divergence and a preferred replica are news each time.
    context = client.open(session_id, 2)
    _, _, chosen = client.answer(context, then)
    again = bool(then.records or then.error_code or then.diverging_epoch.epoch >= 0)
    assert bool(chosen) is (again or then.preferred_read_replica >= 0)


def test_a_partition_is_sent_again_when_its_error_has_gone(client: Client) -> None:
    session_id = client.full(one("t"))
    client.answer(client.open(session_id, 1), answer(error=6))
    _, _, chosen = client.answer(client.open(session_id, 2), answer())
    assert len(chosen) == 1
    _, _, chosen = client.answer(client.open(session_id, 3), answer())
    assert not chosen


def test_a_follower_is_told_the_high_watermark_again_after_it_has_cut_its_log(client: Client) -> None:
    """It takes nothing else from an answer that says where the logs part."""
    session_id = client.full(one("t"))
    parted = answer()
    parted.diverging_epoch = EpochEndOffset(epoch=1)
    client.answer(client.open(session_id, 1), parted)
    _, _, chosen = client.answer(client.open(session_id, 2), answer())
    assert len(chosen) == 1
    _, _, chosen = client.answer(client.open(session_id, 3), answer())
    assert not chosen


def test_requests_add_change_and_forget_partitions(client: Client) -> None:
    session_id = client.full(one("t", 0), one("t", 1))
    context = client.open(session_id, 1, [one("t", 1, offset=5), one("u", 0, offset=9)], [("t", 0)])
    assert keys(context) == [("t", 1), ("u", 0)]
    assert [known.fetch_partition.fetch_offset for known in context.partitions] == [5, 9]
    assert client.cache.total_partitions == 2


def test_what_gave_data_is_served_last_next_time(client: Client) -> None:
    session_id = client.full(one("t", 0), one("t", 1), one("t", 2))
    context = client.open(session_id, 1)
    client.answer(context, answer(0, records=b"x"), answer(1), answer(2))
    assert keys(client.open(session_id, 2)) == [("t", 1), ("t", 2), ("t", 0)]


def test_a_session_without_partitions_is_closed(client: Client) -> None:
    session_id = client.full(one("t"))
    context = client.open(session_id, 1, forgotten=[("t", 0)])
    assert (context.error, context.partitions) == (ErrorCode.NONE, [])
    assert client.answer(context) == (ErrorCode.NONE, 0, [])
    assert len(client.cache) == 0


def test_a_final_epoch_closes_and_opens_none(client: Client) -> None:
    session_id = client.full(one("t"))
    context = client.open(session_id, -1, [one("t")])
    error, answered_id, chosen = client.answer(context, answer())
    assert (error, answered_id, len(chosen), len(client.cache)) == (ErrorCode.NONE, 0, 1, 0)


def test_a_new_full_fetch_closes_the_old_session(client: Client) -> None:
    session_id = client.full(one("t"))
    client.open(session_id, 0, [one("t")])
    assert client.open(session_id, 1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_request_that_was_overtaken_is_refused(client: Client) -> None:
    session_id = client.full(one("t"))
    first = client.open(session_id, 1)
    second = client.open(session_id, 2)
    assert client.answer(first, answer())[0] == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.answer(second, answer())[0] == ErrorCode.NONE


def test_what_is_forgotten_while_a_request_waits_is_not_told(client: Client) -> None:
    session_id = client.full(one("t", 0), one("t", 1))
    context = client.open(session_id, 1)
    assert context.session is not None
    context.session.update([], [("t", 0)])
    _, _, chosen = client.answer(context, answer(0, records=b"x"), answer(1, records=b"y"))
    assert [said.partition_index for _, said in chosen] == [1]


def test_by_ids_what_is_forgotten_goes_by_its_id(client: Client) -> None:
    client.by_id = True
    session_id = client.full(one(None, 0, ID_A), one("b", 0, ID_B))
    assert keys(client.open(session_id, 1)) == [(None, 0), ("b", 0)]
    assert keys(client.open(session_id, 2, forgotten=[(ID_A, 0)])) == [("b", 0)]


def test_no_room_means_no_session_but_a_full_answer(client: Client) -> None:
    for _ in range(3):
        assert client.full(one("t")) > 0
    assert client.full(one("t"), one("u")) == 0
    assert (len(client.cache), client.cache.evictions) == (3, 0)


def test_a_stale_session_makes_room(client: Client) -> None:
    sessions = [client.full(one("t")) for _ in range(3)]
    client.now_ms += 900
    client.open(sessions[0], 1)
    client.now_ms += 200
    assert client.full(one("t")) > 0
    assert client.cache.evictions == 1
    # The one that was used least recently is gone, the one just used is not.
    assert client.open(sessions[1], 1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.open(sessions[0], 2).error == ErrorCode.NONE


def test_a_larger_fetch_evicts_a_smaller_one_that_is_old_enough(client: Client) -> None:
    small = client.full(one("t"))
    large = [client.full(*(one("t", index) for index in range(5))) for _ in range(2)]
    client.now_ms += 1001
    for session_id in (small, *large):
        client.open(session_id, 1)
    assert client.full(one("t"), one("u")) > 0
    assert client.open(small, 2).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.open(large[0], 2).error == ErrorCode.NONE


def test_a_follower_evicts_a_consumer_but_not_the_other_way_round(client: Client) -> None:
    for _ in range(2):
        client.full(one("t"), one("u"))
    client.full(one("t"), follower=True)
    assert client.full(one("t"), follower=True) > 0
    assert client.full(*(one("t", index) for index in range(50))) == 0
    assert client.cache.evictions == 1


def test_partitions_in_all_sessions_are_bounded() -> None:
    client = Client(FetchSessionCache(max_partitions=5, rng=random.Random(7)))
    session_id = client.full(*(one("t", index) for index in range(3)))
    assert client.full(*(one("t", index) for index in range(3))) == 0
    assert client.full(one("t"), one("u")) > 0
    # One that grows beyond the bound is closed, and its client begins anew.
    grown = client.open(session_id, 1, [one("t", 9)])
    assert grown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.cache.total_partitions == 2


@pytest.mark.fuzz
def test_the_cache_never_holds_more_than_it_may() -> None:
    rng = random.Random(seed(11))
    client = Client(FetchSessionCache(max_sessions=5, eviction_ms=100, rng=rng))
    sessions: dict[int, int] = {}
    for _ in range(2000):
        client.now_ms += rng.randrange(20)
        if rng.random() < 0.3 or not sessions:
            session_id = client.full(
                *(one("t", index) for index in range(rng.randrange(1, 4))), follower=rng.random() < 0.2
            )
            if session_id:
                sessions[session_id] = 1
        else:
            session_id = rng.choice(list(sessions))
            wanted = [one("t", index) for index in range(rng.randrange(5))]
            forgotten = [("t", index) for index in range(rng.randrange(3))]
            context = client.open(session_id, sessions[session_id], wanted, forgotten)
            if context.error:
                assert context.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                del sessions[session_id]
            else:
                sessions[session_id] = next_epoch(sessions[session_id])
        assert len(client.cache) <= 5
    for session_id in sessions:
        client.open(session_id, FINAL_EPOCH)
    # Nothing is counted of sessions that are over, however they ended.
    assert (len(client.cache), client.cache.total_partitions) == (0, 0)


def test_partitions_that_are_named_again_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_SESSION_PARTITIONS", 4)
    client = Client(FetchSessionCache(rng=random.Random(7)))
    session = client.full(*(one("t", index) for index in range(3)))
    # A consumer names those of which it has read something, with the next offset.
    moved = client.open(session, 1, [one("t", index, offset=5) for index in range(3)])
    assert (moved.error, keys(moved)) == (ErrorCode.NONE, [("t", 0), ("t", 1), ("t", 2)])
    more = client.open(session, 2, [one("t", index, offset=6) for index in range(1, 4)])
    assert (more.error, len(more.partitions)) == (ErrorCode.NONE, 4)
    assert client.open(session, 3, [one("t", 4)]).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
