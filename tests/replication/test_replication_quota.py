"""The throttle of copies: its rate by a clock moved by hand, who it is for, and the follower that obeys."""

from __future__ import annotations

import random

import pytest

from odradek.replication.replica_fetcher import SHORTEST_PAUSE_MS, FetchLimits
from odradek.replication.replication_quota import (
    NO_BOUND,
    ReplicationQuota,
    replication_quotas,
    throttled_partitions,
)
from odradek.replication.sampled_rate import SampledRate
from odradek.util.clock import ManualClock
from odradek.wire.messages.fetch import FetchRequest
from seeds import each_seed

from .leading_side import round_trip, settle
from .replicas import NOW
from .test_replica_fetcher import A, B, Pair, stored, write


def test_a_rate_is_over_one_sample_at_least_and_over_all_that_are_kept_at_most() -> None:
    rate = SampledRate(samples=3, sample_ms=1000)
    assert rate.per_second(0) == 0
    rate.record(600, 0)
    assert rate.per_second(0) == rate.per_second(1000) == 600
    assert rate.per_second(2000) == 300
    rate.record(300, 2000)
    assert rate.per_second(2500) == 900 / 2.5
    # The first sample is dropped three seconds after it began; the second began at 2000.
    assert rate.per_second(2999) == 900 / 2.999
    assert rate.per_second(3000) == 300
    assert rate.per_second(4000) == 150
    assert rate.per_second(5000) == 0


def test_what_passes_within_a_samples_time_is_one_sample() -> None:
    rate = SampledRate(samples=2, sample_ms=1000)
    for now_ms in (0, 400, 999):
        rate.record(100, now_ms)
    rate.record(100, 1000)
    assert rate.per_second(1999) == 400 / 1.999
    assert rate.per_second(2000) == 100


@each_seed(20)
def test_a_rate_is_that_of_samples_kept_one_by_one(seed: int) -> None:
    """Beside Kafka's way: an array of samples, each dropped when it is too old."""
    chance = random.Random(seed)
    count, sample_ms = chance.randint(1, 12), chance.choice((10, 1000))
    rate = SampledRate(count, sample_ms)
    kept: list[list[float]] = []
    now_ms = 0.0
    for _ in range(300):
        now_ms += chance.choice((0, 0.4, 1, sample_ms / 3, sample_ms, sample_ms * count))
        kept = [one for one in kept if now_ms - one[0] < count * sample_ms]
        if chance.random() < 0.6:
            size = chance.randint(0, 1000)
            rate.record(size, now_ms)
            if kept and now_ms - kept[-1][0] < sample_ms:
                kept[-1][1] += size
            else:
                kept.append([now_ms, size])
        total = sum(size for _, size in kept)
        wanted = total * 1000 / max(now_ms - kept[0][0], sample_ms) if kept else 0.0
        assert rate.per_second(now_ms) == pytest.approx(wanted)


@each_seed(20)
def test_after_its_pause_a_rate_has_fallen_or_a_sample_is_dropped(seed: int) -> None:
    chance = random.Random(seed)
    rate = SampledRate(11, 1000)
    now_ms = 0.0
    for _ in range(200):
        now_ms += chance.choice((1, 300, 1000))
        rate.record(chance.randint(1, 5000), now_ms)
        most = chance.choice((0, 1, 500, 2000, NO_BOUND))
        then_ms, looks = now_ms, 0
        while pause_ms := rate.falls_in_ms(most, then_ms):
            then_ms += pause_ms + 1e-6
            looks += 1
            assert looks <= 12
        assert rate.per_second(then_ms) <= most
        now_ms = then_ms


def test_who_a_throttle_is_for() -> None:
    assert throttled_partitions("*", 1) is None
    assert throttled_partitions("0:1,1:2, 2:1", 1) == {0, 2}
    assert throttled_partitions("0:1,1:2", 3) == throttled_partitions("", 1) == frozenset()
    assert throttled_partitions("0:1,what,2:,:1,-1:1, ,3:1", 1) == {0, 3}
    quotas = replication_quotas(ManualClock())
    configs = {"leader.replication.throttled.replicas": "0:1,1:2"}
    quotas.follow_topic("a", {**configs, "follower.replication.throttled.replicas": "*"}, 1)
    assert [quotas.leader.is_throttled(("a", index)) for index in (0, 1)] == [True, False]
    assert [quotas.follower.is_throttled(("a", index)) for index in (0, 1)] == [True, True]
    assert not quotas.leader.is_throttled(("b", 0))
    quotas.follow_topic("a", configs, 1)
    assert quotas.follower.is_idle
    assert not quotas.leader.is_idle
    quotas.follow_topic("a", {}, 1)
    assert quotas.leader.is_idle
    assert not quotas.leader.is_throttled(("a", 0))


