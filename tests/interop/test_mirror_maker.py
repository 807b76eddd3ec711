"""MirrorMaker 2 between our broker and a real Kafka, both ways: records, topics' configs, groups' offsets."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop import kafka_peer, programs, row_names, topics_of_kafka
from interop.committed import Committed, committed
from interop.compatibility import Rows
from interop.conftest import OdradekServer
from interop.served import LIMIT_S, Served, until
from interop.tap import OURS
from interop.test_java_releases import needs_java
from odradek import Admin, Consumer, NewTopic, Producer
from ports import free_port
from waiting import gathered

pytestmark = [
    pytest.mark.interop,
    pytest.mark.between,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("kafka_toolchain"),
]

KAFKA = "3.9.1"
PARTITIONS = 2
GROUP = "readers"
WORKER = {
    "exactly.once.source.support": "enabled",
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": "1000",
    "worker.sync.timeout.ms": "30000",
}
"""Of the workers that write to a cluster: these count only with its name before them."""
SETTINGS = {
    "clusters": "ours,kafka",
    "ours->kafka.enabled": "true",
    "kafka->ours.enabled": "true",
    "topics": "of-ours,of-kafka",
    "groups": GROUP,
    "dedicated.mode.enable.internal.rest": "true",
    "replication.factor": "1",
    **{f"{topic}.topic.replication.factor": "1" for topic in ("checkpoints", "heartbeats", "offset-syncs")},
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    # Every offset is translated, not one of a hundred.
    "offset.lag.max": "0",
    "sync.group.offsets.enabled": "true",
    **{
        f"{what}.interval.seconds": "1"
        for what in ("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.group.offsets")
    },
    "emit.checkpoints.interval.seconds": "1",
}
FIRST = [f"first-{i}" for i in range(200)]
SECOND = [f"second-{i}" for i in range(200)]


@pytest.fixture
def kafka(kafka_toolchain: None, tmp_path: Path) -> Iterator[kafka_peer.RealKafka]:
    """The real one."""
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with kafka_peer.RealKafka(KAFKA, tmp_path / "kafka", settings, kraft=True) as running:
        yield running


class Way:
    """From one cluster to the other: what is `of-SOURCE` there is `SOURCE.of-SOURCE` here."""

    def __init__(self, source: str, at: str, to: str) -> None:
        self.source = source
        self.at = at
        self.to = to
        self.topic = f"of-{source}"
        self.mirrored = f"{source}.{self.topic}"
        with Admin(bootstrap_servers=at, client_id=OURS) as admin:
            topic = NewTopic(self.topic, PARTITIONS, 1, configs={"retention.ms": "123456789"})
            topics_of_kafka.create(admin, topic)

    def produce(self, values: list[str]) -> None:
        """Write to the topic that is mirrored."""
        with Producer(bootstrap_servers=self.at, client_id=OURS) as producer:
            sent = [
                producer.send(self.topic, value=value, partition=i % PARTITIONS)
                for i, value in enumerate(values)
            ]
            for future in sent:
                future.result(LIMIT_S)

    def set_retention(self, ms: str) -> None:
        """Change a config of the topic that is mirrored."""
        with Admin(bootstrap_servers=self.at, client_id=OURS) as admin:
            admin.incremental_alter_configs({("topic", self.topic): {"retention.ms": ms}})

    def retention(self) -> str | None:
        """The same config of the mirrored topic; None while there is no such topic."""
        with Admin(bootstrap_servers=self.to, client_id=OURS) as admin:
            if self.mirrored not in admin.list_topics():
                return None
            resource = ("topic", self.mirrored)
            return admin.describe_configs([resource])[resource]["retention.ms"].value

    def offsets(self) -> dict[tuple[str, int], int]:
        """Where the group is in the mirrored topic."""
        with Admin(bootstrap_servers=self.to, client_id=OURS) as admin:
            found = admin.list_group_offsets(GROUP)
        return {tuple(of): at.offset for of, at in found.items() if of.topic == self.mirrored}


def read(bootstrap: str, topic: str, number: int) -> list[str]:
    """What a member of the group reads next, sorted; it commits that."""
    with Consumer(
        topic, bootstrap_servers=bootstrap, client_id=OURS, group_id=GROUP,
        isolation_level="read_committed", auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        what = f"{number} records of {topic}"
        records = gathered(lambda: consumer.poll(timeout_ms=100), number, what, within_s=LIMIT_S)
        consumer.commit()
    return sorted((record.value or b"").decode() for record in records)


def ends(seen: Committed) -> dict[tuple[str, int], int]:
    """The offset after the last record of each partition."""
    return {(record.topic, record.partition): record.offset + 1 for record in seen.records}


@pytest.mark.parametrize("version", [KAFKA, kafka_peer.NEWEST])
def test_both_ways(
    version: str,
    tapped: OdradekServer,
    kafka: kafka_peer.RealKafka,
    tmp_path: Path,
    compatibility_row: Rows,
) -> None:
    row = compatibility_row(*row_names.kafkas_own(f"MirrorMaker 2, with a Kafka {KAFKA}", version))
    needs_java()
    clients = [("org.apache.kafka", "connect-mirror-client", version)]
    translated = programs.java_program("Translated", version, clients)
    clusters = {"ours": tapped.bootstrap_servers, "kafka": kafka.bootstrap_servers}
    settings = {
        **SETTINGS,
        **{f"{name}.{key}": value for name in clusters for key, value in WORKER.items()},
        **{f"{name}.bootstrap.servers": at for name, at in clusters.items()},
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    file = tmp_path / "mm2.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = kafka_peer.java_command(version, main, heap="256m", also=kafka_peer.CONNECT)
    ways = [
        Way(source, clusters[source], clusters[target])
        for source, target in (("ours", "kafka"), ("kafka", "ours"))
    ]
    for way in ways:
        way.produce(FIRST)
        assert read(way.at, way.topic, len(FIRST)) == sorted(FIRST)
    with Served([*command, str(file)], tmp_path / "mm2.log") as mirror, ExitStack() as stack:
        for way in ways:
            until(f"{way.mirrored} is there", lambda way=way: way.retention() == "123456789")
        sights = [stack.enter_context(committed(way.to, way.mirrored, PARTITIONS)) for way in ways]
        for way, seen in zip(ways, sights, strict=True):
            until(f"{way.mirrored} has the first", lambda seen=seen: seen.count() >= len(FIRST))
            until("the group has been put to its end", lambda way=way, seen=seen: way.offsets() == ends(seen))
            noted = translated.run(way.to, way.source, GROUP)
            assert noted == {f"{topic}-{number}": end for (topic, number), end in ends(seen).items()}
        mirror.end(signal.SIGKILL)
        tapped.stop(signal.SIGKILL)
        mirror.start()
        tapped.start()
        for way, seen in zip(ways, sights, strict=True):
            way.produce(SECOND)
            way.set_retention("223456789")
            until(f"{way.mirrored} has the rest", lambda seen=seen: seen.count() >= len(FIRST + SECOND))
            assert sorted(seen.values) == sorted(FIRST + SECOND)
            until("its config has changed, too", lambda way=way: way.retention() == "223456789")
            # A reader who changes over to this cluster goes on where it was in the other.
            assert read(way.to, way.mirrored, len(SECOND)) == sorted(SECOND)
    row.does("produce", "consume", "group", "broker restart")
    row.does("commit, resume", what="offsets of groups, translated")
    row.does("transactions", what="exactly-once source")
    row.does("admin", what="configs of topics")
