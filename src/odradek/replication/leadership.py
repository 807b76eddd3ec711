"""Who leads a partition, who is in sync, and what is committed by that.

    follower ──make_leader(epoch)──► leader ──make_follower(epoch)──► follower

Invariants, each on its field:

- `leader_epoch` never goes back.
- `log.high_watermark <= log.log_end_offset`, and it never goes back while this broker leads.
- The high watermark is the least log end among the in-sync replicas; it stands still while the ISR is smaller
  than the effective min.insync.replicas.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from odradek.replication.followers import Follower

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

NO_EPOCH = -1
ZERO_TOPIC_ID = bytes(16)


class Leadership:
    """The half of a `Partition` that follows the cluster. Attributes: see there."""

    __slots__ = (
        "_followers",
        "_on_progress",
        "_replica_lag_time_max_ms",
        "broker_id",
        "index",
        "isr",
        "key",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
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
        on_progress: Callable[[tuple[str, int]], object] | None,
        replica_lag_time_max_ms: int,
    ) -> None:
        """
        Args:
            on_progress: see `Partition`, also for the others.
        """
        self.topic = topic
        self.index = index
        self.key = (topic, index)
        self.log = log
        self.broker_id = broker_id
        self.leader_id = -1
        self.leader_epoch = -1
        self.leader_epoch_start_offset = 0
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self._followers: dict[int, Follower] = {}
        self._on_progress = on_progress
        self._replica_lag_time_max_ms = replica_lag_time_max_ms

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
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
        self.leader_id = self.broker_id
        self.replicas, self.isr = tuple(replicas), tuple(isr)
        self.partition_epoch = partition_epoch
        known = self._followers
        self._followers = {
            broker_id: Follower(last_caught_up_ms=now_ms)
            if is_new or broker_id not in known
            else known[broker_id]
            for broker_id in self.replicas
            if broker_id != self.broker_id
        }
        if is_new:
            self.leader_epoch = leader_epoch
            self.leader_epoch_start_offset = self.log.log_end_offset
            self._note_epoch(leader_epoch)
        self.advance_high_watermark(now_ms)
        self._progress()
        return is_new

    def _note_epoch(self, leader_epoch: int) -> None:
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
        self.replicas, self.isr = tuple(replicas), tuple(isr)
        self.partition_epoch = partition_epoch
        self._followers = {}
        self._progress()
        return changed

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the epoch that a client believes in with the real one; -1 means that it does not say.

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
        """Raise `NotLeaderOrFollowerError` unless this broker leads."""
        if self.leader_id != self.broker_id:
            raise NotLeaderOrFollowerError(f"broker {self.broker_id} does not lead {self.topic}-{self.index}")

    def require_topic_id(self, topic_id: bytes) -> None:
        """Raise `InconsistentTopicIdError` when `topic_id` is set and is not that of the log."""
        own = self.log.topic_id
        if topic_id != ZERO_TOPIC_ID and own is not None and topic_id != own:
            raise InconsistentTopicIdError(f"{self.topic}-{self.index} has another topic id")

    # ------------------------------------------------------------------ what is committed

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(self.log.config.min_insync_replicas, max(1, len(self.replicas)))

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark to the least log end of the in-sync replicas.

        A follower that has caught up within `replica.lag.time.max.ms` is waited for although it is not in the
        ISR yet: otherwise it could never get in while the leader is written to without pause.

        Returns:
            Whether it moved.
        """
        log = self.log
        new = log.log_end_offset
        if self._followers:
            if len(self.isr) < self.effective_min_isr:
                return False
            for broker_id, follower in self._followers.items():
                if follower.log_end_offset < new and (
                    broker_id in self.isr
                    or now_ms - follower.last_caught_up_ms <= self._replica_lag_time_max_ms
                ):
                    new = follower.log_end_offset
        if new <= log.high_watermark:
            return False
        log.update_high_watermark(new)
        return True

    def record_follower_fetch(
        self, replica_id: int, *, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Take note of what a follower's fetch says about its log.

        Raises:
            NotLeaderOrFollowerError: `replica_id` is no replica of this partition.
        """
        follower = self._followers.get(replica_id)
        if follower is None:
            raise NotLeaderOrFollowerError(f"broker {replica_id} is no replica of {self.topic}-{self.index}")
        log_end = self.log.log_end_offset
        if fetch_offset >= log_end:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif fetch_offset >= follower.last_fetch_leader_log_end >= 0:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.log_end_offset = fetch_offset
        follower.log_start_offset = log_start_offset
        follower.last_fetch_ms = now_ms
        follower.last_fetch_leader_log_end = log_end
        if self.advance_high_watermark(now_ms):
            self._progress()

    @property
    def low_watermark(self) -> int:
        """The least log start among the replicas; records below it are gone everywhere."""
        return min((self.log.log_start_offset, *(f.log_start_offset for f in self._followers.values())))

    def _progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.key)
