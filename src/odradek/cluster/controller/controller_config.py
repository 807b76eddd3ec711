"""The broker configs that the controller reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from odradek.cluster.configs.config_def import ConfigValue


class ControllerConfig(Protocol):
    """The broker's configs that the controller needs; `broker.config.BrokerConfig` has them."""

    @property
    def num_partitions(self) -> int:
        """`num.partitions`."""
        ...

    @property
    def default_replication_factor(self) -> int:
        """`default.replication.factor`."""
        ...

    @property
    def delete_topic_enable(self) -> bool:
        """`delete.topic.enable`."""
        ...

    @property
    def inter_broker_protocol_version(self) -> str:
        """`inter.broker.protocol.version`."""
        ...

    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        """The values of topic configs that are not overridden, by topic config name."""
        ...
