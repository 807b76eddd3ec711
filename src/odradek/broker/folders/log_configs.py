"""The configs of logs: the broker's, with what its topics say instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.log.config import LogConfig

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.cluster.image import ClusterImage


class TopicLogConfigs:
    """The configs of one broker's logs.

    Attributes:
        defaults: of a topic that has no configs of its own.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.defaults = _defaults(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over the broker's changed configs."""
        self.defaults = _defaults(config)

    def of(self, topic: str, image: ClusterImage) -> LogConfig:
        """The configs of a topic's logs."""
        overrides: Mapping[str, str] = image.topic_config(topic)
        return LogConfig.from_topic(overrides, self.defaults)


def _defaults(config: BrokerConfig) -> LogConfig:
    return replace(
        LogConfig.from_topic(config.topic_default_texts()),
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        inter_broker_protocol_version=config.inter_broker_protocol_version,
        batch_unpacked_max_bytes=config.odradek_batch_unpacked_max_bytes,
    )
