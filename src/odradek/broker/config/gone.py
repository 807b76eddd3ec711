"""The rows of broker configs that Kafka 4.3 has no more: still understood, and listed by a broker that is a
release which has them."""

from __future__ import annotations

from odradek.broker.config.rows import CLUSTER_WIDE, READ_ONLY, Row
from odradek.cluster.config_def import HIGH, LOW, MEDIUM, ConfigType, at_least, between, release

_T = ConfigType
_L = 9223372036854775807

GONE: tuple[Row, ...] = (
    ("zookeeper.connect", _T.STRING, None, HIGH, None, READ_ONLY),
    ("zookeeper.session.timeout.ms", _T.INT, "18000", HIGH, None, READ_ONLY),
    ("zookeeper.connection.timeout.ms", _T.INT, None, HIGH, None, READ_ONLY),
    ("zookeeper.set.acl", _T.BOOLEAN, "false", HIGH, None, READ_ONLY),
    ("zookeeper.max.in.flight.requests", _T.INT, "10", HIGH, at_least(1), READ_ONLY),
    ("zookeeper.ssl.client.enable", _T.BOOLEAN, "false", MEDIUM, None, READ_ONLY),
    ("zookeeper.clientCnxnSocket", _T.STRING, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.keystore.location", _T.STRING, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.keystore.password", _T.PASSWORD, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.keystore.type", _T.STRING, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.truststore.location", _T.STRING, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.truststore.password", _T.PASSWORD, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.truststore.type", _T.STRING, None, MEDIUM, None, READ_ONLY),
    ("zookeeper.ssl.protocol", _T.STRING, "TLSv1.2", LOW, None, READ_ONLY),
    ("zookeeper.ssl.enabled.protocols", _T.LIST, None, LOW, None, READ_ONLY),
    ("zookeeper.ssl.cipher.suites", _T.LIST, None, LOW, None, READ_ONLY),
    ("zookeeper.ssl.endpoint.identification.algorithm", _T.STRING, "HTTPS", LOW, None, READ_ONLY),
    ("zookeeper.ssl.crl.enable", _T.BOOLEAN, "false", LOW, None, READ_ONLY),
    ("zookeeper.ssl.ocsp.enable", _T.BOOLEAN, "false", LOW, None, READ_ONLY),
    ("broker.id.generation.enable", _T.BOOLEAN, "true", MEDIUM, None, READ_ONLY),
    ("reserved.broker.max.id", _T.INT, "1000", MEDIUM, at_least(0), READ_ONLY),
    ("controlled.shutdown.max.retries", _T.INT, "3", MEDIUM, None, READ_ONLY),
    ("controlled.shutdown.retry.backoff.ms", _T.LONG, "5000", MEDIUM, None, READ_ONLY),
    ("metadata.log.segment.min.bytes", _T.INT, "8388608", HIGH, at_least(12), READ_ONLY),
    ("zookeeper.metadata.migration.enable", _T.BOOLEAN, "false", HIGH, None, READ_ONLY),
    ("eligible.leader.replicas.enable", _T.BOOLEAN, "false", HIGH, None, READ_ONLY),
    ("zookeeper.metadata.migration.min.batch.size", _T.INT, "200", MEDIUM, at_least(1), READ_ONLY),
    ("control.plane.listener.name", _T.STRING, None, HIGH, None, READ_ONLY),
    ("leader.imbalance.per.broker.percentage", _T.INT, "10", HIGH, None, READ_ONLY),
    ("inter.broker.protocol.version", _T.STRING, "3.9-IV0", MEDIUM, release, READ_ONLY),
    ("group.coordinator.new.enable", _T.BOOLEAN, "false", MEDIUM, None, READ_ONLY),
    ("offsets.commit.required.acks", _T.SHORT, "-1", HIGH, None, READ_ONLY),
    ("log.message.format.version", _T.STRING, "3.0-IV1", MEDIUM, release, READ_ONLY),
    ("log.message.timestamp.difference.max.ms", _T.LONG, str(_L), MEDIUM, at_least(0), CLUSTER_WIDE),
    ("log.message.downconversion.enable", _T.BOOLEAN, "true", LOW, None, CLUSTER_WIDE),
    ("group.share.enable", _T.BOOLEAN, "false", MEDIUM, None, READ_ONLY),
    ("group.share.max.groups", _T.SHORT, "10", MEDIUM, between(1, 100), READ_ONLY),
    ("auto.include.jmx.reporter", _T.BOOLEAN, "true", LOW, None, READ_ONLY),
    ("delegation.token.master.key", _T.PASSWORD, None, MEDIUM, None, READ_ONLY),
    ("password.encoder.secret", _T.PASSWORD, None, MEDIUM, None, READ_ONLY),
    ("password.encoder.old.secret", _T.PASSWORD, None, MEDIUM, None, READ_ONLY),
    ("password.encoder.keyfactory.algorithm", _T.STRING, None, LOW, None, READ_ONLY),
    ("password.encoder.cipher.algorithm", _T.STRING, "AES/CBC/PKCS5Padding", LOW, None, READ_ONLY),
    ("password.encoder.key.length", _T.INT, "128", LOW, at_least(8), READ_ONLY),
    ("password.encoder.iterations", _T.INT, "4096", LOW, at_least(1024), READ_ONLY),
    ("host.name", _T.STRING, "", HIGH, None, READ_ONLY),
    ("port", _T.INT, "9092", HIGH, None, READ_ONLY),
    ("advertised.host.name", _T.STRING, None, HIGH, None, READ_ONLY),
    ("advertised.port", _T.INT, None, HIGH, None, READ_ONLY),
    ("quota.producer.default", _T.LONG, str(_L), HIGH, at_least(1), READ_ONLY),
    ("quota.consumer.default", _T.LONG, str(_L), HIGH, at_least(1), READ_ONLY),
    ("zookeeper.sync.time.ms", _T.INT, "2000", LOW, None, READ_ONLY),
)
