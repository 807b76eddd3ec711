"""A fetcher beside a leader that answers by the real code: states, sessions, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.fetched_replica import FetchState
from odradek.replication.partition import Partition
from odradek.replication.replica_fetcher import FetchLimits, ReplicaFetcher
from odradek.util.clock import ManualClock
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchResponse

from .leading_side import ID, LeadingBroker, round_trip, settle
from .replicas import NOW, batch

A, B = 1, 2
IBPS = ["0.10.2", "0.11.0", "1.1", "2.0", "2.3", "2.6", "2.7", "3.0", "3.1", "3.5", "3.9"]
OFFSETS, EPOCHS, FETCH = ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.FETCH


def replica(broker_id: int, index: int = 0) -> Partition:
    log = open_partition_log(
        Path(f"/data/t-{index}"), "t", index, LogConfig(), MemoryFileSystem(), ManualClock(NOW)
    )
    return Partition(log, topic="t", index=index, broker_id=broker_id)


def lead(one: Partition, epoch: int) -> None:
    one.make_leader(epoch, replicas=(A, B), isr=(A, B), partition_epoch=epoch, now_ms=NOW)


def follow(one: Partition, epoch: int) -> None:
    one.make_follower(A, epoch, replicas=(A, B), isr=(A, B), partition_epoch=epoch)


def write(one: Partition, key: int = 0, count: int = 1) -> None:
    one.append(batch(count, NOW + key), required_acks=1, now_ms=NOW)


def stored(one: Partition) -> bytes:
    log = one.log
    return log.read(log.log_start_offset, 10**7, upper_bound=log.log_end_offset, min_one_batch=True).records


class Pair:
    """A leader and a follower of some partitions."""

    def __init__(
        self,
        ibp: str = "3.9",
        count: int = 1,
        topic_id: bytes = ID,
        limits: FetchLimits | None = None,
        **more: Any,
    ) -> None:
        self.leading = [replica(A, index) for index in range(count)]
        self.following = [replica(B, index) for index in range(count)]
        self.leader = LeadingBroker(self.leading)
        self.fetcher = ReplicaFetcher(B, A, ibp, limits, broker_epoch=lambda: 77, **more)
        self.topic_id = topic_id

    def start(self, epoch: int = 0) -> None:
        for one in self.leading:
            lead(one, epoch)
        for one in self.following:
            follow(one, epoch)
            self.fetcher.add(one, epoch, self.topic_id)

    def state(self, index: int = 0) -> FetchState:
        return next(one.state for one in self.fetcher.followed if one.replica.key == ("t", index))


@pytest.mark.parametrize("ibp", IBPS)
def test_a_follower_becomes_like_its_leader_and_the_high_watermark_rises(ibp: str) -> None:
    pair = Pair(ibp, 3)
    pair.start()
    for key, one in enumerate(pair.leading):
        write(one, key, 3)
        write(one, key)
    settle(pair.fetcher, pair.leader)
    round_trip(pair.fetcher, pair.leader)
    for leading, following in zip(pair.leading, pair.following, strict=True):
        assert stored(leading) == stored(following)
        assert leading.log.high_watermark == following.log.high_watermark == 4
        assert following.appended_bytes == len(stored(following))


# Before 2.0 the answer does not say which epoch it is about: what KIP-279 is for.
@pytest.mark.parametrize("ibp", IBPS[IBPS.index("2.0") :])
def test_a_log_that_has_left_the_leaders_is_cut_by_epochs(ibp: str) -> None:
    pair = Pair(ibp)
    first, second = pair.leading[0], pair.following[0]
    for one in (first, second):
        one.log.append(batch(10), leader_epoch=0, now_ms=NOW)
    first.log.append(batch(5, NOW + 1), leader_epoch=1, now_ms=NOW)
    second.log.append(batch(30, NOW + 2), leader_epoch=2, now_ms=NOW)
    pair.start(3)
    write(first, 3, 4)
    asked = settle(pair.fetcher, pair.leader)
    assert stored(first) == stored(second)
    assert first.log.epochs.entries == second.log.epochs.entries
    assert (EPOCHS in asked) == (ibp < "2.7")
    assert OFFSETS not in asked


@pytest.mark.parametrize("ibp", IBPS)
def test_a_follower_before_the_leaders_start_begins_there(ibp: str) -> None:
    pair = Pair(ibp)
    pair.start()
    write(pair.leading[0], 0, 5)
    write(pair.leading[0], 1, 5)
    pair.leading[0].log.update_high_watermark(10)
    pair.leading[0].log.delete_records_before(5)
    asked = settle(pair.fetcher, pair.leader)
    assert OFFSETS in asked
    assert (pair.following[0].log_start_offset, pair.following[0].log_end_offset) == (5, 10)
    assert pair.following[0].log.high_watermark == 10


def test_a_leader_that_does_not_know_the_last_epoch_is_asked_with_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Leader epochs have gone back: nothing that the follower could do helps."""
    pair = Pair("3.9", limits=FetchLimits(backoff_ms=1000))
    first, second = pair.leading[0], pair.following[0]
    first.log.append(batch(10), leader_epoch=1, now_ms=NOW)
    second.log.append(batch(10), leader_epoch=6, now_ms=NOW)
    pair.start(3)
    now_ms, asked = 0.0, 0
    while now_ms < 20_000:
        if round_trip(pair.fetcher, pair.leader, now_ms) is None:
            wait_ms = pair.fetcher.wait_ms(now_ms)
            assert wait_ms is not None
            now_ms += wait_ms
        else:
            asked += 1
        assert asked < 100, "without pause"
    assert stored(second)
    assert caplog.text.count("knows nothing of epoch 6, in which this one ends at 10") == 1
    # With epochs above all that logs know it goes on.
    lead(first, 7)
    follow(second, 7)
    pair.fetcher.add(second, 7, ID)
    write(first, 9)
    settle(pair.fetcher, pair.leader, now_ms)
    assert stored(first) == stored(second)


