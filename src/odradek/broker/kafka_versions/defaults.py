"""Config defaults that releases had otherwise than 4.3, whose defaults are ours.

Sources: what brokers of the releases answer to DescribeConfigs (`tests/golden/configs`); before 0.11
`KafkaConfig.scala` of each release, for what a client can notice.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.kafka_versions.release import Release, names

_LONGEST = "9223372036854775807"

_BEFORE: Mapping[str, tuple[tuple[str, str | None], ...]] = {
    # name: (before this release, that default), the oldest first; None for no value
    "delete.topic.enable": (("1.0", "false"),),
    "fetch.max.bytes": (("2.5", "2147483647"),),
    "group.consumer.assignors": (
        (
            "4.0",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor,"
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ),
    ),
    "group.consumer.migration.policy": (("4.0", "disabled"),),
    "group.coordinator.append.linger.ms": (("4.0", "10"), ("4.2", "5")),
    "group.coordinator.rebalance.protocols": (("4.0", "classic"), ("4.1", "classic,consumer")),
    "group.coordinator.threads": (("4.0", "1"),),
    "group.initial.rebalance.delay.ms": (("0.11", "0"),),
    "group.max.session.timeout.ms": (("0.10.0", "30000"), ("2.3", "300000")),
    "group.share.partition.max.record.locks": (("4.1", "200"),),
    "listener.security.protocol.map": (
        ("3.8", "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"),
    ),
    "listeners": (("3.0", None),),
    "log.cleaner.enable": (("0.9", "false"),),
    "log.message.timestamp.after.max.ms": (("4.0", _LONGEST),),
    "message.max.bytes": (("2.5", "1000012"),),
    "metadata.max.retention.bytes": (("3.4", "-1"),),
    "metric.reporters": (("4.0", ""),),
    "node.id": (("4.0", "-1"),),
    "num.recovery.threads.per.data.dir": (("4.0", "1"),),
    "offsets.retention.minutes": (("2.0", "1440"),),
    "principal.builder.class": (
        ("1.0", "org.apache.kafka.common.security.auth.DefaultPrincipalBuilder"),
        ("3.0", None),
    ),
    "process.roles": (("4.0", ""),),
    "remote.log.manager.copier.thread.pool.size": (("4.0", "-1"),),
    "remote.log.manager.expiration.thread.pool.size": (("4.0", "-1"),),
    "remote.log.manager.thread.pool.size": (("4.0", "10"),),
    "replica.lag.time.max.ms": (("2.5", "10000"),),
    "sasl.oauthbearer.expected.audience": (("4.2", None),),
    "share.coordinator.append.linger.ms": (("4.1", "10"), ("4.2", "5")),
    "socket.connection.setup.timeout.max.ms": (("2.8", "127000"),),
    "ssl.cipher.suites": (("1.1", None),),
    "ssl.enabled.protocols": (("2.5", "TLSv1.2,TLSv1.1,TLSv1"), ("2.6", "TLSv1.2")),
    "ssl.endpoint.identification.algorithm": (("2.0", None),),
    "ssl.protocol": (("2.5", "TLS"), ("2.6", "TLSv1.2")),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (("2.5", "60000"),),
    "unclean.leader.election.enable": (("0.11", "true"),),
    "zookeeper.session.timeout.ms": (("2.5", "6000"),),
}

_PROTOCOL = (
    "0.8.2 0.9.0 0.10.0-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV1 2.1-IV2 2.2-IV1 2.3-IV1 "
    "2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV2 2.8-IV1 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV4 "
    "3.8-IV0 3.9-IV0"
)
"""`inter.broker.protocol.version`, and before 3.0 `log.message.format.version`: the release's own. What is
from before 0.10 stores messages of version 0, 0.10 of version 1."""


def defaults_of(release: Release) -> dict[str, str | None]:
    """Config names and texts where a release's default is not ours."""
    defaults: dict[str, str | None] = {}
    for name, steps in _BEFORE.items():
        reached = [text for before, text in steps if not release.at_least(before)]
        if reached:
            defaults[name] = reached[0]
    # The list ends with 3.9: later releases have neither config.
    protocol = dict(zip(names(), _PROTOCOL.split(), strict=False)).get(release.name)
    if protocol is not None:
        defaults["inter.broker.protocol.version"] = protocol
        if not release.at_least("3.0"):
            defaults["log.message.format.version"] = protocol
    return defaults
