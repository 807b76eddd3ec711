"""Three replicas, any order of writes, fetches, crashes and elections: what is committed stays.

Invariants, after every step:

- What a leader once said to be committed stands, byte for byte, at the same place in each later leader's log.
- Below the least of two high watermarks the logs of two replicas are the same bytes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from odradek.log.config import LogConfig
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.leadership import Leadership
from odradek.replication.partition import Partition
from odradek.replication.replica_fetcher import ReplicaFetcher
from odradek.util.clock import ManualClock
from seeds import each_seed

from .leading_side import ID, LeadingBroker
from .replicas import NOW, batch

pytestmark = pytest.mark.model

BROKERS = (1, 2, 3)
STEPS = 120


class Cluster:
    """Three brokers and who decides about them."""

    def __init__(self, seed: int, ibp: str) -> None:
        self.rng = random.Random(seed)
        self.ibp = ibp
        self.files = {one: MemoryFileSystem(random.Random(seed + one)) for one in BROKERS}
        self.up: dict[int, Partition] = {}
        self.fetchers: dict[int, ReplicaFetcher] = {}
        self.sides: dict[int, LeadingBroker] = {}
        self.epoch = -1
        self.partition_epoch = 0
        self.wish: tuple[int, ...] | None = None
        self.leader = -1
        self.isr: tuple[int, ...] = BROKERS
        self.committed = b""
        self.written = 0
        for one in BROKERS:
            self.start(one)
        self.elect(1)

    def start(self, one: int) -> None:
        """What was written is still there; what was only in the process is not."""
        log = open_partition_log(
            Path("/data/t-0"), "t", 0, LogConfig(segment_bytes=600), self.files[one], ManualClock(NOW)
        )
        self.up[one] = Partition(log, topic="t", index=0, broker_id=one, replica_lag_time_max_ms=0)
        self.up[one].on_isr_wanted = self.want
        self.sides[one] = LeadingBroker([self.up[one]], seed=one)
        self.tell(one)

    def crash(self, one: int) -> None:
        self.up.pop(one).log.release()
        self.fetchers.pop(one, None)
        if one in self.isr and len(self.isr) > 1:
            self.isr = tuple(other for other in self.isr if other != one)
        self.partition_epoch += 1
        if one == self.leader:
            self.leader = -1
        self.tell_all()

    def elect(self, leader: int) -> None:
        assert leader in self.isr
        self.epoch += 1
        self.partition_epoch += 1
        self.leader = leader
        self.isr = tuple(one for one in self.isr if one in self.up)
        self.tell_all()

    def tell_all(self) -> None:
        for one in self.up:
            # Not everybody hears of everything at once: those that did not hear are fenced.
            if one == self.leader or self.rng.random() < 0.8:
                self.tell(one)

    def tell(self, one: int) -> None:
        partition = self.up[one]
        state = {"replicas": BROKERS, "isr": self.isr, "partition_epoch": self.partition_epoch}
        if one == self.leader:
            self.fetchers.pop(one, None)
            partition.make_leader(self.epoch, now_ms=NOW, **state)  # type: ignore[arg-type]
            return
        partition.make_follower(self.leader, self.epoch, **state)  # type: ignore[arg-type]
        self.fetchers.pop(one, None)
        if self.leader >= 0:
            fetcher = ReplicaFetcher(one, self.leader, self.ibp)
            fetcher.add(partition, self.epoch, ID)
            self.fetchers[one] = fetcher

    def fetch(self, one: int) -> None:
        fetcher = self.fetchers.get(one)
        if fetcher is None or fetcher.leader_id not in self.up:
            return
        request = fetcher.next_request(0)
        if request is None:
            return
        leading = self.sides[fetcher.leader_id]
        response = leading.answer(request.message, request.version)
        self.grant()
        if self.rng.random() < 0.1:
            fetcher.broken(-2000)  # the answer is lost
            return
        for _ in fetcher.take(response, NOW, -2000):
            if self.rng.random() < 0.02:
                return  # nothing more is heard of the rest

    def grant(self) -> None:
        """The controller writes the ISR that was asked for."""
        if self.wish is not None:
            self.isr, self.wish = self.wish, None
            self.partition_epoch += 1
            self.up[self.leader].take_isr(self.epoch, self.isr, self.partition_epoch, NOW)

    def want(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        """A leader asks for another ISR; only the present one is listened to."""
        is_current = partition.broker_id == self.leader and partition.leader_epoch == self.epoch
        if is_current:
            self.wish = isr
        return is_current

    def step(self) -> None:
        roll = self.rng.random()
        followers = [one for one in self.up if one != self.leader]
        if roll < 0.3 and self.leader >= 0:
            self.written += 1
            self.up[self.leader].append(
                batch(self.rng.randint(1, 3), NOW + self.written), required_acks=1, now_ms=NOW
            )
        elif roll < 0.8 and followers:
            self.fetch(self.rng.choice(followers))
        elif roll < 0.87 and len(self.up) > 1:
            self.crash(self.rng.choice(list(self.up)))
        elif roll < 0.93:
            down = [one for one in BROKERS if one not in self.up]
            if down:
                self.start(self.rng.choice(down))
        else:
            able = [one for one in self.isr if one in self.up]
            if able:
                self.elect(self.rng.choice(able))

    def check(self) -> None:
        if self.leader >= 0:
            log = self.up[self.leader].log
            assert whole(self.up[self.leader])[: len(self.committed)] == self.committed, "committed, and lost"
            committed = below(self.up[self.leader], log.high_watermark)
            if len(committed) > len(self.committed):
                self.committed = committed
        for one in self.up.values():
            for other in self.up.values():
                end = min(one.log.high_watermark, other.log.high_watermark)
                assert below(one, end) == below(other, end), "different below the high watermark"

    def calm_down(self) -> None:
        for one in BROKERS:
            if one not in self.up:
                self.start(one)
        able = [one for one in self.isr if one in self.up]
        self.elect(able[0])
        for one in BROKERS:
            self.tell(one)
        for _ in range(400):
            for one in BROKERS:
                if one != self.leader:
                    if one not in self.fetchers:
                        self.tell(one)
                    self.fetch(one)
            self.check()


def below(one: Partition, end: int) -> bytes:
    """The bytes of a log below an offset."""
    found, at = b"", 0
    while at < end:
        read = one.log.read(at, 10**7, upper_bound=end, min_one_batch=True).records
        if not read:
            break
        found += read
        at = one.log.log_start_offset + offsets_in(found)
    return found


def offsets_in(records: bytes) -> int:
    count = at = 0
    while at < len(records):
        length = int.from_bytes(records[at + 8 : at + 12], "big")
        count = (
            int.from_bytes(records[at : at + 8], "big")
            + int.from_bytes(records[at + 23 : at + 27], "big")
            + 1
        )
        at += 12 + length
    return count


def whole(one: Partition) -> bytes:
    return below(one, one.log.log_end_offset)


@pytest.mark.parametrize("ibp", ["2.3", "2.7", "3.9"])
@each_seed(8)
def test_what_is_committed_stays(seed: int, ibp: str) -> None:
    print(f"seed={seed} ibp={ibp}")  # noqa: T201
    cluster = Cluster(seed, ibp)
    for _ in range(STEPS):
        cluster.step()
        cluster.check()
    cluster.calm_down()
    logs = {whole(one) for one in cluster.up.values()}
    assert len(logs) == 1
    assert {one.log.high_watermark for one in cluster.up.values()} == {
        cluster.up[cluster.leader].log_end_offset
    }