def test_without_epochs_in_fetches_a_follower_beyond_the_leaders_end_is_cut_there_and_asks_again() -> None:
    pair = Pair("2.3")
    first, second = pair.leading[0], pair.following[0]
    first.log.append(batch(3), leader_epoch=0, now_ms=NOW)
    second.log.append(batch(3), leader_epoch=0, now_ms=NOW)
    pair.start(1)
    settle(pair.fetcher, pair.leader)
    second.log.append(batch(9, NOW + 5), leader_epoch=1, now_ms=NOW)
    asked = settle(pair.fetcher, pair.leader)
    assert asked[:3] == [FETCH, OFFSETS, EPOCHS]
    assert stored(first) == stored(second)


class TestErrors:
    def test_a_fenced_epoch_stops_the_partition_until_the_next_one(self) -> None:
        pair = Pair(count=2)
        pair.start()
        lead(pair.leading[0], 1)
        write(pair.leading[0])
        write(pair.leading[1])
        settle(pair.fetcher, pair.leader)
        assert pair.state() is FetchState.FAILED
        assert pair.fetcher.failed_count == 1
        assert [one.log_end_offset for one in pair.following] == [0, 1]
        pair.fetcher.add(pair.following[0], 0, ID)
        assert pair.state() is FetchState.FAILED

        follow(pair.following[0], 1)
        pair.fetcher.add(pair.following[0], 1, ID)
        settle(pair.fetcher, pair.leader)
        assert [one.log_end_offset for one in pair.following] == [1, 1]

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.INCONSISTENT_TOPIC_ID,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            999,
        ],
    )
    def test_an_error_that_may_pass_delays_its_partition_alone(self, code: int) -> None:
        pair = Pair(count=2)
        pair.start()
        for one in pair.leading:
            write(one)
        settle(pair.fetcher, pair.leader)
        for one in pair.leading:
            write(one)
        pair.leader.failing[0] = code
        settle(pair.fetcher, pair.leader, 5000)
        assert [one.log_end_offset for one in pair.following] == [1, 2]
        pair.leader.failing.clear()
        settle(pair.fetcher, pair.leader, 5999)
        assert pair.following[0].log_end_offset == 1
        settle(pair.fetcher, pair.leader, 6000)
        assert [one.log_end_offset for one in pair.following] == [2, 2]

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ],
    )
    def test_a_leader_that_has_not_heard_of_it_yet_is_asked_again_soon_and_then_less_often(
        self, code: int
    ) -> None:
        pair = Pair(count=2)
        pair.start()
        write(pair.leading[0])
        pair.leader.failing[0] = code
        at, pauses = 5000.0, []
        for _ in range(9):
            assert round_trip(pair.fetcher, pair.leader, at) is not None
            # The other one is not held up, nor may its fetch hold this one up.
            request = pair.fetcher.next_request(at)
            assert request is not None
            pauses.append(request.message.max_wait_ms)
            pair.fetcher.given_up()
            at += pauses[-1]
        assert pauses == [20, 40, 80, 160, 320, 500, 140, 500, 500]
        due = [one.delayed_until_ms for one in pair.fetcher.followed]
        assert max(due) - at <= 1000
        pair.leader.failing.clear()
        settle(pair.fetcher, pair.leader, max(due))
        assert pair.following[0].log_end_offset == 1
        pair.leader.failing[0] = code
        round_trip(pair.fetcher, pair.leader, 99_000)
        assert max(one.delayed_until_ms for one in pair.fetcher.followed) == 99_020

    def test_corrupt_bytes_are_fetched_again_after_the_pause(self) -> None:
        pair = Pair()
        pair.start()
        write(pair.leading[0])
        request = pair.fetcher.next_request(0)
        assert request is not None
        response: FetchResponse = pair.leader.answer(request.message, request.version)
        found = response.responses[0].partitions[0]
        assert found.records
        found.records = bytes(found.records[:-1]) + bytes([found.records[-1] ^ 1])
        for _ in pair.fetcher.take(response, NOW, 0):
            pass
        assert pair.following[0].log_end_offset == 0
        assert pair.fetcher.wait_ms(1) == 999
        settle(pair.fetcher, pair.leader, 1000)
        assert stored(pair.following[0]) == stored(pair.leading[0])

    def test_what_is_removed_or_of_a_newer_epoch_in_the_meantime_is_not_touched(self) -> None:
        pair = Pair(count=2)
        pair.start()
        for one in pair.leading:
            write(one)
        request = pair.fetcher.next_request(0)
        assert request is not None
        response = pair.leader.answer(request.message, request.version)
        assert pair.fetcher.remove(("t", 0))
        assert not pair.fetcher.remove(("t", 0))
        follow(pair.following[1], 1)
        for _ in pair.fetcher.take(response, NOW, 0):
            pass
        assert [one.log_end_offset for one in pair.following] == [0, 0]
        assert pair.state(1) is FetchState.FAILED

    def test_a_broken_connection_is_a_pause_and_a_new_session(self) -> None:
        pair = Pair()
        pair.start()
        settle(pair.fetcher, pair.leader)
        assert pair.fetcher.session.epoch > 1
        write(pair.leading[0])
        assert pair.fetcher.next_request(0) is not None
        pair.fetcher.broken(0)
        assert pair.fetcher.next_request(999) is None
        request = round_trip(pair.fetcher, pair.leader, 1000)
        assert request is not None
        assert request.message.session_epoch == 0
        assert pair.following[0].log_end_offset == 1


