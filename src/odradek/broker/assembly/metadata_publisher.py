"""Has the parts of a broker follow the image: configs, quotas, replicas, topics, coordinators.

Kafka: `BrokerMetadataPublisher`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.config.reconfiguration import update_dynamic
from odradek.broker.metadata.waits import check_topics
from odradek.broker.quotas.throttling import RequestThrottle

if TYPE_CHECKING:
    from odradek.broker.assembly.coordinators import Coordinators
    from odradek.broker.folders.log_configs import TopicLogConfigs
    from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
    from odradek.broker.network.dispatch import Dispatcher
    from odradek.broker.network.listening import Listening
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterDelta, ClusterImage, EntityPath

logger = logging.getLogger(__name__)


class MetadataPublisher:
    """See the module."""

    def __init__(
        self,
        broker: BrokerServices,
        log_configs: TopicLogConfigs,
        listening: Listening,
        dispatcher: Dispatcher,
        coordinators: Coordinators,
        fetchers: ReplicaFetcherManager,
    ) -> None:
        self._broker = broker
        self._log_configs = log_configs
        self._listening = listening
        self._dispatcher = dispatcher
        self._coordinators = coordinators
        self._fetchers = fetchers

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow what the controller has told; leaderships come by themselves."""
        if delta.configs:
            self.follow_quotas(delta.configs)
        if f"brokers/{self._broker.broker_id}" in delta.configs or "brokers/<default>" in delta.configs:
            self.follow_dynamic_configs(image)
        self._broker.replicas.follow_configs(image, delta)
        for topic in delta.topics_gone:
            self._broker.metrics.topics.forget(topic)
        self._coordinators.follow(image, delta)
        check_topics(self._broker.purgatory, delta)

    def follow_dynamic_configs(self, image: ClusterImage) -> None:
        """Take over what the image says of this broker's configs."""
        broker = self._broker
        changed = update_dynamic(
            broker.config, image.config("brokers/<default>"), image.config(f"brokers/{broker.broker_id}")
        )
        if changed:
            logger.info("configs changed names=%s", ",".join(sorted(changed)))
            self._log_configs.reconfigure(broker.config)
            broker.replicas.reconfigure()
            self._listening.reconfigure()
            self._fetchers.resize(broker.config.num_replica_fetchers)
            self.set_replication_quotas()
        # Also when nothing has changed but the files: so Kafka is told to look at them.
        self._listening.reload_certificates()

    def follow_quotas(self, configs: Mapping[EntityPath, Mapping[str, str]]) -> None:
        """Take over quotas of clients, as far as these configs say any."""
        broker = self._broker
        broker.quotas.follow(configs)
        if not broker.quotas.count_requests:
            broker.request_throttle = None
        elif broker.request_throttle is None:
            release = broker.handlers.release
            # KIP-219
            delays_answers = release is not None and not release.at_least("2.0")
            broker.request_throttle = RequestThrottle(
                broker.quotas, broker.clock, delays_answers=delays_answers
            )
        self._dispatcher.throttle = broker.request_throttle

    def set_replication_quotas(self) -> None:
        """Take over the throttles of copies."""
        quotas, config = self._broker.replicas.quotas, self._broker.config
        quotas.leader.bytes_per_second = config.leader_replication_throttled_rate
        quotas.follower.bytes_per_second = config.follower_replication_throttled_rate
