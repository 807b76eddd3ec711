"""The table of topic configs: Kafka's names, types, defaults, limits, and the broker configs behind each.

A topic's value of a config is, in this order: the topic's own override, the first of the broker configs in
`SYNONYMS` that is set, the default. Each config is declared once, in `_TABLE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from odradek.cluster.configs.config_def import (
    LOW,
    MEDIUM,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Validator,
    at_least,
    between,
    gzip_level,
    one_of,
    release,
    throttled_replicas,
)

_T = ConfigType
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000


class _Declared(NamedTuple):
    """One topic config: what it is, the broker configs behind it (see `SYNONYMS`), what it is for."""

    key: ConfigKey
    synonyms: tuple[tuple[str, int], ...]
    doc: str


def _config(
    name: str,
    config_type: ConfigType,
    default: str,
    importance: str,
    validator: Validator | None = None,
    *,
    broker: tuple[tuple[str, int], ...] = (),
    doc: str,
) -> _Declared:
    return _Declared(ConfigKey(name, config_type, default, importance, validator), broker, doc)


# In the order of Kafka's `LogConfig`, in which a broker lists them. Values are admitted that any release has
# admitted; docs/decisions/configs-are-those-of-4.3.md says why.
_TABLE = (
    _config(
        "segment.bytes",
        _T.INT,
        "1073741824",
        MEDIUM,
        # An empty record of magic 0 (`LegacyRecord.RECORD_OVERHEAD_V0`); 1 MiB since 4.0 (KIP-1030).
        at_least(14),
        broker=(("log.segment.bytes", 1),),
        doc="Size in bytes at which a log starts a new segment file.",
    ),
    _config(
        "segment.ms",
        _T.LONG,
        "604800000",
        MEDIUM,
        at_least(1),
        broker=(("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
        doc="Age in ms at which a log starts a new segment even though it is not full.",
    ),
    _config(
        "segment.jitter.ms",
        _T.LONG,
        "0",
        MEDIUM,
        at_least(0),
        broker=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
        doc="Up to how many ms earlier, at random, a segment is closed, so that not all close at once.",
    ),
    _config(
        "segment.index.bytes",
        _T.INT,
        "10485760",
        MEDIUM,
        at_least(4),
        broker=(("log.index.size.max.bytes", 1),),
        doc="Size in bytes that an index file may reach; a full index starts a new segment.",
    ),
    _config(
        "flush.messages",
        _T.LONG,
        "9223372036854775807",
        MEDIUM,
        at_least(1),
        broker=(("log.flush.interval.messages", 1),),
        doc="After how many records a log is synced to disk; usually left to the operating system.",
    ),
    _config(
        "flush.ms",
        _T.LONG,
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        # No log can be synced more often than somebody looks whether one has to be.
        broker=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        doc="After how many ms a log is synced to disk; usually left to the operating system.",
    ),
    _config(
        "retention.bytes",
        _T.LONG,
        "-1",
        MEDIUM,
        # Not checked, as in Kafka: any negative number is no limit.
        broker=(("log.retention.bytes", 1),),
        doc="Size in bytes above which a partition's oldest segments are deleted; -1 for no limit.",
    ),
    _config(
        "retention.ms",
        _T.LONG,
        "604800000",
        MEDIUM,
        at_least(-1),
        broker=(
            ("log.retention.ms", 1),
            ("log.retention.minutes", _MINUTE_MS),
            ("log.retention.hours", _HOUR_MS),
        ),
        doc="Age in ms above which a partition's segments are deleted; -1 for no limit.",
    ),
    _config(
        "max.message.bytes",
        _T.INT,
        # 1 MiB and the offset and size in front of a batch (`Records.LOG_OVERHEAD`, 12 bytes).
        "1048588",
        MEDIUM,
        at_least(0),
        broker=(("message.max.bytes", 1),),
        doc="Largest record batch in bytes, as it comes in, that the topic takes.",
    ),
    # Of 4.4, and not acted upon: a batch is bounded as a whole (docs/decisions/configs-are-those-of-4.3.md).
    _config(
        "max.decompressed.message.bytes",
        _T.INT,
        "2147483639",
        MEDIUM,
        between(1, 2147483639),
        broker=(("max.decompressed.message.bytes", 1),),
        doc="Largest record in bytes that a compressed batch may hold.",
    ),
    _config(
        "index.interval.bytes",
        _T.INT,
        "4096",
        MEDIUM,
        at_least(0),
        broker=(("log.index.interval.bytes", 1),),
        doc="After how many bytes of records the offset index gets another entry.",
    ),
    _config(
        "delete.retention.ms",
        _T.LONG,
        "86400000",
        MEDIUM,
        at_least(0),
        broker=(("log.cleaner.delete.retention.ms", 1),),
        doc="How long a compacted topic keeps the markers of deleted keys, in ms.",
    ),
    _config(
        "min.compaction.lag.ms",
        _T.LONG,
        "0",
        MEDIUM,
        at_least(0),
        broker=(("log.cleaner.min.compaction.lag.ms", 1),),
        doc="How long a record stays out of compaction at least, in ms.",
    ),
    _config(
        "max.compaction.lag.ms",
        _T.LONG,
        "9223372036854775807",
        MEDIUM,
        at_least(1),
        broker=(("log.cleaner.max.compaction.lag.ms", 1),),
        doc="How long a record may stay out of compaction at most, in ms.",
    ),
    _config(
        "file.delete.delay.ms",
        _T.LONG,
        "60000",
        MEDIUM,
        at_least(0),
        broker=(("log.segment.delete.delay.ms", 1),),
        doc="How long a deleted segment's files stay on disk before they are removed, in ms.",
    ),
    _config(
        "min.cleanable.dirty.ratio",
        _T.DOUBLE,
        "0.5",
        MEDIUM,
        between(0, 1),
        broker=(("log.cleaner.min.cleanable.ratio", 1),),
        doc="Share of a log that must be uncompacted before the cleaner takes it up.",
    ),
    _config(
        "cleanup.policy",
        _T.LIST,
        "delete",
        MEDIUM,
        # A list, as both may be wanted (KIP-71).
        one_of("compact", "delete"),
        broker=(("log.cleanup.policy", 1),),
        doc="What happens to old segments: delete them, compact them by key, or both.",
    ),
    _config(
        "unclean.leader.election.enable",
        _T.BOOLEAN,
        # Since 0.11 (KIP-106): records are not to be lost unless somebody wants that.
        "false",
        MEDIUM,
        broker=(("unclean.leader.election.enable", 1),),
        doc="Whether a replica that is not in sync may lead, at the price of lost records.",
    ),
    _config(
        "min.insync.replicas",
        _T.INT,
        "1",
        MEDIUM,
        at_least(1),
        broker=(("min.insync.replicas", 1),),
        doc="How many replicas must be in sync for a write with acks=all to be taken.",
    ),
    _config(
        "compression.type",
        _T.STRING,
        "producer",
        MEDIUM,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker=(("compression.type", 1),),
        doc="Codec in which the log is kept; `producer` keeps what the producer sent.",
    ),
    # The three levels are KIP-390's, with the limits of Kafka's `CompressionType`.
    _config(
        "compression.gzip.level",
        _T.INT,
        "-1",
        MEDIUM,
        gzip_level,
        broker=(("compression.gzip.level", 1),),
        doc="Level used where the broker compresses with gzip; -1 for the codec's own default.",
    ),
    _config(
        "compression.lz4.level",
        _T.INT,
        "9",
        MEDIUM,
        between(1, 17),
        broker=(("compression.lz4.level", 1),),
        doc="Level used where the broker compresses with lz4.",
    ),
    _config(
        "compression.zstd.level",
        _T.INT,
        "3",
        MEDIUM,
        between(-131072, 22),
        broker=(("compression.zstd.level", 1),),
        doc="Level used where the broker compresses with zstd.",
    ),
    _config(
        "preallocate",
        _T.BOOLEAN,
        "false",
        MEDIUM,
        broker=(("log.preallocate", 1),),
        doc="Whether a new segment's file gets its full size at once.",
    ),
    _config(
        "message.format.version",
        _T.STRING,
        # Since KIP-724 every log is of magic 2, and a topic that says otherwise is not refused.
        "3.0-IV1",
        MEDIUM,
        release,
        broker=(("log.message.format.version", 1),),
        doc="Record format of old releases; without effect since 3.0.",
    ),
    _config(
        "message.timestamp.type",
        _T.STRING,
        "CreateTime",
        MEDIUM,
        one_of("CreateTime", "LogAppendTime"),
        broker=(("log.message.timestamp.type", 1),),
        doc="Whether records keep the producer's time or get the time of the append.",
    ),
    # Divided into `before` and `after` by KIP-937; 4.0 has no more than those.
    _config(
        "message.timestamp.difference.max.ms",
        _T.LONG,
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        broker=(("log.message.timestamp.difference.max.ms", 1),),
        doc="How far a record's time may be from the broker's, in ms; replaced by the two configs for "
        "before and after.",
    ),
    _config(
        "message.timestamp.before.max.ms",
        _T.LONG,
        "9223372036854775807",
        MEDIUM,
        at_least(0),
        broker=(("log.message.timestamp.before.max.ms", 1),),
        doc="How far in the past a record's time may be, in ms, with CreateTime.",
    ),
    _config(
        "message.timestamp.after.max.ms",
        _T.LONG,
        # An hour since 4.0 (KIP-1030), before that without a limit.
        "3600000",
        MEDIUM,
        at_least(0),
        broker=(("log.message.timestamp.after.max.ms", 1),),
        doc="How far in the future a record's time may be, in ms, with CreateTime.",
    ),
    # No broker config stands behind these two: tools set them while a reassignment runs (KIP-73).
    _config(
        "leader.replication.throttled.replicas",
        _T.LIST,
        "",
        MEDIUM,
        throttled_replicas,
        doc="Replicas whose outgoing replication is limited: partition:broker pairs, or * for all.",
    ),
    _config(
        "follower.replication.throttled.replicas",
        _T.LIST,
        "",
        MEDIUM,
        throttled_replicas,
        doc="Replicas whose incoming replication is limited: partition:broker pairs, or * for all.",
    ),
    # KIP-283; 4.0 has it no more, as no client there knows older formats (KIP-896).
    _config(
        "message.downconversion.enable",
        _T.BOOLEAN,
        "true",
        LOW,
        broker=(("log.message.downconversion.enable", 1),),
        doc="Whether records are converted for consumers that know only older formats.",
    ),
    # What follows is listed, since tools look for it, although there is no remote storage here (KIP-405,
    # KIP-950, KIP-1241) and there are no dead-letter queues of share groups (KIP-1191).
    _config(
        "remote.storage.enable",
        _T.BOOLEAN,
        "false",
        MEDIUM,
        doc="Whether old segments move to remote storage.",
    ),
    _config(
        "local.retention.ms",
        _T.LONG,
        "-2",
        MEDIUM,
        at_least(-2),
        broker=(("log.local.retention.ms", 1),),
        doc="How long segments stay local that are in remote storage, in ms; -2 follows retention.ms.",
    ),
    _config(
        "local.retention.bytes",
        _T.LONG,
        "-2",
        MEDIUM,
        at_least(-2),
        broker=(("log.local.retention.bytes", 1),),
        doc="How much stays local of what is in remote storage, in bytes; -2 follows retention.bytes.",
    ),
    _config(
        "remote.log.copy.disable",
        _T.BOOLEAN,
        "false",
        MEDIUM,
        doc="Whether copying to remote storage stops while what is there stays readable.",
    ),
    _config(
        "remote.copy.lag.ms",
        _T.LONG,
        "0",
        MEDIUM,
        at_least(-1),
        broker=(("log.remote.copy.lag.ms", 1),),
        doc="How long a full segment waits before it is copied to remote storage, in ms; "
        "-1 for as long as it is kept locally.",
    ),
    _config(
        "remote.copy.lag.bytes",
        _T.LONG,
        "-1",
        MEDIUM,
        at_least(-1),
        broker=(("log.remote.copy.lag.bytes", 1),),
        doc="How many bytes must be behind a segment before it is copied to remote storage; "
        "-1 for as many as are kept locally.",
    ),
    _config(
        "remote.log.delete.on.disable",
        _T.BOOLEAN,
        "false",
        MEDIUM,
        doc="Whether switching remote storage off deletes what is there.",
    ),
    _config(
        "errors.deadletterqueue.group.enable",
        _T.BOOLEAN,
        "false",
        MEDIUM,
        doc="Whether share groups may put rejected records into the topic.",
    ),
)

TOPIC_CONFIGS: Mapping[str, ConfigKey] = {declared.key.name: declared.key for declared in _TABLE}
"""All topic configs by name."""

SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    declared.key.name: declared.synonyms for declared in _TABLE if declared.synonyms
}
"""Per topic config the broker configs that stand in for it, the first that is set winning, each with the
factor that makes its unit the topic config's. Configs that are not here have no broker config. Kafka:
`ServerTopicConfigSynonyms`."""

TOPIC_DOCS: Mapping[str, str] = {declared.key.name: declared.doc for declared in _TABLE}
"""Per topic config a sentence on what it is for; DescribeConfigs and docs/configuration.md show it."""


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
    # The messages are those of Kafka 3.9's `LogConfig.validate`, with ZooKeeper.
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
    # Kafka's answer of a broker without `remote.log.storage.system.enable`.
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