class TestSessions:
    def test_only_what_has_changed_is_named(self) -> None:
        pair = Pair(count=3)
        pair.start()
        settle(pair.fetcher, pair.leader)
        write(pair.leading[1])
        for expected in ([], [1]):
            request = round_trip(pair.fetcher, pair.leader)
            assert request is not None
            named = [one.partition for topic in request.message.topics for one in topic.partitions]
            assert named == expected
        pair.fetcher.remove(("t", 2))
        request = round_trip(pair.fetcher, pair.leader)
        assert request is not None
        assert [gone.partitions for gone in request.message.forgotten_topics_data] == [[2]]
        assert pair.leader.sessions.total_partitions == 2

    @pytest.mark.parametrize("ibp", ["1.1", "2.7", "3.9"])
    def test_a_session_that_the_leader_has_lost_begins_anew(self, ibp: str) -> None:
        pair = Pair(ibp)
        pair.start()
        settle(pair.fetcher, pair.leader)
        pair.leader.sessions = LeadingBroker([], seed=2).sessions
        write(pair.leading[0])
        round_trip(pair.fetcher, pair.leader)
        assert (pair.fetcher.session.session_id, pair.fetcher.session.epoch) == (0, 0)
        settle(pair.fetcher, pair.leader)
        assert pair.following[0].log_end_offset == 1
        assert pair.fetcher.session.epoch > 0

    def test_an_answer_that_leaves_a_partition_out_opens_no_session(self) -> None:
        """Within the leader's session, which would be of what it answered about, it would never be copied."""
        pair = Pair(count=2)
        pair.start()
        write(pair.leading[0])
        request = pair.fetcher.next_request(0)
        assert request is not None
        response: FetchResponse = pair.leader.answer(request.message, request.version)
        del response.responses[0]
        for _ in pair.fetcher.take(response, NOW, 0):
            pass
        assert (pair.fetcher.session.session_id, pair.fetcher.session.epoch) == (0, 0)
        assert pair.fetcher.wait_ms(0) == 1000
        settle(pair.fetcher, pair.leader, 1000)
        assert pair.following[0].log_end_offset == 1

    def test_without_topic_ids_version_12_is_the_newest(self) -> None:
        pair = Pair(topic_id=bytes(16))
        pair.start()
        write(pair.leading[0])
        settle(pair.fetcher, pair.leader)
        assert {version for _, version in pair.leader.asked} == {12}
        pair.fetcher.remove(("t", 0))
        pair.fetcher.add(pair.following[0], 0, ID)
        write(pair.leading[0])
        settle(pair.fetcher, pair.leader)
        assert pair.leader.asked[-1][1] == 17
        assert pair.following[0].log_end_offset == 2

    def test_who_asks_is_said_as_the_version_wants_it(self) -> None:
        for ibp, expected in (("3.4", (B, -1, -1)), ("3.9", (-1, B, 77))):
            pair = Pair(ibp)
            pair.start()
            round_trip(pair.fetcher, pair.leader)
            request, _ = pair.leader.asked[-1]
            state = request.replica_state
            assert (request.replica_id, state.replica_id, state.replica_epoch) == expected

    def test_what_gave_data_is_asked_for_last(self) -> None:
        pair = Pair("1.0", 3)
        pair.start()
        write(pair.leading[0])
        for _ in range(2):
            request = round_trip(pair.fetcher, pair.leader)
        assert request is not None
        named = [one.partition for topic in request.message.topics for one in topic.partitions]
        assert named == [1, 2, 0]


def test_a_long_answer_is_appended_with_pauses() -> None:
    pair = Pair()
    pair.start()
    for key in range(2000):
        write(pair.leading[0], key)
    request = pair.fetcher.next_request(0)
    assert request is not None
    response = pair.leader.answer(request.message, request.version)
    ends = [pair.following[0].log_end_offset for _ in pair.fetcher.take(response, NOW, 0)]
    assert len(set(ends)) > 2
    assert stored(pair.following[0]) == stored(pair.leading[0])
