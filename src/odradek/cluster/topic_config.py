"""The table of topic configs: Kafka's names, types, defaults, limits, and the broker configs behind each.

A topic's value of a config is, in this order: the topic's own override, the first of the broker configs in
`SYNONYMS` that is set, the default. What each is for stands in `odradek.cluster.topic_config_docs`.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cluster.config_def import (
    LOW,
    MEDIUM,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    at_least,
    between,
    gzip_level,
    one_of,
    release,
    throttled_replicas,
)

_K, _T = ConfigKey, ConfigType

_TABLE = (
    _K("segment.bytes", _T.INT, "1073741824", MEDIUM, at_least(14)),
    _K("segment.ms", _T.LONG, "604800000", MEDIUM, at_least(1)),
    _K("segment.jitter.ms", _T.LONG, "0", MEDIUM, at_least(0)),
    _K("segment.index.bytes", _T.INT, "10485760", MEDIUM, at_least(4)),
    _K("flush.messages", _T.LONG, "9223372036854775807", MEDIUM, at_least(1)),
    _K("flush.ms", _T.LONG, "9223372036854775807", MEDIUM, at_least(0)),
    _K("retention.bytes", _T.LONG, "-1", MEDIUM),
    _K("retention.ms", _T.LONG, "604800000", MEDIUM, at_least(-1)),
    _K("max.message.bytes", _T.INT, "1048588", MEDIUM, at_least(0)),
    _K("index.interval.bytes", _T.INT, "4096", MEDIUM, at_least(0)),
    _K("delete.retention.ms", _T.LONG, "86400000", MEDIUM, at_least(0)),
    _K("min.compaction.lag.ms", _T.LONG, "0", MEDIUM, at_least(0)),
    _K("max.compaction.lag.ms", _T.LONG, "9223372036854775807", MEDIUM, at_least(1)),
    _K("file.delete.delay.ms", _T.LONG, "60000", MEDIUM, at_least(0)),
    _K("min.cleanable.dirty.ratio", _T.DOUBLE, "0.5", MEDIUM, between(0, 1)),
    _K("cleanup.policy", _T.LIST, "delete", MEDIUM, one_of("compact", "delete")),
    _K("unclean.leader.election.enable", _T.BOOLEAN, "false", MEDIUM),
    _K("min.insync.replicas", _T.INT, "1", MEDIUM, at_least(1)),
    _K(
        "compression.type",
        _T.STRING,
        "producer",
        MEDIUM,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _K("compression.gzip.level", _T.INT, "-1", MEDIUM, gzip_level),
    _K("compression.lz4.level", _T.INT, "9", MEDIUM, between(1, 17)),
    _K("compression.zstd.level", _T.INT, "3", MEDIUM, between(-131072, 22)),
    _K("preallocate", _T.BOOLEAN, "false", MEDIUM),
    _K("message.format.version", _T.STRING, "3.0-IV1", MEDIUM, release),
    _K("message.timestamp.type", _T.STRING, "CreateTime", MEDIUM, one_of("CreateTime", "LogAppendTime")),
    _K("message.timestamp.difference.max.ms", _T.LONG, "9223372036854775807", MEDIUM, at_least(0)),
    _K("message.timestamp.before.max.ms", _T.LONG, "9223372036854775807", MEDIUM, at_least(0)),
    _K("message.timestamp.after.max.ms", _T.LONG, "3600000", MEDIUM, at_least(0)),
    _K("leader.replication.throttled.replicas", _T.LIST, "", MEDIUM, throttled_replicas),
    _K("follower.replication.throttled.replicas", _T.LIST, "", MEDIUM, throttled_replicas),
    _K("message.downconversion.enable", _T.BOOLEAN, "true", LOW),
    _K("remote.storage.enable", _T.BOOLEAN, "false", MEDIUM),
    _K("local.retention.ms", _T.LONG, "-2", MEDIUM, at_least(-2)),
    _K("local.retention.bytes", _T.LONG, "-2", MEDIUM, at_least(-2)),
    _K("remote.log.copy.disable", _T.BOOLEAN, "false", MEDIUM),
    _K("remote.log.delete.on.disable", _T.BOOLEAN, "false", MEDIUM),
)

TOPIC_CONFIGS: Mapping[str, ConfigKey] = {key.name: key for key in _TABLE}
"""All topic configs by name."""

_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000

SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.format.version": (("log.message.format.version", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.difference.max.ms": (("log.message.timestamp.difference.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.downconversion.enable": (("log.message.downconversion.enable", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}
"""Per topic config the broker configs that stand in for it, the first that is set winning, each with the
factor that makes its unit the topic config's. Configs that are not here have no broker config."""


def parse_topic_configs(overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Check the overrides of a topic, each for itself.

    Raises:
        ConfigError: an unknown name or a bad value.
    """
    parsed: dict[str, ConfigValue] = {}
    for name, text in overrides.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise ConfigError(f"Unknown topic config name: {name}")
        parsed[name] = key.parse(text)
    return parsed


def validate_topic_configs(overrides: Mapping[str, str], defaults: Mapping[str, ConfigValue]) -> None:
    """Check the overrides of a topic, each for itself and all together with the broker's values.

    Args:
        overrides: in text, by topic config name.
        defaults: what the broker's configs say for those that are not overridden
            (`BrokerConfig.topic_defaults`).

    Raises:
        ConfigError: an unknown name, a bad value, or values that contradict each other.
    """
    values = {**defaults, **parse_topic_configs(overrides)}
    low, high = _number(values, "min.compaction.lag.ms"), _number(values, "max.compaction.lag.ms")
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )
    if values.get("remote.log.delete.on.disable") or values.get("remote.log.copy.disable"):
        raise ConfigError(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under "
            "Zookeeper's mode."
        )
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def _number(values: Mapping[str, ConfigValue], name: str) -> int:
    value = values.get(name)
    if value is None:
        value = TOPIC_CONFIGS[name].parse(TOPIC_CONFIGS[name].default)
    assert isinstance(value, int)
    return value
