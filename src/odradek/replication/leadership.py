# compiled: mypyc
"""The leadership of a partition: who leads, who is in sync, and what is committed by that.

    follower ──make_leader(epoch)──► leader ──make_follower(epoch)──► follower

How the in-sync replicas change is in `odradek.replication.in_sync`.

Invariants, each on its field:

- `leader_epoch` never goes back.
- `log.high_watermark <= log.log_end_offset`, and it never goes back while this broker leads.
- The high watermark never passes the log end of a member of the *maximal* ISR: the in-sync replicas, and
  those that the controller has been asked to take in. It stands still while the ISR is smaller than the
  effective min.insync.replicas.
- `partition_epoch` never goes back within a leader epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from odradek.replication.followers import NEVER, Follower
from odradek.replication.in_sync import IsrCounts, IsrState, committed
from odradek.util.topic_partition import TopicPartition
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

OnIsrWanted = Callable[["Leadership", tuple[int, ...]], bool]
"""Asks the controller for another ISR of a partition; says whether it is going to be asked. The answer comes
with `take_isr` or `give_isr_up`, or never: then another state of the metadata comes with LeaderAndIsr."""

IsEligible = Callable[[int], bool]
"""Whether a broker may be in an ISR: it is live, and not about to stop."""

_NO_ISR = committed(())


def _everybody(_broker_id: int) -> bool:
    return True


class Leadership:
    """The half of a `Partition` that follows the cluster. Attributes: see there."""

    __slots__ = (
        "_followers",
        "_on_progress",
        "_replica_lag_time_max_ms",
        "adding",
        "broker_id",
        "index",
        "is_eligible",
        "isr",
        "isr_counts",
        "isr_state",
        "key",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "led_since",
        "log",
        "on_isr_wanted",
        "partition_epoch",
        "replicas",
        "topic",
    )

    def __init__(
        self,
        log: PartitionLog,
        topic: str,
        index: int,
        broker_id: int,
        on_progress: Callable[[TopicPartition], object] | None,
        replica_lag_time_max_ms: int,
    ) -> None:
        """
        Args:
            on_progress: see `Partition`, which tells of the other arguments too.
        """
        self.topic = topic
        self.index = index
        self.key = (topic, index)
        self.log = log
        self.broker_id = broker_id
        # -1: nobody leads. Equal to `broker_id` from `make_leader` until `make_follower`.
        self.leader_id = -1
        # Never goes back: a request of an older epoch changes nothing.
        self.leader_epoch = -1
        self.led_since = -1
        # Whatever an earlier leader has committed lies below; see `_maybe_expand_isr`.
        self.leader_epoch_start_offset = 0
        # ZooKeeper's version of the state's node; AlterPartition may bring it ahead of LeaderAndIsr.
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        # Always `isr_state.isr`, of which it is a copy because each append reads it.
        self.isr: tuple[int, ...] = ()
        self.isr_state = _NO_ISR
        self.isr_counts = IsrCounts()
        # All other replicas while this broker leads, empty while it does not.
        self._followers: dict[int, Follower] = {}
        self.on_isr_wanted: OnIsrWanted | None = None
        self.is_eligible: IsEligible = _everybody
        self._on_progress = on_progress
        self._replica_lag_time_max_ms = replica_lag_time_max_ms

    @property
    def is_leader(self) -> bool:
        """Return whether this broker leads the partition."""
        return self.leader_id == self.broker_id

    def make_leader(
        self,
        leader_epoch: int,
        *,
        replicas: Sequence[int],
        isr: Sequence[int],
        partition_epoch: int,
        now_ms: int,
    ) -> bool:
        """Lead from now on, or take note of a changed ISR or assignment.

        Returns:
            Whether this is a new leadership; false for an epoch that is already led or older.
        """
        if leader_epoch < self.leader_epoch:
            return False
        is_new = not self.is_leader or leader_epoch > self.leader_epoch
        if not is_new and partition_epoch < self.partition_epoch:
            # The controller's answer to a wish was faster than its LeaderAndIsr (`Partition.makeLeader`).
            return False
        if not self.is_leader or leader_epoch > self.leader_epoch + 1:
            # In an epoch that this broker has not heard of somebody else may have led.
            self.led_since = leader_epoch
        self.leader_id = self.broker_id
        self.replicas = tuple(replicas)
        if is_new or partition_epoch > self.partition_epoch or self.isr_state.wanted is None:
            # A wish that is under way may still be granted in the state that is known already.
            self._note_isr(committed(tuple(isr)))
        self.partition_epoch = partition_epoch
        followers = self._followers
        # A replica outside of the ISR may be dead: to wait for it would hold up every commit after an
        # election.
        self._followers = {
            broker_id: Follower(last_caught_up_ms=now_ms if broker_id in self.isr else NEVER)
            if is_new or broker_id not in followers
            else followers[broker_id]
            for broker_id in self.replicas
            if broker_id != self.broker_id
        }
        if is_new:
            # A wish from before is gone with `_note_isr` above: it named the old epoch, and its answer cannot
            # be taken for one about the new epoch (`take_isr`, `give_isr_up`).
            self.leader_epoch = leader_epoch
            self.leader_epoch_start_offset = self.log.log_end_offset
            self._note_epoch(leader_epoch)
        # The new ISR may be this broker alone: then no fetch will come that moves it.
        self.advance_high_watermark(now_ms)
        self.progress()
        return is_new

    def _note_epoch(self, leader_epoch: int) -> None:
        # Before any record is there: a follower may have records of a later epoch than the newest of this log
        # and finds where to cut only if this epoch is above all that it can ask for. Kafka:
        # `maybeAssignEpochStartOffset` in `Partition.makeLeader`.
        try:
            self.log.assign_epoch(leader_epoch, self.log.log_end_offset)
        except KafkaStorageError as error:
            # The first append of this epoch notes it as well, and does not go on without.
            logger.warning("leader epoch not noted yet %s-%d: %s", self.topic, self.index, error)

    def make_follower(
        self,
        leader_id: int,
        leader_epoch: int,
        *,
        replicas: Sequence[int],
        isr: Sequence[int],
        partition_epoch: int,
    ) -> bool:
        """Follow `leader_id` (-1: nobody leads) from now on.

        Returns:
            Whether anything changed; false for an older epoch.
        """
        if leader_epoch < self.leader_epoch:
            return False
        changed = leader_id != self.leader_id or leader_epoch != self.leader_epoch
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.replicas = tuple(replicas)
        self._note_isr(committed(tuple(isr)))
        # Not compared: of a follower LeaderAndIsr alone tells, in the controller's order.
        self.partition_epoch = partition_epoch
        self._followers = {}
        # What waits for a commit here is answered NOT_LEADER_OR_FOLLOWER.
        self.progress()
        return changed

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the epoch that a client believes in with the real epoch; -1 means that it does not say.

        Raises:
            FencedLeaderEpochError: the client's is older; it must refresh its metadata.
            UnknownLeaderEpochError: the client's is newer; this broker has not heard of it yet.
        """
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpochError(
                f"{self.topic}-{self.index}: leader epoch {current_leader_epoch} is over, "
                f"the current one is {self.leader_epoch}"
            )
        raise UnknownLeaderEpochError(
            f"{self.topic}-{self.index}: leader epoch {current_leader_epoch} is not known here yet, "
            f"the current one is {self.leader_epoch}"
        )

    def require_leader(self) -> None:
        """Check that this broker leads.

        Raises:
            NotLeaderOrFollowerError: it does not.
        """
        if self.leader_id != self.broker_id:
            raise NotLeaderOrFollowerError(f"broker {self.broker_id} does not lead {self.topic}-{self.index}")

    def require_topic_id(self, topic_id: bytes) -> None:
        """Check that `topic_id`, if it is set, is that of the log.

        Raises:
            InconsistentTopicIdError: it is another topic's.
        """
        own = self.log.topic_id
        # Zeros: the request names no id. None: the log is of before Kafka 2.8 (KIP-516).
        if topic_id != ZERO_UUID and own is not None and topic_id != own:
            raise InconsistentTopicIdError(f"{self.topic}-{self.index} has another topic id")

    # ------------------------------------------------------------------ what is committed

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        # Else a topic of one replica could not be written to under a broker's default of 2.
        return min(self.log.config.min_insync_replicas, max(1, len(self.replicas)))

    @property
    def is_under_replicated(self) -> bool:
        """Return whether this broker leads, and not all replicas are in sync."""
        return self.is_leader and len(self.isr) < len(self.replicas)

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark to the least log end of the maximal ISR.

        A follower that has caught up within `replica.lag.time.max.ms` is waited for although it is not in the
        ISR yet: otherwise it could never get in while the leader is written to without pause. One that may
        not get in at all, because its broker is gone, is not.

        Returns:
            Whether it moved.
        """
        log = self.log
        new = log.log_end_offset
        if self._followers:
            # What too few have is not committed, so that no consumer sees what could be lost with those few
            # (KIP-966).
            if len(self.isr) < self.effective_min_isr:
                return False
            maximal = self.isr_state.maximal
            for broker_id, follower in self._followers.items():
                if follower.log_end_offset < new and (
                    broker_id in maximal
                    or (
                        now_ms - follower.last_caught_up_ms <= self._replica_lag_time_max_ms
                        and self.is_eligible(broker_id)
                    )
                ):
                    new = follower.log_end_offset
        if new <= log.high_watermark:
            return False
        log.update_high_watermark(new)
        return True

    def record_follower_fetch(
        self,
        replica_id: int,
        *,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        broker_epoch: int = NO_EPOCH,
    ) -> None:
        """Take note of what a follower's fetch says about its log.

        Raises:
            NotLeaderOrFollowerError: `replica_id` is no replica of this partition, or its broker has begun
                another life since (KIP-903).
        """
        follower = self._followers.get(replica_id)
        if follower is None:
            raise NotLeaderOrFollowerError(f"broker {replica_id} is no replica of {self.topic}-{self.index}")
        if NO_EPOCH < broker_epoch < follower.broker_epoch:
            raise NotLeaderOrFollowerError(
                f"a fetch of broker {replica_id} in its epoch {broker_epoch}, which is in "
                f"{follower.broker_epoch} by now"
            )
        # AlterPartition names this life: the controller refuses a follower that has come back since, perhaps
        # with less (docs/decisions/lives-of-replicas-in-sync.md).
        follower.broker_epoch = broker_epoch
        log_end = self.log.log_end_offset
        # A leader that is written to without pause is always ahead by what came while the fetch was on its
        # way. So a follower also counts as caught up that asks for what lies behind the leader's end as it
        # was at the fetch before; it had all of that at that time. Kafka: `Replica.updateFetchStateOrThrow`.
        if fetch_offset >= log_end:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif fetch_offset >= follower.last_fetch_leader_log_end >= 0:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.log_end_offset = fetch_offset
        start_moved = log_start_offset != follower.log_start_offset
        follower.log_start_offset = log_start_offset
        follower.last_fetch_ms = now_ms
        follower.last_fetch_leader_log_end = log_end
        if replica_id not in self.isr:
            self._maybe_expand_isr(replica_id, follower)
        if self.advance_high_watermark(now_ms) or start_moved:
            self.progress()

    # ------------------------------------------------------------------ the in-sync replicas (KIP-497)

    def _maybe_expand_isr(self, replica_id: int, follower: Follower) -> None:
        """Ask for a follower to be taken in that has all that may be committed.

        Beyond the high watermark the follower also has to have the start of this leader's epoch: what the
        leader before had committed reaches up to there, though this leader has not heard of it yet.
        """
        end = follower.log_end_offset
        if (
            self.isr_state.wanted is None
            and end >= self.log.high_watermark
            and end >= self.leader_epoch_start_offset
            and self.is_eligible(replica_id)
        ):
            self._want_isr(self.isr_state.expanding(replica_id))

    def shrink_isr(self, now_ms: int) -> None:
        """Ask for the followers to be left out that have not caught up for `replica.lag.time.max.ms`.

        To be called by a timer, twice in that time. What has waited for followers outside of the ISR goes on
        without those that lag by now.
        """
        if not self._followers or not self.is_leader:
            return
        end, horizon = self.log.log_end_offset, now_ms - self._replica_lag_time_max_ms
        if self.isr_state.wanted is None:
            # A follower that has everything is in sync, however long it has been silent: nothing has come.
            late = [
                broker_id
                for broker_id, follower in self._followers.items()
                if broker_id in self.isr
                and follower.log_end_offset != end
                and follower.last_caught_up_ms < horizon
            ]
            if late:
                self._want_isr(self.isr_state.shrinking(late))
        if self.advance_high_watermark(now_ms):
            self.progress()

    def _want_isr(self, state: IsrState) -> None:
        if self.on_isr_wanted is None:
            return
        assert state.wanted is not None
        # First, as the answer may be given at once. From here on the larger of both sets counts (KIP-497).
        before, self.isr_state = self.isr_state, state
        if not self.on_isr_wanted(self, state.wanted) and self.isr_state is state:
            self.isr_state = before

    def take_isr(self, leader_epoch: int, isr: Sequence[int], partition_epoch: int, now_ms: int) -> bool:
        """Take over the ISR that the controller has written; whoever waits for a commit looks again.

        Args:
            leader_epoch, isr, partition_epoch: the state of the partition as the controller has it.
            now_ms: wall clock.

        Returns:
            Whether the state is news; false for another leader epoch than the present, and for a state that
            is not newer than the known state. Such an answer says nothing about a wish that is under way.
        """
        if not self.is_leader or leader_epoch != self.leader_epoch or partition_epoch <= self.partition_epoch:
            return False
        wanted_isr = self.isr_state.wanted
        # Another ISR is the controller's own change, by a death or a reassignment: no wish was granted by it.
        if wanted_isr is not None and set(wanted_isr) == set(isr):
            self.isr_counts.note(len(isr) - len(self.isr))
        self._note_isr(committed(tuple(isr)))
        self.partition_epoch = partition_epoch
        self.advance_high_watermark(now_ms)
        self.progress()
        return True

    def give_isr_up(self, leader_epoch: int, partition_epoch: int | None = None) -> None:
        """Forget the wish under way: it was not granted and never will be, the present ISR stays.

        Only for errors by which the controller says so much, INELIGIBLE_REPLICA and OPERATION_NOT_ATTEMPTED.
        After any other the wish may have been granted, and the maximal ISR has to stand until a newer state
        comes.

        Args:
            leader_epoch, partition_epoch: what the refused request said.
        """
        if leader_epoch == self.leader_epoch and partition_epoch in (None, self.partition_epoch):
            self.isr_counts.failed += 1
            self.isr_state = committed(self.isr)

    def _note_isr(self, state: IsrState) -> None:
        self.isr_state, self.isr = state, state.isr

    @property
    def low_watermark(self) -> int:
        """The least log start among the replicas on live brokers; no reader finds records below it."""
        # A dead broker is left out, or DeleteRecords would wait for it. Kafka: `lowWatermarkIfLeader`.
        low = self.log.log_start_offset
        for broker_id, follower in self._followers.items():
            if follower.log_start_offset < low and self.is_eligible(broker_id):
                low = follower.log_start_offset
        return low

    def broker_epoch_of(self, broker_id: int) -> int:
        """The life of a follower's broker in which it last fetched; -1 where that is not known."""
        follower = self._followers.get(broker_id)
        return NO_EPOCH if follower is None else follower.broker_epoch

    def followers_at(self, offset: int) -> Iterator[tuple[int, Follower]]:
        """The in-sync followers that hold an offset, or end there, by their broker ids."""
        for broker_id, follower in self._followers.items():
            if broker_id in self.isr and follower.log_start_offset <= offset <= follower.log_end_offset:
                yield broker_id, follower

    def progress(self) -> None:
        """Tell whoever waits that something may have moved; see `on_progress`."""
        if self._on_progress is not None:
            self._on_progress(self.key)
