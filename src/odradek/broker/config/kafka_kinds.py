"""Types of broker configs, and whether they can change while a broker runs, where releases had them otherwise
than 4.3, whose table is ours.

Source: what brokers of the releases answer to DescribeConfigs (`tests/golden/configs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.config.declaration import CLUSTER_WIDE, PER_BROKER, READ_ONLY
from odradek.broker.kafka_versions.release import Release
from odradek.cluster.configs.config_def import ConfigType

_TYPE_BEFORE: Mapping[str, tuple[str, ConfigType]] = {
    # name: (before this release, that type)
    **dict.fromkeys(
        (
            "advertised.listeners",
            "controller.listener.names",
            "early.start.listeners",
            "listeners",
            "log.dir",
            "log.dirs",
        ),
        ("4.2", ConfigType.STRING),
    ),
    "group.share.max.size": ("4.0", ConfigType.SHORT),
}

_MODE_BEFORE: Mapping[str, tuple[str, str | None]] = {
    # name: (before this release, that mode)
    "advertised.listeners": ("4.0", PER_BROKER),
    "remote.log.manager.copier.thread.pool.size": ("4.0", READ_ONLY),
    "remote.log.manager.expiration.thread.pool.size": ("4.0", READ_ONLY),
    "remote.log.reader.threads": ("4.0", READ_ONLY),
    "max.connections.per.ip": ("2.1", READ_ONLY),
    "max.connections.per.ip.overrides": ("2.1", READ_ONLY),
}

_DYNAMIC_SINCE = "1.1"
"""The first release whose brokers' configs can change while they run (KIP-226)."""

_SHOWN_AS_DYNAMIC_BEFORE: Mapping[str, str] = dict.fromkeys(
    ("log.retention.hours", "log.retention.minutes", "log.roll.hours", "log.roll.jitter.hours"), "2.4"
)
"""Before this release a config was not shown as read-only because its synonym in ms is not."""


def type_in(release: Release, name: str, today: ConfigType) -> ConfigType:
    """The type of a config in a release; `today` is that of the table."""
    before, kind = _TYPE_BEFORE.get(name, ("", today))
    return kind if before and not release.at_least(before) else today


def mode_in(release: Release, name: str, today: str | None) -> str | None:
    """Return how a config can change in a release; `today` is what the table says."""
    if not release.at_least(_DYNAMIC_SINCE):
        return READ_ONLY
    before, mode = _MODE_BEFORE.get(name, ("", today))
    return mode if before and not release.at_least(before) else today


def shown_mode_in(release: Release, name: str, today: str | None) -> str | None:
    """Return how a release shows that a config can change, which is not always how it can."""
    before = _SHOWN_AS_DYNAMIC_BEFORE.get(name)
    if before is not None and release.at_least(_DYNAMIC_SINCE) and not release.at_least(before):
        return CLUSTER_WIDE
    return mode_in(release, name, today)
