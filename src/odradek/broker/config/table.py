"""The table of broker configs: Kafka's names, types, defaults, limits, and which can change while running.

All that Kafka 4.3 and releases before it know (`odradek.broker.config.rows`, `gone`), so that a
`server.properties` is understood whole and DescribeConfigs shows what tools expect; which of them have an
effect here stands in docs/configuration.md. What each is for stands in `odradek.broker.config.docs`.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.config.gone import GONE
from odradek.broker.config.rows import CLUSTER_WIDE as CLUSTER_WIDE
from odradek.broker.config.rows import PER_BROKER as PER_BROKER
from odradek.broker.config.rows import READ_ONLY, ROWS, Row
from odradek.cluster.config_def import LOW, MEDIUM, ConfigKey, ConfigType, Validator, at_least

_T = ConfigType
_L = 9223372036854775807


def _kafka_release(value: object) -> str | None:
    from odradek.broker.kafka_versions.release import UnknownReleaseError, find

    try:
        find(str(value))
    except UnknownReleaseError as error:
        return str(error)
    return None


_KAFKA_RELEASE = Validator("a release of Kafka from 0.8.2 on, such as 2.2", _kafka_release)

_QUOTAS: tuple[Row, ...] = (
    # Not in `server.properties`: dynamic only.
    ("leader.replication.throttled.rate", _T.LONG, str(_L), MEDIUM, at_least(0), PER_BROKER),
    ("follower.replication.throttled.rate", _T.LONG, str(_L), MEDIUM, at_least(0), PER_BROKER),
    ("replica.alter.log.dirs.io.max.bytes.per.second", _T.LONG, str(_L), MEDIUM, at_least(0), PER_BROKER),
)

_OWN: tuple[Row, ...] = (
    # Ours, not Kafka's: their names say so.
    ("odradek.event.loop.stall.ms", _T.INT, "50", LOW, at_least(0), READ_ONLY),
    ("odradek.group.coordinator.max.bytes", _T.LONG, "134217728", MEDIUM, at_least(1), READ_ONLY),
    ("odradek.group.max.bytes", _T.INT, "16777216", MEDIUM, at_least(1), READ_ONLY),
    ("odradek.group.member.max.bytes", _T.INT, "1048576", MEDIUM, at_least(1), READ_ONLY),
    ("odradek.insecure", _T.BOOLEAN, "false", MEDIUM, None, READ_ONLY),
    ("odradek.kafka.version", _T.STRING, None, MEDIUM, _KAFKA_RELEASE, READ_ONLY),
    ("odradek.producer.id.creation.rate", _T.INT, "100", MEDIUM, at_least(0), READ_ONLY),
    ("odradek.producer.ids.max", _T.INT, "250000", MEDIUM, at_least(1), READ_ONLY),
    ("odradek.producer.ids.per.partition.max", _T.INT, "10000", MEDIUM, at_least(1), READ_ONLY),
    ("odradek.refuse.damaged.logs", _T.BOOLEAN, "false", MEDIUM, None, READ_ONLY),
)


def _keys(rows: tuple[Row, ...]) -> dict[str, ConfigKey]:
    return {row[0]: ConfigKey(*row[:5]) for row in rows}


BROKER_CONFIGS: Mapping[str, ConfigKey] = _keys(ROWS)
"""All broker configs of Kafka 4.3 by name, in its order."""

GONE_CONFIGS: Mapping[str, ConfigKey] = _keys(GONE)
"""Configs that 4.3 has no more, and that are still understood."""

DYNAMIC_ONLY_CONFIGS: Mapping[str, ConfigKey] = _keys(_QUOTAS)
"""Configs of a broker that can only be set dynamically."""

OWN_CONFIGS: Mapping[str, ConfigKey] = _keys(_OWN)
"""Configs that Kafka does not have. DescribeConfigs shows those that are set."""

UPDATE_MODES: Mapping[str, str] = {row[0]: row[5] for row in (*ROWS, *GONE) if row[5] is not None}
"""Per config that can change while the broker runs: `CLUSTER_WIDE` or `PER_BROKER`."""

INTERNAL_CONFIGS = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.coordinator.new.enable",
        "group.share.enable",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "log.initial.task.delay.ms",
        "metadata.log.segment.min.bytes",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
        "zookeeper.metadata.migration.min.batch.size",
    }
)
"""Configs that DescribeConfigs does not show unless they are set."""
