"""Which configs this release acts upon. All others are read, checked, kept and shown, and change nothing.

A broker warns of those that are given and have no effect; docs/configuration.md marks those that have one.
"""

from __future__ import annotations

from odradek.cluster.topic_config import SYNONYMS

EFFECTIVE_TOPIC_CONFIGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
"""Topic configs that change what happens."""

_OF_TOPICS = frozenset(
    broker_name
    for name, synonyms in SYNONYMS.items()
    if name in EFFECTIVE_TOPIC_CONFIGS
    for broker_name, _factor in synonyms
)

EFFECTIVE_BROKER_CONFIGS = _OF_TOPICS | {
    "advertised.host.name",
    "advertised.listeners",
    "advertised.port",
    "auto.create.topics.enable",
    "broker.id",
    "broker.rack",
    "connections.max.idle.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "host.name",
    "inter.broker.protocol.version",
    "listener.security.protocol.map",
    "listeners",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.enable",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    "log.dir",
    "log.dirs",
    "log.flush.scheduler.interval.ms",
    "log.retention.check.interval.ms",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.incremental.fetch.session.cache.slots",
    "node.id",
    "num.network.threads",
    "num.partitions",
    "num.replica.alter.log.dirs.threads",
    "odradek.event.loop.stall.ms",
    "odradek.group.coordinator.max.bytes",
    "odradek.group.max.bytes",
    "odradek.group.member.max.bytes",
    "odradek.insecure",
    "odradek.kafka.version",
    "odradek.producer.id.creation.rate",
    "odradek.producer.ids.max",
    "odradek.producer.ids.per.partition.max",
    "odradek.refuse.damaged.logs",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.compression.codec",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "port",
    "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms",
    "queued.max.request.bytes",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    "request.timeout.ms",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.max.timeout.ms",
    "transaction.partition.verification.enable",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.segment.bytes",
    "transaction.two.phase.commit.enable",
    "transactional.id.expiration.ms",
}
"""Broker configs that change what happens."""
