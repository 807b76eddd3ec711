"""Has the parts of a broker follow its dynamic configs. Kafka: `DynamicConfigPublisher`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.broker.config.reconfiguration import update_dynamic

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.folders.log_configs import TopicLogConfigs
    from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
    from odradek.broker.network.listening import Listening
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.image import ClusterDelta, ClusterImage

logger = logging.getLogger(__name__)


class DynamicConfigPublisher:
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        log_configs: TopicLogConfigs,
        replicas: ReplicaManager,
        listening: Listening,
        fetchers: ReplicaFetcherManager,
    ) -> None:
        """
        Args:
            config: the broker's, which takes the image's over.
            log_configs, replicas, listening, fetchers: whom it is told to then.
        """
        self._config = config
        self._log_configs = log_configs
        self._replicas = replicas
        self._listening = listening
        self._fetchers = fetchers

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow what has changed."""
        if f"brokers/{self._config.broker_id}" in delta.configs or "brokers/<default>" in delta.configs:
            self.follow(image)

    def follow(self, image: ClusterImage) -> None:
        """Take over what the image says of this broker's configs."""
        config = self._config
        changed = update_dynamic(
            config, image.config("brokers/<default>"), image.config(f"brokers/{config.broker_id}")
        )
        if changed:
            logger.info("configs changed names=%s", ",".join(sorted(changed)))
            self._log_configs.reconfigure(config)
            self._replicas.reconfigure()
            self._listening.reconfigure()
            self._fetchers.resize(config.num_replica_fetchers)
            self.set_replication_quotas()
        # Also when nothing has changed but the files: so Kafka is told to look at them.
        self._listening.reload_certificates()

    def set_replication_quotas(self) -> None:
        """Take over the throttles of copies."""
        quotas, config = self._replicas.quotas, self._config
        quotas.leader.bytes_per_second = config.leader_replication_throttled_rate
        quotas.follower.bytes_per_second = config.follower_replication_throttled_rate
