"""From which replica a consumer had better read (KIP-392): `replica.selector.class`.

A leader that knows of a nearer replica says so in place of records (Fetch 11+, `preferred_read_replica`). Of
the followers those count that are in sync and have the wanted offset: one that lags would have its readers
lag, and be chosen again and again.

Kafka: `LeaderSelector`, `RackAwareReplicaSelector`, `ReplicaManager.findPreferredReadReplica`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

logger = logging.getLogger(__name__)

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaView(NamedTuple):
    """A follower that may be read from.

    Attributes:
        broker_id: where it is.
        rack: the broker's; None for none.
        log_end_offset: as its last fetch told.
        ms_since_caught_up: since it last had all that the leader had.
    """

    broker_id: int
    rack: str | None
    log_end_offset: int
    ms_since_caught_up: int


ReplicaSelector = Callable[[str, "str | None", Iterable[ReplicaView]], int]
"""`(reader's rack, leader's rack, followers) -> broker id`; -1 for the leader itself."""


def select_leader(_rack: str, _leader_rack: str | None, _followers: Iterable[ReplicaView]) -> int:
    """Everybody reads from the leader."""
    return -1


def select_by_rack(rack: str, leader_rack: str | None, followers: Iterable[ReplicaView]) -> int:
    """The leader where it is in the reader's rack, else whoever there has copied most, else the leader."""
    if not rack or leader_rack == rack:
        return -1
    near = [follower for follower in followers if follower.rack == rack]
    if not near:
        return -1
    return max(
        near, key=lambda follower: (follower.log_end_offset, -follower.ms_since_caught_up, follower.broker_id)
    ).broker_id


SELECTORS: dict[str, ReplicaSelector] = {
    LEADER_SELECTOR: select_leader,
    RACK_AWARE_SELECTOR: select_by_rack,
}
"""By the names of Kafka's classes, which stand in `replica.selector.class`."""


def replica_selector(name: str | None) -> ReplicaSelector | None:
    """The selector of `replica.selector.class`; None without a name, or with one that is not known here."""
    if not name:
        return None
    if name not in SELECTORS:
        logger.warning("no such class, consumers read from leaders replica.selector.class=%s", name)
    return SELECTORS.get(name)
