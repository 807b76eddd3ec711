"""Config defaults that releases had otherwise than 3.9, whose defaults are ours.

Sources: `KafkaConfig.scala` of each release from 0.8.2 to 3.9, `AbstractKafkaConfig.CONFIG_DEF` of 4.0.0 to
4.4.0. Only what a client can notice is here.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.kafka_versions.release import Release, names

_BEFORE: Mapping[str, tuple[tuple[str, str], ...]] = {
    # name: (before this release, that default), the oldest first
    "delete.topic.enable": (("1.0", "false"),),
    "fetch.max.bytes": (("2.5", "2147483647"),),
    "group.initial.rebalance.delay.ms": (("0.11", "0"),),
    "group.max.session.timeout.ms": (("0.10.0", "30000"), ("2.3", "300000")),
    "log.cleaner.enable": (("0.9", "false"),),
    "message.max.bytes": (("2.5", "1000012"),),
    "offsets.retention.minutes": (("2.0", "1440"),),
    "replica.lag.time.max.ms": (("2.5", "10000"),),
    "unclean.leader.election.enable": (("0.11", "true"),),
    "zookeeper.session.timeout.ms": (("2.5", "6000"),),
}

_FROM: Mapping[str, tuple[str, str]] = {
    # name: (from this release on, the default)
    "log.message.timestamp.after.max.ms": ("4.0", "3600000"),
    "num.recovery.threads.per.data.dir": ("4.0", "2"),
}

_PROTOCOL = (
    "0.8.2 0.9.0 0.10.0-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV1 2.1-IV2 2.2-IV1 2.3-IV1 "
    "2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV2 2.8-IV1 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV4 "
    "3.8-IV0 3.9-IV0"
)
"""`inter.broker.protocol.version`, and before 3.0 `log.message.format.version`: the release's own. What is
from before 0.10 stores messages of version 0, 0.10 of version 1."""


def defaults_of(release: Release) -> dict[str, str]:
    """Config names and texts where a release's default is not ours."""
    found: dict[str, str] = {}
    for name, steps in _BEFORE.items():
        text = next((text for before, text in steps if not release.at_least(before)), None)
        if text is not None:
            found[name] = text
    for name, (since, text) in _FROM.items():
        if release.at_least(since):
            found[name] = text
    # The list ends with 3.9: later releases have neither config.
    protocol = dict(zip(names(), _PROTOCOL.split(), strict=False)).get(release.name)
    if protocol is not None:
        found["inter.broker.protocol.version"] = protocol
        if not release.at_least("3.0"):
            found["log.message.format.version"] = protocol
    return found
