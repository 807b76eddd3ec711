"""The group coordinator in a broker: its log is the replicas, its shards the partitions that are led here.

A broker makes one `GroupRuntime`, calls `follow` with every image once the replicas have followed it (at the
start too), `follow_leaders` when the controller of a cluster has made replicas lead or follow, and `stop`
before it closes its logs. Handlers reach the coordinator as
`broker.groups.coordinator`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from odradek.broker.coordination.replicated_log import ReplicatedLog
from odradek.broker.coordination.shell import CoordinatorShell
from odradek.broker.groups.group_metrics import group_samples
from odradek.broker.groups.stored_offsets import StoredOffsets
from odradek.coordinators.groups.config import GroupConfig
from odradek.coordinators.groups.coordinator import GroupCoordinator
from odradek.records.compression import Codec
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.metrics.metrics import Metrics
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import ClusterDelta, ClusterImage
    from odradek.replication.delayed import Purgatory
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers


class GroupRuntime(CoordinatorShell):
    """Keeps the group coordinator in step with the cluster.

    Args:
        broker_id: this broker.
        replicas: the partitions on it.
        purgatory: told of their progress.
        controller: creates the topic when it is first needed; its store keeps the offsets of version 0.
        clock: the time.
        timers: for sessions, rebalances and what expires.
        pauses: for how long an answer waits for its commit.
        config: the broker's configs.

    Attributes:
        coordinator: what handlers call.
        stored_offsets: the offsets of OffsetCommit and OffsetFetch version 0.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        controller: KafkaController,
        clock: Clock,
        timers: Timers,
        pauses: Timers,
        config: BrokerConfig,
    ) -> None:
        super().__init__(GROUP_METADATA_TOPIC, broker_id, replicas, controller, config)
        self.stored_offsets = StoredOffsets(lambda: controller.store)
        self.coordinator: GroupCoordinator = GroupCoordinator(
            config=group_config(config),
            log=ReplicatedLog(replicas, purgatory, clock),
            clock=clock,
            timers=timers,
            pauses=pauses,
            new_uuid=lambda: str(uuid.uuid4()),
            codec=Codec(config.offsets_topic_compression_codec),
        )

    def register_metrics(self, metrics: Metrics) -> None:
        """Show the groups among a broker's metrics."""
        metrics.source(lambda: group_samples(self.coordinator, self._replicas))

    def follow(self, image: ClusterImage, delta: ClusterDelta | None = None) -> None:
        """Take up the groups of partitions that this broker leads now, give up the others.

        Args:
            image: the cluster; where it leads the replicas, they have followed it already.
            delta: what has changed; `None` at the start. Offsets of deleted topics are removed.
        """
        self._image = image
        self.follow_leaders()
        if delta is not None:
            deleted: dict[str, set[int] | None] = dict.fromkeys(
                delta.topics_marked | delta.topics_gone.keys()
            )
            # The offsets of the groups' own topic are in its log, and are gone with it.
            deleted.pop(GROUP_METADATA_TOPIC, None)
            if deleted:
                self.coordinator.on_partitions_deleted(deleted)


def group_config(config: BrokerConfig) -> GroupConfig:
    """Take the configs of groups out of the broker's."""
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        odradek_group_member_max_bytes=config.odradek_group_member_max_bytes,
        odradek_group_max_bytes=config.odradek_group_max_bytes,
        odradek_group_coordinator_max_bytes=config.odradek_group_coordinator_max_bytes,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_minutes=config.offsets_retention_minutes,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
    )
