# compiled: mypyc
"""A partition as a fetcher sees it: the log that it copies into, and how far that has come.

Kafka: `PartitionFetchState`, `ReplicaState`, and the abstract methods of `AbstractFetcherThread`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.log.storage.files import Buffer
    from odradek.util.topic_partition import TopicPartition


class Replica(Protocol):
    """The side of a partition that a fetcher works on: `odradek.replication.following.Following`."""

    key: TopicPartition

    @property
    def log_end_offset(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int: ...

    def append_from_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        leader_high_watermark: int,
        leader_log_start_offset: int,
        now_ms: int,
    ) -> int: ...

    def truncate_by_epoch(self, leader_epoch: int, leader_end: int) -> bool: ...

    def truncate_without_epochs(self) -> None: ...

    def truncate_to_leader_end(self, leader_end: int) -> None: ...

    def truncate_fully_and_start_at(self, leader_start: int) -> None: ...


class FetchState(Enum):
    """The next step of a fetcher's partition; see `replica_fetcher`."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    SEEKING_END = "seeking the leader's end"
    SEEKING_START = "seeking the leader's start"
    FAILED = "failed"


class FetchedReplica:
    """One partition of a fetcher.

    Attributes:
        replica: the partition itself.
        leader_epoch: in which it is fetched.
        topic_id: zeros where the topic has none.
        state: what is done with it next.
        delayed_until_ms: nothing is asked about it before, in monotonic ms.
        lag: records behind the leader's high watermark at the last fetch; None before.
        not_yet: how often in a row the leader seemed not to have heard of its election; stands still once the
            pause, which doubles with it, has reached the usual one.
        out_of_range: how often in a row it has found the fetch out of its range, whatever was done about it.
    """

    __slots__ = (
        "delayed_until_ms",
        "lag",
        "leader_epoch",
        "not_yet",
        "out_of_range",
        "replica",
        "state",
        "topic_id",
    )

    def __init__(self, replica: Replica, leader_epoch: int, topic_id: bytes, state: FetchState) -> None:
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.topic_id = topic_id
        self.state = state
        self.delayed_until_ms = 0.0
        self.lag: int | None = None
        self.not_yet = 0
        self.out_of_range = 0
