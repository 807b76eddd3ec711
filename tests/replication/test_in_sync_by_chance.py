"""A leader, its followers and the controller, in random orders of everything that may happen between them.

Requests to the controller come in order or break with their connection, are then sent again, and may have
been done; answers and LeaderAndIsr come late, and LeaderAndIsr in any order. At every moment:

- the high watermark has not gone back since this leader's epoch began;
- every member of the ISR that the *controller* has written holds everything below it, as it may be elected.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from odradek.cluster.controller.alter_partition import IsrChange, alter_partition
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint
from odradek.errors import IneligibleReplicaError, KafkaError
from odradek.replication.leadership import Leadership
from seeds import each_seed

from .replicas import ME, NOW, append, make

LAG = 30_000
FOLLOWERS = (2, 3, 4)
REPLICAS = (ME, *FOLLOWERS)


class Wish(NamedTuple):
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class World:
    """One partition of a cluster."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = NOW
        self.image = ClusterImage(brokers={b: broker(b) for b in REPLICAS})
        self.write(PartitionImage(REPLICAS, REPLICAS, ME, 0, 0))
        self.partition, _ = make()
        self.partition.on_isr_wanted = self.want
        self.partition.is_eligible = lambda one: one in self.alive
        self.alive = set(FOLLOWERS)
        self.ends = dict.fromkeys(FOLLOWERS, 0)
        self.states = [self.state]
        self.wish: Wish | None = None
        self.sent: Wish | None = None
        self.at_controller: list[tuple[int, Wish]] = []
        self.answers: list[tuple[int, Wish, PartitionImage | KafkaError]] = []
        self.connection = 0
        self.tell(self.state)
        self.before = (0, 0)

    # --- the controller

    @property
    def state(self) -> PartitionImage:
        return self.image.topics["t"].partitions[0]

    def write(self, state: PartitionImage) -> None:
        topic = TopicImage("t", bytes(15) + b"t", {0: state})
        self.image = self.image.apply(ClusterDelta(topics={"t": topic}))

    def do_die(self) -> None:
        """A broker dies, and leaves the ISR; what it leads goes to another."""
        broker = self.rng.choice(FOLLOWERS)
        self.alive.discard(broker)
        self.image = self.image.apply(ClusterDelta(brokers_gone=frozenset([broker])))
        before = self.state
        if broker in before.isr and len(before.isr) > 1:
            isr = tuple(one for one in before.isr if one != broker)
            self.write(self.next(before, isr, before.leader if before.leader in isr else isr[0]))

    def do_return(self) -> None:
        broker_id = self.rng.choice(FOLLOWERS)
        self.alive.add(broker_id)
        self.image = self.image.apply(ClusterDelta(brokers={broker_id: broker(broker_id)}))

    def do_elect(self) -> None:
        """Somebody else of the ISR leads, without being written to, or this broker does again."""
        before = self.state
        leader = ME if before.leader != ME and ME in before.isr else self.rng.choice(before.isr)
        self.write(self.next(before, before.isr, leader))

    def next(self, before: PartitionImage, isr: tuple[int, ...], leader: int) -> PartitionImage:
        after = before._replace(
            isr=isr,
            leader=leader,
            leader_epoch=before.leader_epoch + 1,
            partition_epoch=before.partition_epoch + 1,
        )
        self.states.append(after)
        return after

    def do_decide(self) -> None:
        if not self.at_controller:
            return
        connection, wish = self.at_controller.pop(0)
        change = IsrChange("t", 0, ME, wish.leader_epoch, wish.partition_epoch, wish.isr)
        answer: PartitionImage | KafkaError
        try:
            self.image = self.image.apply(alter_partition(self.image, 1, change).delta)
            answer = self.state
            if self.rng.random() < 0.2:
                self.states.append(self.state)
        except KafkaError as error:
            answer = error
        self.answers.append((connection, wish, answer))

    # --- between them

    def want(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        self.wish = Wish(partition.leader_epoch, partition.partition_epoch, isr)
        return True

    def do_send(self) -> None:
        if self.wish is not None and self.sent is None:
            self.sent = self.wish
            if self.rng.random() < 0.8:
                self.at_controller.append((self.connection, self.wish))

    def do_break(self) -> None:
        """What is under way may have been done or not; it is sent again."""
        self.connection += 1
        self.sent = None

    def do_answer(self) -> None:
        if not self.answers:
            return
        connection, wish, answer = self.answers.pop(self.rng.randrange(len(self.answers)))
        if connection != self.connection:
            return
        self.sent = None
        if self.wish == wish:
            self.wish = None
        if isinstance(answer, PartitionImage):
            self.partition.take_isr(answer.leader_epoch, answer.isr, answer.partition_epoch, self.now)
        elif isinstance(answer, IneligibleReplicaError):
            self.partition.give_isr_up(wish.leader_epoch, wish.partition_epoch)

    def do_tell(self) -> None:
        """LeaderAndIsr, not always the newest."""
        self.tell(self.rng.choice([self.states[-1], self.rng.choice(self.states)]))

    def tell(self, state: PartitionImage) -> None:
        known = self.partition.leader_epoch
        if state.leader == ME:
            self.partition.make_leader(
                state.leader_epoch,
                replicas=state.replicas,
                isr=state.isr,
                partition_epoch=state.partition_epoch,
                now_ms=self.now,
            )
        elif state.leader_epoch > known:
            self.partition.make_follower(
                state.leader,
                state.leader_epoch,
                replicas=state.replicas,
                isr=state.isr,
                partition_epoch=state.partition_epoch,
            )

    # --- the leader and its followers

    @property
    def is_leading(self) -> bool:
        """Whether followers fetch from this broker: they have its epoch."""
        return self.partition.is_leader and self.state.leader_epoch == self.partition.leader_epoch

    def do_append(self) -> None:
        if self.partition.is_leader:
            append(self.partition, self.rng.randrange(1, 4))

    def do_fetch(self) -> None:
        follower = self.rng.choice(FOLLOWERS)
        if not self.is_leading or follower not in self.alive:
            return
        offset, end = self.ends[follower], self.partition.log.log_end_offset
        self.partition.record_follower_fetch(
            follower, fetch_offset=offset, log_start_offset=0, now_ms=self.now
        )
        self.ends[follower] = self.rng.choice([end, self.rng.randint(offset, max(offset, end))])

    def do_wait(self) -> None:
        self.now += self.rng.choice([1, LAG // 2, LAG])
        self.partition.shrink_isr(self.now)

    # --- what has to hold

    def check(self) -> None:
        epoch, high_watermark = self.partition.leader_epoch, self.partition.log.high_watermark
        if self.before[0] == epoch:
            assert high_watermark >= self.before[1]
        self.before = (epoch, high_watermark)
        for member in self.state.isr:
            if member != ME:
                assert self.ends[member] >= high_watermark, f"{member} of {self.state.isr} may be elected"

    def settle(self) -> None:
        """Everybody lives, is told everything and fetches: all of them are in sync in the end."""
        for _ in range(len(FOLLOWERS)):
            self.alive = set(FOLLOWERS)
            self.image = self.image.apply(ClusterDelta(brokers={b: broker(b) for b in FOLLOWERS}))
        if ME in self.state.isr:
            self.write(self.next(self.state, self.state.isr, ME))
            self.tell(self.state)
            self.do_break()
            for _ in range(60):
                for action in (self.do_fetch, self.do_fetch, self.do_send, self.do_decide, self.do_answer):
                    action()
                    self.check()
                if self.rng.random() < 0.3:
                    self.do_break()
            for follower in FOLLOWERS:
                end = self.partition.log.log_end_offset
                self.partition.record_follower_fetch(
                    follower, fetch_offset=end, log_start_offset=0, now_ms=self.now
                )
            assert sorted(self.state.isr) == list(REPLICAS)
            assert self.partition.log.high_watermark == self.partition.log.log_end_offset


def broker(broker_id: int) -> BrokerImage:
    return BrokerImage(broker_id, 100 + broker_id, BrokerRegistration((Endpoint("PLAINTEXT", "h", 9092),)))


OFTEN = ("append", "fetch", "fetch", "fetch", "fetch", "send", "send", "decide", "decide", "answer", "answer")
SELDOM = ("die", "return", "return", "elect", "break", "tell", "tell", "wait")


@each_seed(40)
def test_who_may_be_elected_has_what_is_committed(seed: int) -> None:
    world = World(seed)
    for _ in range(600):
        names = OFTEN if world.rng.random() < 0.75 else SELDOM
        getattr(world, f"do_{world.rng.choice(names)}")()
        world.check()
    world.settle()
