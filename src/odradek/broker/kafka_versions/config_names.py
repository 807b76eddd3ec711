"""The configs that each release has, of those in our tables: for DescribeConfigs, so from 0.11 on.

Source: what brokers of the releases answer to DescribeConfigs (`tests/golden/configs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.kafka_versions.release import Release

BROKER_SINCE: Mapping[str, str] = {
    "1.0": "queued.max.request.bytes",
    "1.1": (
        "alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds "
        "delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms "
        "delegation.token.master.key delegation.token.max.lifetime.ms "
        "max.incremental.fetch.session.cache.slots num.replica.alter.log.dirs.threads "
        "password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length "
        "password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret "
        "sasl.jaas.config zookeeper.max.in.flight.requests"
    ),
    "2.0": (
        "client.quota.callback.class log.message.downconversion.enable sasl.client.callback.handler.class "
        "sasl.login.callback.handler.class sasl.login.class sasl.login.refresh.buffer.seconds "
        "sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
        "sasl.login.refresh.window.jitter sasl.server.callback.handler.class"
    ),
    "2.1": (
        "connection.failed.authentication.delay.ms kafka.metrics.polling.interval.secs "
        "kafka.metrics.reporters"
    ),
    "2.2": (
        "connections.max.reauth.ms control.plane.listener.name group.max.size ssl.principal.mapping.rules"
    ),
    "2.3": "log.cleaner.max.compaction.lag.ms max.connections",
    "2.4": "replica.selector.class security.providers",
    "2.5": (
        "fetch.max.bytes zookeeper.clientCnxnSocket zookeeper.ssl.cipher.suites "
        "zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols "
        "zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location "
        "zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable "
        "zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password "
        "zookeeper.ssl.truststore.type"
    ),
    "2.6": "ssl.engine.factory.class",
    "2.7": (
        "controller.quota.window.num controller.quota.window.size.seconds max.connection.creation.rate "
        "socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms "
        "ssl.keystore.certificate.chain ssl.keystore.key ssl.truststore.certificates"
    ),
    "2.8": "delegation.token.secret.key sasl.server.max.receive.size",
    "3.0": (
        "broker.heartbeat.interval.ms broker.session.timeout.ms controller.listener.names "
        "controller.quorum.append.linger.ms controller.quorum.election.backoff.max.ms "
        "controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms "
        "controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters "
        "initial.broker.registration.timeout.ms metadata.log.dir "
        "metadata.log.max.record.bytes.between.snapshots metadata.log.segment.bytes "
        "metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms node.id "
        "process.roles sasl.mechanism.controller.protocol"
    ),
    "3.1": (
        "sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms "
        "sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds "
        "sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
        "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url "
        "sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name "
        "sasl.oauthbearer.token.endpoint.url"
    ),
    "3.2": "socket.listen.backlog.size",
    "3.3": "early.start.listeners metadata.max.idle.interval.ms",
    "3.4": (
        "auto.include.jmx.reporter metadata.log.max.snapshot.interval.ms producer.id.expiration.ms "
        "zookeeper.metadata.migration.enable"
    ),
    "3.6": (
        "log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms "
        "log.message.timestamp.before.max.ms remote.log.manager.task.interval.ms "
        "remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes "
        "remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path "
        "remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name "
        "remote.log.reader.max.pending.tasks remote.log.reader.threads "
        "remote.log.storage.manager.class.name remote.log.storage.manager.class.path "
        "remote.log.storage.manager.impl.prefix remote.log.storage.system.enable "
        "transaction.partition.verification.enable"
    ),
    "3.7": (
        "eligible.leader.replicas.enable group.consumer.assignors group.consumer.heartbeat.interval.ms "
        "group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms "
        "group.consumer.max.size group.consumer.min.heartbeat.interval.ms "
        "group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms "
        "group.coordinator.rebalance.protocols group.coordinator.threads "
        "remote.log.index.file.cache.total.size.bytes ssl.allow.dn.changes ssl.allow.san.changes "
        "telemetry.max.bytes"
    ),
    "3.8": (
        "compression.gzip.level compression.lz4.level compression.zstd.level "
        "group.consumer.migration.policy group.coordinator.append.linger.ms log.dir.failure.timeout.ms "
        "max.request.partition.size.limit remote.fetch.max.wait.ms "
        "remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num "
        "remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.max.bytes.per.second "
        "remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds"
    ),
    "3.9": (
        "controller.quorum.bootstrap.servers group.share.delivery.count.limit "
        "group.share.heartbeat.interval.ms group.share.max.groups group.share.max.heartbeat.interval.ms "
        "group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.size "
        "group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms "
        "group.share.min.session.timeout.ms group.share.partition.max.record.locks "
        "group.share.record.lock.duration.ms group.share.session.timeout.ms "
        "remote.log.manager.copier.thread.pool.size remote.log.manager.expiration.thread.pool.size"
    ),
    "4.0": (
        "add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms "
        "remote.list.offsets.request.timeout.ms share.coordinator.append.linger.ms "
        "share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot "
        "share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr "
        "share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor "
        "share.coordinator.state.topic.segment.bytes share.coordinator.threads "
        "share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests"
    ),
    "4.1": (
        "group.share.assignors group.share.max.share.sessions group.streams.heartbeat.interval.ms "
        "group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms "
        "group.streams.max.size group.streams.max.standby.replicas "
        "group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms "
        "group.streams.num.standby.replicas group.streams.session.timeout.ms "
        "sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud "
        "sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss "
        "sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds "
        "sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file "
        "sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase "
        "sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id "
        "sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class "
        "sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope transaction.two.phase.commit.enable"
    ),
    "4.2": (
        "config.providers controller.quorum.auto.join.enable group.streams.initial.rebalance.delay.ms "
        "remote.log.manager.follower.thread.pool.size"
    ),
    "4.3": (
        "controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes cordoned.log.dirs "
        "follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms "
        "group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms "
        "group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes "
        "group.share.assignment.interval.ms group.share.max.assignment.interval.ms "
        "group.share.max.delivery.count.limit group.share.max.partition.max.record.locks "
        "group.share.min.assignment.interval.ms group.share.min.delivery.count.limit "
        "group.share.min.partition.max.record.locks group.streams.assignment.interval.ms "
        "group.streams.max.assignment.interval.ms group.streams.min.assignment.interval.ms "
        "share.coordinator.cached.buffer.max.bytes"
    ),
    "4.4": (
        "errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix "
        "group.streams.assignors group.streams.rack.aware.assignment.tags "
        "group.streams.topology.description.plugin.class log.remote.copy.lag.bytes log.remote.copy.lag.ms "
        "max.decompressed.message.bytes sasl.oauthbearer.allow.unverified.audience "
        "sasl.oauthbearer.allow.unverified.issuer"
    ),
}
"""Broker configs by the release that brought them."""

BROKER_GONE: Mapping[str, str] = {
    "3.0": (
        "advertised.host.name advertised.port host.name port quota.consumer.default quota.producer.default"
    ),
    "3.2": "zookeeper.sync.time.ms",
    "4.0": (
        "auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name "
        "controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms delegation.token.master.key "
        "eligible.leader.replicas.enable inter.broker.protocol.version "
        "leader.imbalance.per.broker.percentage log.message.downconversion.enable "
        "log.message.format.version log.message.timestamp.difference.max.ms offsets.commit.required.acks "
        "password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length "
        "password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret "
        "reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect "
        "zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests "
        "zookeeper.metadata.migration.enable zookeeper.session.timeout.ms zookeeper.set.acl "
        "zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable zookeeper.ssl.crl.enable "
        "zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm "
        "zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type "
        "zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location "
        "zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type"
    ),
    "4.1": "group.share.max.groups",
}
"""Broker configs by the release that took them away."""

TOPIC_SINCE: Mapping[str, str] = {
    "2.0": "message.downconversion.enable",
    "2.3": "max.compaction.lag.ms",
    "3.6": (
        "local.retention.bytes local.retention.ms message.timestamp.after.max.ms "
        "message.timestamp.before.max.ms remote.storage.enable"
    ),
    "3.8": "compression.gzip.level compression.lz4.level compression.zstd.level",
    "3.9": "remote.log.copy.disable remote.log.delete.on.disable",
    "4.4": (
        "errors.deadletterqueue.group.enable max.decompressed.message.bytes remote.copy.lag.bytes "
        "remote.copy.lag.ms"
    ),
}
"""Topic configs by the release that brought them."""

TOPIC_GONE: Mapping[str, str] = {
    "4.0": "message.downconversion.enable message.format.version message.timestamp.difference.max.ms",
}
"""Topic configs by the release that took them away."""

_HIDDEN: Mapping[str, str] = {"group.consumer.migration.policy": "3.9"}
"""Configs that one release has and does not show."""


def _by_name(table: Mapping[str, str]) -> Mapping[str, str]:
    return {name: release for release, names in table.items() for name in names.split()}


_BROKER = _by_name(BROKER_SINCE), _by_name(BROKER_GONE)
_TOPIC = _by_name(TOPIC_SINCE), _by_name(TOPIC_GONE)


def knows_broker_config(release: Release, name: str) -> bool:
    """Return whether brokers of a release have that config; true for names that are in no table."""
    return _HIDDEN.get(name) != release.name and _knows(release, name, *_BROKER)


def knows_topic_config(release: Release, name: str) -> bool:
    """Return whether topics of a release have that config; true for names that are in no table."""
    return _knows(release, name, *_TOPIC)


def _knows(release: Release, name: str, since: Mapping[str, str], gone: Mapping[str, str]) -> bool:
    if name in since and not release.at_least(since[name]):
        return False
    return name not in gone or not release.at_least(gone[name])