def test_a_throttle_is_exceeded_by_more_than_its_rate_and_by_nothing_without_one() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(clock)
    quota.record(10**12)
    assert not quota.is_exceeded
    assert quota.pause_ms == 0
    quota.bytes_per_second = 10**11
    assert quota.is_exceeded
    assert quota.pause_ms == 10_000
    clock.advance(quota.pause_ms)
    assert quota.byte_rate == 10**11
    assert not quota.is_exceeded


# ---------------------------------------------------------------------- the follower's half


class Throttled(Pair):
    """A leader, and a follower whose copies are throttled."""

    def __init__(self, rate: int, count: int = 1, **limits: int) -> None:
        self.clock = ManualClock()
        self.quota = ReplicationQuota(self.clock)
        self.quota.bytes_per_second = rate
        self.copied: list[tuple[tuple[str, int], int]] = []
        super().__init__(
            count=count,
            limits=FetchLimits(**limits),
            quota=self.quota,
            on_copied=lambda key, size: self.copied.append((key, size)),
        )

    def start_late(self) -> None:
        """Begin outside of the ISR, so that the leader commits without the follower."""
        for one in self.leading:
            one.make_leader(0, replicas=(A, B), isr=(A,), partition_epoch=0, now_ms=NOW)
        for one in self.following:
            one.make_follower(A, 0, replicas=(A, B), isr=(A,), partition_epoch=0)
            self.fetcher.add(one, 0, self.topic_id)

    def trip(self) -> list[int] | None:
        """One request and its response; the partitions that it named anew, None where nothing is asked."""
        request = round_trip(self.fetcher, self.leader, self.clock.monotonic_ms())
        if request is None:
            return None
        assert isinstance(request.message, FetchRequest)
        return sorted(one.partition for topic in request.message.topics for one in topic.partitions)

    def write_much(self, index: int, count: int = 20) -> None:
        for _ in range(count):
            write(self.leading[index], 0, 10)


def test_a_follower_leaves_out_what_is_throttled_until_the_rate_has_fallen() -> None:
    pair = Throttled(rate=1000, count=2, max_bytes=500)
    pair.quota.throttle("t", frozenset({0}))
    pair.start_late()
    pair.write_much(0)
    pair.write_much(1)
    while not pair.quota.is_exceeded:
        assert pair.trip() == [0, 1]
    copied = pair.following[0].appended_bytes
    assert copied == sum(size for key, size in pair.copied if key == ("t", 0)) > 1000
    # The other one goes on without it.
    for _ in range(3):
        assert pair.trip() == [1]
    assert pair.following[0].appended_bytes == copied
    settle(pair.fetcher, pair.leader, pair.clock.monotonic_ms())
    assert stored(pair.following[1]) == stored(pair.leading[1])
    # So it comes back, and goes again.
    for _ in range(200):
        pair.clock.advance(SHORTEST_PAUSE_MS)
        settle(pair.fetcher, pair.leader, pair.clock.monotonic_ms())
        if stored(pair.following[0]) == stored(pair.leading[0]):
            break
        assert pair.quota.byte_rate < 2000
    assert stored(pair.following[0]) == stored(pair.leading[0])
    assert pair.following[0].appended_bytes < 1000 * pair.clock.monotonic_ms() / 1000 + 2000


def test_a_fetcher_with_nothing_but_what_is_throttled_waits() -> None:
    pair = Throttled(rate=100, max_bytes=500, backoff_ms=700)
    pair.quota.throttle("t", None)
    pair.start_late()
    pair.write_much(0)
    while not pair.quota.is_exceeded:
        assert pair.trip() == [0]
    assert pair.trip() == []  # the leader is told that the session is empty
    assert pair.trip() is None
    now_ms = pair.clock.monotonic_ms()
    # No longer than after an error: the rate may be raised meanwhile.
    assert pair.fetcher.wait_ms(now_ms) == 700
    pair.quota.bytes_per_second = NO_BOUND
    assert pair.trip() is None
    pair.clock.advance(700)
    settle(pair.fetcher, pair.leader, pair.clock.monotonic_ms())
    assert stored(pair.following[0]) == stored(pair.leading[0])


def test_who_has_caught_up_is_not_held_back_but_counts() -> None:
    pair = Throttled(rate=1000)
    pair.quota.throttle("t", None)
    pair.start()
    settle(pair.fetcher, pair.leader)
    for _ in range(20):
        # Each time it has all that is committed, and the leader's next records come with the next fetch.
        write(pair.leading[0], 0, 10)
        pair.trip()
        assert stored(pair.following[0]) == stored(pair.leading[0])
    assert pair.quota.is_exceeded
    assert pair.quota.byte_rate == pair.following[0].appended_bytes
