"""The tables of broker configs, made from what `odradek.broker.config.declared` declares.

All that Kafka 4.4 and releases before it know, so that a `server.properties` is understood whole and
DescribeConfigs shows what tools expect; which of them have an effect here stands in docs/configuration.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.broker.config.declaration import CLUSTER_WIDE as CLUSTER_WIDE
from odradek.broker.config.declaration import PER_BROKER as PER_BROKER
from odradek.broker.config.declaration import SECTIONS as _SECTIONS
from odradek.broker.config.declaration import Declarations, Declared
from odradek.broker.config.declared.coordinators import (
    MetricAndQuotaConfigs,
    QuorumConfigs,
    ShareGroupConfigs,
    TransactionConfigs,
)
from odradek.broker.config.declared.gone import GoneConfigs
from odradek.broker.config.declared.groups import GroupCoordinatorConfigs
from odradek.broker.config.declared.logs import LogConfigs
from odradek.broker.config.declared.own import DynamicOnlyConfigs, OwnConfigs
from odradek.broker.config.declared.remote_storage import RemoteStorageConfigs
from odradek.broker.config.declared.security import SecurityConfigs
from odradek.broker.config.declared.server import (
    KRaftConfigs,
    ReplicationConfigs,
    ServerConfigs,
    SocketServerConfigs,
)
from odradek.cluster.configs.config_def import ConfigKey


class ConfigAttributes(
    RemoteStorageConfigs,
    ServerConfigs,
    KRaftConfigs,
    SocketServerConfigs,
    ReplicationConfigs,
    GroupCoordinatorConfigs,
    LogConfigs,
    ShareGroupConfigs,
    TransactionConfigs,
    QuorumConfigs,
    MetricAndQuotaConfigs,
    SecurityConfigs,
    GoneConfigs,
    DynamicOnlyConfigs,
    OwnConfigs,
):
    """All broker configs as attributes; `BrokerConfig` gives them their values."""


_BESIDE_KAFKA = (GoneConfigs, DynamicOnlyConfigs, OwnConfigs)
_CLASSES: tuple[type[Declarations], ...] = ConfigAttributes.__bases__
_OF_KAFKA = [declarations for declarations in _CLASSES if declarations not in _BESIDE_KAFKA]


def _declared(*classes: type[Declarations]) -> Iterable[Declared]:
    for declarations in classes:
        yield from declarations.declared


def _keys(*classes: type[Declarations]) -> dict[str, ConfigKey]:
    return {declared.key.name: declared.key for declared in _declared(*classes)}


_ALL = tuple(_declared(*_CLASSES))

BROKER_CONFIGS: Mapping[str, ConfigKey] = _keys(*_OF_KAFKA)
"""All broker configs of Kafka 4.4 by name, in its order."""

GONE_CONFIGS: Mapping[str, ConfigKey] = _keys(GoneConfigs)
"""Configs that 4.4 has no more, and that are still understood."""

DYNAMIC_ONLY_CONFIGS: Mapping[str, ConfigKey] = _keys(DynamicOnlyConfigs)
"""Configs of a broker that can only be set dynamically."""

OWN_CONFIGS: Mapping[str, ConfigKey] = _keys(OwnConfigs)
"""Configs that Kafka does not have. DescribeConfigs shows those that are set."""

UPDATE_MODES: Mapping[str, str] = {
    declared.key.name: declared.update
    for declared in _declared(*_OF_KAFKA, GoneConfigs)
    if declared.update is not None
}
"""Per config that can change while the broker runs: `CLUSTER_WIDE` or `PER_BROKER`."""

INTERNAL_CONFIGS = frozenset(declared.key.name for declared in _ALL if declared.internal)
"""Configs that DescribeConfigs does not show unless they are set."""

SECTIONS: Mapping[str, dict[str, str]] = {section: {} for section in _SECTIONS}
"""A sentence for each config, by the sections of docs/configuration.md."""

for _config in _ALL:
    SECTIONS[_config.section][_config.key.name] = _config.doc

BROKER_DOCS: Mapping[str, str] = {declared.key.name: declared.doc for declared in _ALL}
"""Per broker config a sentence."""
