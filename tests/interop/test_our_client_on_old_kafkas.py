"""Our clients on real Kafkas of twelve years: what each release can do is done, what it lacks is said."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import odradek
from interop import kafka_peer, members, topics_of_kafka
from interop.conftest import needs_java_for
from interop.releases import ends
from odradek.client import simple
from odradek.client.raw import RawReader, RawWriter
from odradek.records.batch import TimestampType

pytestmark = pytest.mark.interop

VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "1.0.0", "2.0.1", "2.2.2", "3.9.1", kafka_peer.NEWEST)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "num.partitions": "2",
    "delete.topic.enable": "true",
    "log.cleaner.enable": "false",
}
FAST = {"delivery_timeout_ms": 60_000, "request_timeout_ms": 30_000}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Peer:
    """A running Kafka, and what its release can do."""

    def __init__(self, kafka: kafka_peer.RealKafka) -> None:
        self.at = kafka.bootstrap_servers
        self.number = kafka_peer.version_tuple(kafka.version)
        self.magic = 0 if self.number < (0, 10) else 1 if self.number < (0, 11) else 2

    @property
    def codecs(self) -> tuple[str, ...]:
        """The codecs that its brokers take."""
        return CODECS if self.number >= (2, 1) else CODECS[:4]


@pytest.fixture(scope="module", params=ends(VERSIONS, "1.0.0", "2.2.2"))
def peer(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    needs_java_for(request.param)
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with kafka_peer.RealKafka(request.param, directory, SETTINGS) as kafka:
        running = Peer(kafka)
        if running.number >= (0, 9):  # 0.8 names no broker before there is a topic
            with odradek.Admin(bootstrap_servers=running.at) as admin:
                members.until("the broker knows itself", lambda: bool(admin.describe_cluster().nodes))
        yield running


def refused(call: object, api: str) -> bool:
    """Whether a call says that the broker lacks an API, by its name and with the release that brought it."""
    try:
        call()  # type: ignore[operator]
    except odradek.client.errors.UnsupportedByBrokerError as problem:
        assert api in str(problem) and " brought" in str(problem), str(problem)
        return True
    return False


def read(peer: Peer, topic: str, count: int) -> list[odradek.ConsumerRecord]:
    """All records of a topic of two partitions, by partition and offset."""
    got: list[odradek.ConsumerRecord] = []
    with odradek.Consumer(bootstrap_servers=peer.at, auto_offset_reset="earliest") as consumer:
        consumer.assign([odradek.TopicPartition(topic, p) for p in range(2)])

        def enough() -> bool:
            got.extend(consumer.poll(timeout_ms=100))
            return len(got) >= count

        members.until(f"{count} records of {topic}", enough)
    return sorted(got, key=lambda record: (record.partition, record.offset))


def test_every_codec_there_and_back(peer: Peer) -> None:
    values = [b"value-%d" % i * (i % 7) for i in range(100)]
    for codec in CODECS:
        topic = f"codec-{codec}"
        with odradek.Producer(
            bootstrap_servers=peer.at, compression_type=codec, linger_ms=50, **FAST
        ) as producer:
            sent = [
                producer.send(topic, value=value or None, key=b"k", partition=i % 2, timestamp_ms=1_000 + i)
                for i, value in enumerate(values)
            ]
            if codec not in peer.codecs:
                for future in sent:
                    with pytest.raises(odradek.client.errors.UnsupportedByBrokerError, match="zstd"):
                        future.result(30)
                continue
            assert [future.result(30).offset for future in sent] == [i // 2 for i in range(100)]
        got = read(peer, topic, 100)
        assert [(r.partition, r.offset) for r in got] == [(p, o) for p in range(2) for o in range(50)]
        assert [r.value for r in got] == [v or None for p in range(2) for v in values[p::2]]
        if peer.magic == 0:
            assert {(r.timestamp, r.timestamp_type) for r in got} == {(-1, TimestampType.NO_TIMESTAMP_TYPE)}
        else:
            assert [r.timestamp for r in got] == [1_000 + i for p in range(2) for i in range(100)[p::2]]
            assert {r.timestamp_type for r in got} == {TimestampType.CREATE_TIME}


def test_headers_and_idempotence_by_name(peer: Peer) -> None:
    old = peer.magic < 2
    with odradek.Producer(bootstrap_servers=peer.at, linger_ms=200, **FAST) as producer:
        plain = producer.send("headed", value=b"plain", partition=0)
        headed = producer.send("headed", value=b"headed", partition=1, headers=[("name", b"value")])
        plain.result(30)
        if old:
            with pytest.raises(odradek.client.errors.UnsupportedByBrokerError, match=r"headers.*0\.11"):
                headed.result(30)
        else:
            headed.result(30)
    with odradek.Producer(bootstrap_servers=peer.at, enable_idempotence=True, **FAST) as producer:
        sent = producer.send("headed", value=b"once", partition=0)
        if old:
            with pytest.raises(odradek.client.errors.UnsupportedByBrokerError, match=r"idempotence.*0\.11"):
                sent.result(30)
        else:
            sent.result(30)
    got = [(r.value, r.headers) for r in read(peer, "headed", 1 if old else 3)]
    expected = [(b"plain", ())]
    if not old:
        expected += [(b"once", ()), (b"headed", (("name", b"value"),))]
    assert got == expected


def test_columns_from_the_middle_of_a_compressed_set(peer: Peer) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = 2_000
    table = pa.table(
        {
            "key": pa.array([b"k%d" % i for i in range(rows)], pa.binary()),
            "value": pa.array([b"row-%d" % i for i in range(rows)], pa.binary()),
            "partition": pa.array([0] * rows, pa.int32()),
        }
    )
    with RawWriter(peer.at, {"compression.type": "snappy", **FAST}) as writer:
        writer.write_columns(table, topic="columns")
        assert writer.flush() == rows
    with RawReader(peer.at) as reader:
        assert reader.end_offsets([("columns", 0)]) == {("columns", 0): rows}
        got = pa.Table.from_batches(reader.fetch_columns("columns", 0, 777, 1_234))
        assert got.column("offset").to_pylist() == list(range(777, 1_234))
        assert got.column("value").to_pylist() == [b"row-%d" % i for i in range(777, 1_234)]
        assert set(got.column("timestampType").to_pylist()) == {-1 if peer.magic == 0 else 0}
        assert "columns" in reader.topics()


def test_two_members_of_a_group(peer: Peer) -> None:
    with odradek.Producer(bootstrap_servers=peer.at, **FAST) as producer:
        for i in range(40):
            producer.send("grouped", value=b"%d" % i, partition=i % 2).result(30)
    if peer.number < (0, 9):
        with (
            odradek.Consumer("grouped", bootstrap_servers=peer.at, group_id="pair") as consumer,
            pytest.raises(odradek.client.errors.UnsupportedByBrokerError, match=r"JoinGroup.*assign\(\)"),
        ):
            members.until("the refusal", lambda: bool(consumer.poll(timeout_ms=100)))
        return
    options = {"bootstrap_servers": peer.at, "group_id": "pair", "auto_offset_reset": "earliest"}
    with odradek.Consumer("grouped", **options) as first, odradek.Consumer("grouped", **options) as second:
        got: list[bytes] = []

        def shared() -> bool:
            for consumer in (first, second):
                got.extend(record.value for record in consumer.poll(timeout_ms=50))
            return len(first.assignment()) == len(second.assignment()) == 1 and len(set(got)) == 40

        members.until("two members with a partition each, and all records", shared)
        first.commit()
        second.commit()
    with odradek.Admin(bootstrap_servers=peer.at) as admin:
        committed = admin.list_group_offsets("pair", [("grouped", 0), ("grouped", 1)])
        assert {tp.partition: entry.offset for tp, entry in committed.items()} == {0: 20, 1: 20}
        if peer.number >= (0, 9, 0, 1):
            assert admin.describe_groups(["pair"])["pair"].state in ("Empty", "Dead")


def test_offsets_committed_without_a_group(peer: Peer) -> None:
    with odradek.Producer(bootstrap_servers=peer.at, **FAST) as producer:
        producer.send("lonely", value=b"a", partition=0).result(30)
    tp = odradek.TopicPartition("lonely", 0)
    with odradek.Consumer(bootstrap_servers=peer.at, group_id="alone", enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        assert consumer.committed([tp]) == {tp: None}
        consumer.commit({tp: odradek.OffsetAndMetadata(7, "where I was")})
        assert consumer.committed([tp]) == {tp: odradek.OffsetAndMetadata(7, "where I was")}


def test_offsets_by_time(peer: Peer) -> None:
    with odradek.Producer(bootstrap_servers=peer.at, **FAST) as producer:
        for i in range(10):
            producer.send("timed", value=b"a", partition=0, timestamp_ms=1_000 + i).result(30)
    with odradek.Admin(bootstrap_servers=peer.at) as admin:
        ends = admin.list_offsets({("timed", 0): -2})[odradek.TopicPartition("timed", 0)].offset, 0
        assert ends == (0, 0)
        assert admin.list_offsets({("timed", 0): -1})[odradek.TopicPartition("timed", 0)].offset == 10

        def at_1005() -> None:
            found = admin.list_offsets({("timed", 0): 1_005})[odradek.TopicPartition("timed", 0)]
            assert (found.offset, found.timestamp) == (5, 1_005)

        assert refused(at_1005, "ListOffsets") == (peer.number < (0, 10, 1))


def test_what_an_administrator_can_do(peer: Peer) -> None:
    number = peer.number
    with odradek.Admin(bootstrap_servers=peer.at) as admin:
        assert "codec-none" in admin.list_topics()
        assert "__consumer_offsets" not in admin.list_topics()
        assert len(admin.describe_topics(["codec-none"])["codec-none"].partitions) == 2
        new = odradek.NewTopic("made", num_partitions=1, replication_factor=1)
        assert refused(lambda: admin.create_topics([new]), "CreateTopics") == (number < (0, 10, 1))
        assert refused(lambda: admin.list_groups(), "ListGroups") == (number < (0, 9))
        assert refused(lambda: admin.describe_configs([("topic", "codec-none")]), "DescribeConfigs") == (
            number < (0, 11)
        )
        assert refused(lambda: admin.delete_records({("codec-none", 0): 5}), "DeleteRecords") == (
            number < (0, 11)
        )
        assert refused(lambda: admin.create_partitions({"codec-none": 3}), "CreatePartitions") == (
            number < (1,)
        )
        assert refused(lambda: admin.delete_groups(["pair"]), "DeleteGroups") == (number < (1, 1))
        assert refused(lambda: admin.delete_topics(["codec-gzip"]), "DeleteTopics") == (number < (0, 10, 1))
        if number >= (0, 10, 1):
            topics_of_kafka.until_gone(admin, "codec-gzip")


def test_a_message_larger_than_the_fetch(peer: Peer) -> None:
    with odradek.Producer(bootstrap_servers=peer.at, **FAST) as producer:
        producer.send("large", value=bytes(50_000), partition=0).result(30)
    with odradek.Consumer(
        bootstrap_servers=peer.at, auto_offset_reset="earliest", max_partition_fetch_bytes=1_000
    ) as consumer:
        consumer.assign([odradek.TopicPartition("large", 0)])
        got: list[int] = []

        def fetched() -> bool:
            got.extend(len(record.value) for record in consumer.poll(timeout_ms=100))
            return bool(got)

        if peer.number < (0, 10, 1):
            with pytest.raises(odradek.errors.RecordTooLargeError, match=r"max\.partition\.fetch\.bytes"):
                members.until("the refusal", fetched)
        else:
            members.until("the record", fetched)
            assert got == [50_000]


def test_the_simple_consumer(peer: Peer) -> None:
    with odradek.Producer(
        bootstrap_servers=peer.at, compression_type="gzip", linger_ms=500, **FAST
    ) as producer:
        for i in range(20):
            producer.send("simple", value=b"%d" % i, partition=0)
        producer.flush()
    leader = simple.find_leader(peer.at, "simple", 0).leader
    assert leader is not None
    tp = odradek.TopicPartition("simple", 0)
    with odradek.SimpleConsumer(leader.host, leader.port) as consumer:
        assert consumer.last_offset("simple", 0) == 20
        assert consumer.last_offset("simple", 0, simple.EARLIEST) == 0
        got = consumer.fetch("simple", 0, 15)
        assert [record.value for record in got.records] == [b"15", b"16", b"17", b"18", b"19"]
        assert got.skipped == 15
        if peer.number < (4,):
            assert consumer.offsets_before("simple", 0, simple.LATEST, 5) == [20, 0]
            consumer.commit_offsets("simple", {tp: 7}, in_zookeeper=True)
            assert consumer.fetch_offsets("simple", [tp], in_zookeeper=True) == {tp: 7}
    with odradek.Consumer(bootstrap_servers=peer.at, group_id="simple", enable_auto_commit=False) as member:
        member.assign([tp])
        member.commit({tp: odradek.OffsetAndMetadata(9)})  # makes the coordinator be there
    with odradek.SimpleConsumer(leader.host, leader.port) as consumer:
        assert consumer.find_coordinator("simple").port == leader.port
        assert consumer.fetch_offsets("simple", [tp]) == {tp: 9}
        consumer.commit_offsets("simple", {tp: 11})
        assert consumer.fetch_offsets("simple", [tp]) == {tp: 11}
    read_again = simple.read_partition(peer.at, "simple", 0, start=99, reset=simple.EARLIEST)
    assert [record.value for record in itertools.islice(read_again, 20)] == [b"%d" % i for i in range(20)]


def write_probe(peer: Peer, topic: str, partition: int) -> int | None:
    """Write a record, and read the timestamp that it has kept in the format that the log is written in."""
    tp = odradek.TopicPartition(topic, partition)
    with odradek.Producer(bootstrap_servers=peer.at, enable_idempotence=False, **FAST) as producer:
        offset = producer.send(topic, b"probe", partition=partition).result(60).offset
    got: list[odradek.ConsumerRecord] = []
    with odradek.Consumer(bootstrap_servers=peer.at) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, offset)
        members.until("the probe", lambda: bool(got.extend(consumer.poll(timeout_ms=100)) or got))
    return None if got[0].timestamp_type == TimestampType.NO_TIMESTAMP_TYPE else got[0].timestamp


def test_a_log_that_has_lived_through_upgrades(peer: Peer) -> None:
    """Messages of magic 0 and 1, and batches, in one partition: a fetch of today brings them as they are."""
    if not (0, 11) <= peer.number < (3,):
        pytest.skip("message.format.version is honoured from 0.10 to 2.8; batches are there from 0.11 on")
    resource = ("topic", "upgraded")
    formats = ("0.9.0", "0.10.2", "0.11.0")
    with odradek.Admin(bootstrap_servers=peer.at) as admin:
        settings = {"message.format.version": formats[0]}
        topics_of_kafka.create(admin, odradek.NewTopic("upgraded", 2, 1, configs=settings))
        for turn, version in enumerate(formats):
            admin.alter_configs({resource: {"message.format.version": version}})
            members.until(
                "the format is set",
                lambda version=version: (  # type: ignore[misc]
                    version in str(admin.describe_configs([resource]))
                ),
            )
            if turn == 1:
                # Kafka's logs hear of it later than those who ask for configs; the other partition tells.
                members.until("messages have times", lambda: write_probe(peer, "upgraded", 1) is not None)
            for codec in ("none", "gzip"):
                with odradek.Producer(
                    bootstrap_servers=peer.at,
                    compression_type=codec,
                    linger_ms=500,
                    enable_idempotence=False,
                    **FAST,
                ) as producer:
                    sent = [
                        producer.send("upgraded", b"%d-%d" % (turn, i), partition=0, timestamp_ms=1_000 + i)
                        for i in range(10)
                    ]
                    producer.flush()
                    for future in sent:
                        future.result(30)
        with odradek.Producer(bootstrap_servers=peer.at, **FAST) as producer:
            producer.send("upgraded", b"idempotent", partition=1).result(30)
        admin.alter_configs({resource: {"message.format.version": formats[0]}})
        with (
            odradek.Producer(bootstrap_servers=peer.at, **FAST) as producer,
            pytest.raises(odradek.errors.UnsupportedForMessageFormatError, match=r"enable\.idempotence"),
        ):
            members.until(
                "the refusal", lambda: not producer.send("upgraded", b"idempotent", partition=1).result(30)
            )
    expected = [b"%d-%d" % (turn, i) for turn in range(3) for _ in range(2) for i in range(10)]
    with odradek.Consumer(bootstrap_servers=peer.at) as consumer:
        count = sum(consumer.end_offsets([("upgraded", 0), ("upgraded", 1)]).values())
    got = [record for record in read(peer, "upgraded", count) if record.partition == 0]
    assert [record.offset for record in got] == list(range(60))
    assert [record.value for record in got] == expected
    kinds = [record.timestamp_type for record in got]
    assert kinds[20:] == [TimestampType.CREATE_TIME] * 40
    assert set(kinds[:20]) == {TimestampType.NO_TIMESTAMP_TYPE}
    pytest.importorskip("pyarrow")
    with RawReader(peer.at) as reader:
        rows = [row for batch in reader.fetch_columns("upgraded", 0, 15, 45) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == expected[15:45]
    assert [row["timestampType"] for row in rows] == [int(kind) for kind in kinds[15:45]]
    assert [row["timestamp"] for row in rows] == [record.timestamp for record in got[15:45]]


def test_times_that_the_broker_sets(peer: Peer) -> None:
    if peer.number < (0, 10, 1):
        pytest.skip("topics with LogAppendTime are made with CreateTopics, which 0.10.1 brought")
    settings = {"message.timestamp.type": "LogAppendTime"}
    with odradek.Admin(bootstrap_servers=peer.at) as admin:
        topics_of_kafka.create(admin, odradek.NewTopic("stamped", 2, 1, configs=settings))
    expected = []
    for codec in ("none", "gzip"):
        with odradek.Producer(
            bootstrap_servers=peer.at, compression_type=codec, linger_ms=500, **FAST
        ) as producer:
            sent = [producer.send("stamped", b"%d" % i, partition=0, timestamp_ms=5) for i in range(5)]
            producer.flush()
            expected += [future.result(30).timestamp for future in sent]
    got = read(peer, "stamped", 10)
    assert [record.timestamp for record in got] == expected
    assert min(expected) > 1_500_000_000_000
    assert {record.timestamp_type for record in got} == {TimestampType.LOG_APPEND_TIME}
    pytest.importorskip("pyarrow")
    with RawReader(peer.at) as reader:
        rows = [row for batch in reader.fetch_columns("stamped", 0, 2, 8) for row in batch.to_pylist()]
    assert [(row["timestamp"], row["timestampType"]) for row in rows] == [(t, 1) for t in expected[2:8]]
