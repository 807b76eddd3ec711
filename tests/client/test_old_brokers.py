"""The clients' shells on scripted brokers of old releases: handshakes, produce, fetch, groups."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import odradek
from client.scripted import ScriptedBroker
from odradek.client.aio.connection import connect
from odradek.client.blocking import BlockingConnection
from odradek.client.config import ConsumerConfig, build
from odradek.client.core.fetched import end_of_fetched
from odradek.client.core.handshake import KnownBrokers
from odradek.client.core.versions import KAFKA_0_8_2, V0_8_2, V0_9_0
from odradek.client.errors import ConnectionFailedError, UnsupportedByBrokerError
from odradek.errors import CorruptRecordError, RecordTooLargeError, UnknownTopicOrPartitionError
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_all_records
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatResponse
from odradek.wire.messages.list_groups import ListGroupsResponse
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from records.message_set_builder import MessageSetBuilder
from waiting import gathered

KAFKA_0_10_0 = {
    **KAFKA_0_8_2,
    ApiKey.PRODUCE: (0, 2),
    ApiKey.FETCH: (0, 2),
    ApiKey.METADATA: (0, 1),
    ApiKey.LIST_OFFSETS: (0, 0),
}


def old_broker(like: str | None = "0.8.2", magic: int = 0, data: bytes = b"") -> ScriptedBroker:
    """One partition of topic 't', with `data` at offset 0 and behind it nothing."""
    produced: list[bytes] = []

    named: set[str] = set()

    def metadata(request: Any, version: int) -> Any:
        named.update(topic.name for topic in request.topics)
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        topics = [MetadataResponseTopic(name="t", partitions=[partition])]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)], topics=topics
        )

    def produce(request: Any, version: int) -> Any:
        data = request.topic_data[0].partition_data[0].records
        produced.append(bytes(data))
        answer = PartitionProduceResponse(index=0, base_offset=40)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])

    def fetch(request: Any, version: int) -> Any:
        at = request.topics[0].partitions[0]
        records = data if at.fetch_offset < 10 else b""
        answer = PartitionData(
            partition_index=0, high_watermark=10, records=records[: at.partition_max_bytes]
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[answer])])

    def offsets(request: Any, version: int) -> Any:
        topics = []
        for topic in request.topics:
            answer = ListOffsetsPartitionResponse(partition_index=0, old_style_offsets=[0])
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=[answer]))
        return ListOffsetsResponse(topics=topics)

    answers: dict[int, Any] = {
        ApiKey.METADATA: metadata,
        ApiKey.PRODUCE: produce,
        ApiKey.FETCH: fetch,
        ApiKey.LIST_OFFSETS: offsets,
        ApiKey.FIND_COORDINATOR: lambda request, version: FindCoordinatorResponse(
            node_id=1, host="127.0.0.1", port=broker.port
        ),
    }
    if like == "0.8.2":
        answers[ApiKey.HEARTBEAT] = lambda request, version: HeartbeatResponse(error_code=-1)
    if like == "0.9.0":
        answers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse()
    broker = ScriptedBroker(answers, KAFKA_0_10_0, like)
    broker.topics_named = named  # type: ignore[attr-defined]
    broker.produced = produced  # type: ignore[attr-defined]
    return broker


def consumer_config(at: str) -> ConsumerConfig:
    return build(ConsumerConfig, {"bootstrap_servers": at})


@pytest.mark.parametrize(("like", "found", "connections"), [("0.8.2", V0_8_2, 2), ("0.9.0", V0_9_0, 1)])
def test_both_shells_find_out_once_what_an_old_broker_is(like: str, found: Any, connections: int) -> None:
    known = KnownBrokers()
    with old_broker(like) as broker:
        config = consumer_config(broker.at)
        blocking = BlockingConnection.open("127.0.0.1", broker.port, config, known)
        assert blocking.state.versions is found
        assert broker.has_been_called(connections)
        blocking.close()
        BlockingConnection.open("127.0.0.1", broker.port, config, known).close()
        assert broker.has_been_called(connections + 1)

        async def again(known: KnownBrokers) -> None:
            connection = await connect("127.0.0.1", broker.port, config, 5_000, known)
            assert connection.state.versions is found
            connection.close()
            await connection.wait_closed()

        asyncio.run(again(known))
        assert broker.has_been_called(connections + 2)
        asyncio.run(again(KnownBrokers()))
        assert broker.has_been_called(2 * connections + 2)


def test_a_broker_that_need_not_be_asked_is_not() -> None:
    with (
        old_broker("0.9.0") as broker,
        odradek.Admin(bootstrap_servers=broker.at, api_version_request=False) as admin,
    ):
        assert admin.list_topics() == ["t"]
        assert {key for key, _ in broker.asked} == {ApiKey.METADATA}


def test_who_always_hangs_up_is_told_by_the_first_reason() -> None:
    with ScriptedBroker({}, like="0.8.2") as broker:
        config = consumer_config(broker.at)
        with pytest.raises(ConnectionFailedError, match="closed the connection"):
            BlockingConnection.open("127.0.0.1", broker.port, config)
        assert broker.has_been_called(3)
        with pytest.raises(ConnectionFailedError, match="closed the connection"):
            asyncio.run(connect("127.0.0.1", broker.port, config, 5_000))
        assert broker.has_been_called(6)


@pytest.mark.parametrize(("like", "version", "magic"), [("0.8.2", 0, 0), (None, 2, 1)])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_old_brokers_get_message_sets(
    like: str | None, version: int, magic: int, codec: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with (
        old_broker(like) as broker,
        odradek.Producer(bootstrap_servers=broker.at, linger_ms=1_000, compression_type=codec) as producer,
    ):
        sent = [producer.send("t", b"v%d" % i, key=b"k", timestamp_ms=i, partition=0) for i in range(3)]
        producer.flush()
        assert [future.result(60).offset for future in sent] == [40, 41, 42]
        assert (ApiKey.PRODUCE, version) in broker.asked
        (data,) = broker.produced  # type: ignore[attr-defined]
    assert data[16] == magic
    records = list(iter_all_records(data))
    assert [(r.offset, r.key, r.value) for r in records] == [(i, b"k", b"v%d" % i) for i in range(3)]
    assert [r.timestamp for r in records] == ([-1, -1, -1] if magic == 0 else [0, 1, 2])
    assert "enable.idempotence" in caplog.text  # on by default, and given up


def test_what_message_sets_cannot_carry_is_refused() -> None:
    with old_broker(None) as broker:
        with odradek.Producer(bootstrap_servers=broker.at, linger_ms=1_000) as producer:
            headed = producer.send("t", b"a", headers=[("h", b"x")], partition=0)
            beside = producer.send("t", b"b", partition=0)
            producer.flush()
            with pytest.raises(UnsupportedByBrokerError, match=r"headers.*0\.11\.0"):
                headed.result(60)
            with pytest.raises(odradek.errors.KafkaError, match="held other records"):
                beside.result(60)
        with (
            odradek.Producer(bootstrap_servers=broker.at, enable_idempotence=True) as producer,
            pytest.raises(UnsupportedByBrokerError, match=r"enable\.idempotence.*0\.11\.0"),
        ):
            producer.send("t", b"a", partition=0).result(60)
        with (
            odradek.Producer(bootstrap_servers=broker.at, compression_type="zstd") as producer,
            pytest.raises(UnsupportedByBrokerError, match=r"zstd.*2\.1"),
        ):
            producer.send("t", b"a", partition=0).result(60)
        assert not broker.produced  # type: ignore[attr-defined]


def message_set(magic: int, codec: Codec) -> bytes:
    builder = MessageSetBuilder(magic, codec)
    for i in range(10):
        builder.append(1_000 + i, b"k%d" % i, b"v%d" % i)
    return builder.build()


def test_the_end_of_what_was_fetched() -> None:
    plain, packed = message_set(0, Codec.NONE), message_set(1, Codec.GZIP)
    batch = build_batch([(1, b"k", b"v", ()), (1, b"k", b"v", ())], base_offset=10)
    assert end_of_fetched(b"", 3) == 3
    assert end_of_fetched(plain, 0) == 10
    assert end_of_fetched(packed, 0) == 10
    assert end_of_fetched(plain[:-1], 0) == 9
    assert end_of_fetched(plain[:20], 4) == 4
    for mixed in (plain + batch, batch + plain, plain + packed + batch + packed + plain):
        assert end_of_fetched(mixed, 0) == 12
        assert end_of_fetched(mixed, 40) == 40
    damaged = b"\0" * 8 + b"\0\0\0\x05" + b"\0" * 30
    assert end_of_fetched(plain + damaged, 3) == 10
    assert end_of_fetched(batch + plain + damaged, 3) == 12
    with pytest.raises(CorruptRecordError):
        end_of_fetched(damaged, 3)
    with pytest.raises(CorruptRecordError):
        end_of_fetched(plain + damaged, 10)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_and_columns_of_message_sets_begin_at_the_offset_asked_for(magic: int, codec: Codec) -> None:
    data = message_set(magic, codec) + message_set(magic, codec)[:30]  # a second that is cut off
    with (
        old_broker("0.8.2" if magic == 0 else None, magic, data) as broker,
        odradek.Consumer(bootstrap_servers=broker.at) as consumer,
    ):
        tp = odradek.TopicPartition("t", 0)
        consumer.assign([tp])
        consumer.seek(tp, 4)
        records = gathered(lambda: consumer.poll(timeout_ms=1_000), 6, "the records from offset 4 on")
        kind = -1 if magic == 0 else 0
        assert [(r.offset, r.timestamp, r.timestamp_type, r.value) for r in records] == [
            (i, -1 if magic == 0 else 1_000 + i, kind, b"v%d" % i) for i in range(4, 10)
        ]
        assert consumer.position(tp) == 10
        pytest.importorskip("pyarrow")
        consumer.seek(tp, 4)
        table = consumer.poll_arrow(timeout_ms=5_000)
        assert table.column("offset").to_pylist() == list(range(4, 10))
        assert table.column("value").to_pylist() == [b"v%d" % i for i in range(4, 10)]
        assert set(table.column("timestampType").to_pylist()) == {kind}


def test_a_message_that_exceeds_the_fetch_is_told_with_the_remedy() -> None:
    with (
        old_broker("0.8.2", 0, message_set(0, Codec.NONE)) as broker,
        odradek.Consumer(bootstrap_servers=broker.at, max_partition_fetch_bytes=20) as consumer,
    ):
        tp = odradek.TopicPartition("t", 0)
        consumer.assign([tp])
        consumer.seek(tp, 0)
        with pytest.raises(RecordTooLargeError, match=r"raise max\.partition\.fetch\.bytes"):
            consumer.poll(timeout_ms=5_000)
        pytest.importorskip("pyarrow")
        from odradek.client.raw import RawReader

        with (
            RawReader(broker.at, {"max.partition.fetch.bytes": 20}) as reader,
            pytest.raises(RecordTooLargeError, match=r"raise max\.partition\.fetch\.bytes"),
        ):
            list(reader.fetch_columns("t", 0, 0, 10))


def test_looking_for_a_topic_does_not_make_it() -> None:
    pytest.importorskip("pyarrow")
    from odradek.client.raw import RawReader

    with old_broker("0.8.2") as broker:
        with (
            RawReader(broker.at, {"default_api_timeout_ms": 5_000}) as reader,
            pytest.raises(UnknownTopicOrPartitionError, match="missing"),
        ):
            reader.partitions_for("missing")
        with odradek.Admin(bootstrap_servers=broker.at) as admin:
            assert list(admin.describe_topics(["t"])) == ["t"]
            with pytest.raises(UnknownTopicOrPartitionError, match="missing"):
                admin.describe_topics(["missing"])
        assert broker.topics_named == set()  # type: ignore[attr-defined]


def test_a_group_on_0_8_2_is_refused_with_the_remedy() -> None:
    with (
        old_broker("0.8.2") as broker,
        odradek.Consumer("t", bootstrap_servers=broker.at, group_id="g") as consumer,
        pytest.raises(UnsupportedByBrokerError, match=r"JoinGroup, which Kafka 0\.9\.0.*assign\(\)"),
    ):
        consumer.poll(timeout_ms=5_000)
