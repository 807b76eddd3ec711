"""The configs that this release acts upon. All others are read, checked, kept and shown, and change nothing.

A broker warns of those that are given and have no effect, at its start and while it runs;
docs/configuration.md marks those that have one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from odradek.broker.config.names import base_name, find_key
from odradek.cluster.configs.topic_config import SYNONYMS, TOPIC_CONFIGS

logger = logging.getLogger("odradek.broker.config")

EFFECTIVE_TOPIC_CONFIGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
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

# The brokers' defaults of these: `log.retention.ms` has an effect because `retention.ms` has.
_OF_TOPICS = frozenset(
    broker_name
    for name, synonyms in SYNONYMS.items()
    if name in EFFECTIVE_TOPIC_CONFIGS
    for broker_name, _factor in synonyms
)

EFFECTIVE_BROKER_CONFIGS = _OF_TOPICS | {
    "add.partitions.to.txn.retry.backoff.max.ms",
    "add.partitions.to.txn.retry.backoff.ms",
    "advertised.host.name",
    "advertised.listeners",
    "advertised.port",
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "authorizer.class.name",
    "auto.create.topics.enable",
    "auto.leader.rebalance.enable",
    "broker.id",
    "broker.id.generation.enable",
    "broker.rack",
    "connection.failed.authentication.delay.ms",
    "config.providers",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "controlled.shutdown.enable",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "control.plane.listener.name",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "controller.socket.timeout.ms",
    "default.replication.factor",
    "delegation.token.expiry.check.interval.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.master.key",
    "delegation.token.max.lifetime.ms",
    "delegation.token.secret.key",
    "delete.topic.enable",
    "fetch.max.bytes",
    "follower.replication.throttled.rate",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "host.name",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
    "leader.replication.throttled.rate",
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
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "node.id",
    "num.network.threads",
    "num.partitions",
    "num.replica.alter.log.dirs.threads",
    "num.replica.fetchers",
    "odradek.authentication.timeout.ms",
    "odradek.batch.unpacked.max.bytes",
    "odradek.event.loop.stall.ms",
    "odradek.group.coordinator.max.bytes",
    "odradek.group.max.bytes",
    "odradek.group.member.max.bytes",
    "odradek.insecure",
    "odradek.jaas.config.file",
    "odradek.kafka.version",
    "odradek.metrics.host",
    "odradek.metrics.port",
    "odradek.producer.id.creation.rate",
    "odradek.producer.ids.max",
    "odradek.producer.ids.per.partition.max",
    "odradek.refuse.damaged.logs",
    "odradek.store.socket",
    "odradek.unpacked.bytes.per.second",
    "odradek.zookeeper.auth",
    "odradek.zookeeper.password",
    "odradek.zookeeper.service.name",
    "odradek.zookeeper.username",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.compression.codec",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "port",
    "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms",
    "queued.max.request.bytes",
    "quota.consumer.default",
    "quota.producer.default",
    "quota.window.num",
    "quota.window.size.seconds",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.min.bytes",
    "replica.fetch.response.max.bytes",
    "replica.fetch.wait.max.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    "replica.selector.class",
    "replica.socket.timeout.ms",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "request.timeout.ms",
    "reserved.broker.max.id",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.login.read.timeout.ms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
    "security.inter.broker.protocol",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "telemetry.max.bytes",
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
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.session.timeout.ms",
    "zookeeper.set.acl",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.ocsp.enable",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
}
"""Broker configs that change what happens. `tests/broker/config/test_configuration_doc.py` finds those that
nothing reads."""

# TLS and logins (KIP-103), the age of a login (KIP-368), the number and the rate of connections (KIP-402,
# KIP-612).
EFFECTIVE_FOR_LISTENERS = frozenset(
    name
    for name in EFFECTIVE_BROKER_CONFIGS
    if name.startswith(("ssl.", "sasl."))
    or name in ("connections.max.reauth.ms", "max.connections", "max.connection.creation.rate")
)
"""Those that may stand under a listener's prefix, for it alone."""


def brokers_without_effect(names: Iterable[str]) -> list[str]:
    """Return those of a broker's configs that Kafka knows and that change nothing here, sorted."""
    # Names that Kafka does not know are told of elsewhere (`BrokerConfig.unknown`).
    known_names = (name for name in names if find_key(name) is not None)
    return sorted(
        name
        for name in known_names
        if name not in EFFECTIVE_BROKER_CONFIGS
        and not (base_name(name) != name and base_name(name) in EFFECTIVE_FOR_LISTENERS)
    )


def topics_without_effect(names: Iterable[str]) -> list[str]:
    """Return those of a topic's configs that Kafka knows and that change nothing here, sorted."""
    return sorted(name for name in names if name in TOPIC_CONFIGS and name not in EFFECTIVE_TOPIC_CONFIGS)


def warn_of_change(entity: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Log the configs that somebody has set to another value while the broker runs, and that change nothing.

    Args:
        entity: what they are configs of, as paths in the metadata store name it: `topics/clicks`,
            `brokers/0`, `brokers/<default>`.
        before: its configs until now.
        after: its configs from now on.
    """
    changed = [name for name, value in after.items() if before.get(name) != value]
    # Names alone are logged: a value may be a password.
    find = topics_without_effect if entity.startswith("topics/") else brokers_without_effect
    for name in find(changed):
        logger.warning("config has no effect here name=%s of=%s", name, entity)
