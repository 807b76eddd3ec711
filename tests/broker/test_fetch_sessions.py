"""Fetch sessions: what a request means, what a response leaves out, who makes room (KIP-227)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.broker.fetch_sessions import (
    FetchContext,
    FetchSessionCache,
    FetchSpec,
    PartitionKey,
    next_epoch,
)
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.fetch import EpochEndOffset, PartitionData

NO_ID = bytes(16)
ID_A, ID_B = b"a" * 16, b"b" * 16


def key(topic: str | None, index: int = 0, topic_id: bytes = NO_ID) -> PartitionKey:
    return PartitionKey(topic, topic_id, index)


def spec(offset: int = 0, max_bytes: int = 100) -> FetchSpec:
    return FetchSpec(offset, max_bytes)


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
    names: Any = None

    def open(
        self,
        session_id: int,
        epoch: int,
        wanted: list[tuple[PartitionKey, FetchSpec]] | None = None,
        forgotten: list[PartitionKey] | None = None,
        *,
        by_id: bool | None = None,
        follower: bool = False,
    ) -> FetchContext:
        return self.cache.open(
            session_id,
            epoch,
            wanted=wanted or [],
            forgotten=forgotten or [],
            uses_topic_ids=self.by_id if by_id is None else by_id,
            privileged=follower,
            names=self.names or (lambda topic_id: None),
            now_ms=self.now_ms,
        )

    def full(self, *keys: PartitionKey, follower: bool = False) -> int:
        """Open a session over `keys` and answer it; returns its id."""
        context = self.open(0, 0, [(one, spec()) for one in keys], follower=follower)
        error, session_id, _ = self.cache.finish(
            context, [(one, answer(one.partition)) for one in keys], now_ms=self.now_ms
        )
        assert error == ErrorCode.NONE
        return session_id


@pytest.fixture
def client() -> Client:
    return Client(FetchSessionCache(max_sessions=3, eviction_ms=1000, rng=random.Random(7)))


def test_epochs_wrap_past_zero() -> None:
    assert [next_epoch(epoch) for epoch in (-1, 0, 1, 2**31 - 2, 2**31 - 1)] == [-1, 1, 2, 2**31 - 1, 1]


def test_a_full_fetch_opens_a_session_and_is_answered_in_full(client: Client) -> None:
    context = client.open(0, 0, [(key("t", 0), spec()), (key("t", 1), spec())])
    assert [one for one, _ in context.wanted] == [key("t", 0), key("t", 1)]
    answers = [(key("t", 0), answer(0)), (key("t", 1), answer(1))]
    error, session_id, sent = client.cache.finish(context, answers, now_ms=0)
    assert (error, sent) == (ErrorCode.NONE, answers)
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
    known = client.full(key("t"))
    context = client.open({"known": known, "none": 0, "unknown": known ^ 1}[session_id], epoch)
    assert context.error == error
    if error:
        assert client.cache.finish(context, [], now_ms=0) == (error, 0, [])


def test_topic_ids_may_not_come_or_go_within_a_session(client: Client) -> None:
    by_name = client.full(key("t"))
    assert client.open(by_name, 1, by_id=True).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    client.by_id = True
    by_id = client.full(key("a", 0, ID_A))
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
    session_id = client.full(key("t"))
    context = client.open(session_id, 1)
    assert context.wanted == [(key("t"), spec())]
    error, answered_id, chosen = client.cache.finish(context, [(key("t"), then)], now_ms=0)
    assert (error, answered_id) == (ErrorCode.NONE, session_id)
    assert bool(chosen) is sent
    # The same once more: an error, data, divergence and a preferred replica are news each time.
    context = client.open(session_id, 2)
    _, _, chosen = client.cache.finish(context, [(key("t"), then)], now_ms=0)
    again = bool(then.records or then.error_code or then.diverging_epoch.epoch >= 0)
    assert bool(chosen) is (again or then.preferred_read_replica >= 0)


def test_a_partition_is_sent_again_when_its_error_has_gone(client: Client) -> None:
    session_id = client.full(key("t"))
    client.cache.finish(client.open(session_id, 1), [(key("t"), answer(error=6))], now_ms=0)
    _, _, chosen = client.cache.finish(client.open(session_id, 2), [(key("t"), answer())], now_ms=0)
    assert len(chosen) == 1
    _, _, chosen = client.cache.finish(client.open(session_id, 3), [(key("t"), answer())], now_ms=0)
    assert not chosen


def test_requests_add_change_and_forget_partitions(client: Client) -> None:
    session_id = client.full(key("t", 0), key("t", 1))
    context = client.open(
        session_id, 1, [(key("t", 1), spec(offset=5)), (key("u", 0), spec(offset=9))], [key("t", 0)]
    )
    assert context.wanted == [(key("t", 1), spec(offset=5)), (key("u", 0), spec(offset=9))]
    assert client.cache.total_partitions == 2


def test_what_gave_data_is_served_last_next_time(client: Client) -> None:
    session_id = client.full(key("t", 0), key("t", 1), key("t", 2))
    context = client.open(session_id, 1)
    client.cache.finish(
        context,
        [(key("t", 0), answer(0, records=b"x")), (key("t", 1), answer(1)), (key("t", 2), answer(2))],
        now_ms=0,
    )
    assert [one.partition for one, _ in client.open(session_id, 2).wanted] == [1, 2, 0]


def test_a_session_without_partitions_is_closed(client: Client) -> None:
    session_id = client.full(key("t"))
    context = client.open(session_id, 1, forgotten=[key("t")])
    assert (context.error, context.wanted) == (ErrorCode.NONE, [])
    assert client.cache.finish(context, [], now_ms=0) == (ErrorCode.NONE, 0, [])
    assert len(client.cache) == 0


def test_a_final_epoch_closes_and_opens_none(client: Client) -> None:
    session_id = client.full(key("t"))
    context = client.open(session_id, -1, [(key("t"), spec())])
    error, answered_id, chosen = client.cache.finish(context, [(key("t"), answer())], now_ms=0)
    assert (error, answered_id, len(chosen), len(client.cache)) == (ErrorCode.NONE, 0, 1, 0)


def test_a_new_full_fetch_closes_the_old_session(client: Client) -> None:
    session_id = client.full(key("t"))
    client.open(session_id, 0, [(key("t"), spec())])
    assert client.open(session_id, 1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_request_that_was_overtaken_is_refused(client: Client) -> None:
    session_id = client.full(key("t"))
    first = client.open(session_id, 1)
    second = client.open(session_id, 2)
    assert client.cache.finish(first, [(key("t"), answer())], now_ms=0)[0] == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    assert client.cache.finish(second, [(key("t"), answer())], now_ms=0)[0] == ErrorCode.NONE


def test_an_unknown_topic_id_is_named_once_it_is_known(client: Client) -> None:
    names: dict[bytes, str] = {}
    client.by_id, client.names = True, names.get
    session_id = client.full(key(None, 0, ID_A), key("b", 0, ID_B))
    assert [one.topic for one, _ in client.open(session_id, 1).wanted] == [None, "b"]
    names[ID_A] = "a"
    assert [one.topic for one, _ in client.open(session_id, 2).wanted] == ["a", "b"]
    # Forgetting goes by the id; requests from version 13 on name no topics.
    assert [one.topic for one, _ in client.open(session_id, 3, forgotten=[key(None, 0, ID_A)]).wanted] == [
        "b"
    ]


def test_no_room_means_no_session_but_a_full_answer(client: Client) -> None:
    for _ in range(3):
        assert client.full(key("t")) > 0
    assert client.full(key("t"), key("u")) == 0
    assert (len(client.cache), client.cache.evictions) == (3, 0)


def test_a_stale_session_makes_room(client: Client) -> None:
    sessions = [client.full(key("t")) for _ in range(3)]
    client.now_ms += 900
    client.open(sessions[0], 1)
    client.now_ms += 200
    assert client.full(key("t")) > 0
    assert client.cache.evictions == 1
    # The one that was used least recently is gone, the one just used is not.
    assert client.open(sessions[1], 1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.open(sessions[0], 2).error == ErrorCode.NONE


def test_a_larger_fetch_evicts_a_smaller_one_that_is_old_enough(client: Client) -> None:
    small = client.full(key("t"))
    large = [client.full(*(key("t", index) for index in range(5))) for _ in range(2)]
    client.now_ms += 1001
    for session_id in (small, *large):
        client.open(session_id, 1)
    assert client.full(key("t"), key("u")) > 0
    assert client.open(small, 2).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.open(large[0], 2).error == ErrorCode.NONE


def test_a_follower_evicts_a_consumer_but_not_the_other_way_round(client: Client) -> None:
    for _ in range(2):
        client.full(key("t"), key("u"))
    client.full(key("t"), follower=True)
    assert client.full(key("t"), follower=True) > 0
    assert client.full(*(key("t", index) for index in range(50))) == 0
    assert client.cache.evictions == 1


def test_partitions_in_all_sessions_are_bounded() -> None:
    client = Client(FetchSessionCache(max_partitions=5, rng=random.Random(7)))
    session_id = client.full(*(key("t", index) for index in range(3)))
    assert client.full(*(key("t", index) for index in range(3))) == 0
    assert client.full(key("t"), key("u")) > 0
    # One that grows beyond the bound is closed, and its client begins anew.
    grown = client.open(session_id, 1, [(key("t", 9), spec())])
    assert grown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.cache.total_partitions == 2


def test_the_cache_never_holds_more_than_it_may() -> None:
    rng = random.Random(11)
    client = Client(FetchSessionCache(max_sessions=5, eviction_ms=100, rng=rng))
    sessions: dict[int, int] = {}
    for _ in range(2000):
        client.now_ms += rng.randrange(20)
        if rng.random() < 0.3 or not sessions:
            session_id = client.full(
                *(key("t", index) for index in range(rng.randrange(1, 4))), follower=rng.random() < 0.2
            )
            if session_id:
                sessions[session_id] = 1
        else:
            session_id = rng.choice(list(sessions))
            context = client.open(session_id, sessions[session_id])
            if context.error:
                assert context.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                del sessions[session_id]
            else:
                sessions[session_id] = next_epoch(sessions[session_id])
        assert len(client.cache) <= 5
