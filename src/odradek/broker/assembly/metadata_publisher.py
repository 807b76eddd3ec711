"""Has replicas, metrics and coordinators of a broker follow the image; leaderships come by themselves.

Kafka: `BrokerMetadataPublisher`. Configs and quotas have publishers of their own, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.assembly.coordinators import Coordinators
    from odradek.broker.metrics.metrics import TopicMetricsTable
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.image import ClusterDelta, ClusterImage


class MetadataPublisher:
    """See the module."""

    def __init__(
        self, replicas: ReplicaManager, metrics: TopicMetricsTable, coordinators: Coordinators
    ) -> None:
        self._replicas = replicas
        self._metrics = metrics
        self._coordinators = coordinators

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow what the controller has told."""
        self._replicas.follow_configs(image, delta)
        for topic in delta.topics_gone:
            self._metrics.forget(topic)
        self._coordinators.follow(image, delta)
