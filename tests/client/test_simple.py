"""`SimpleConsumer` and the loop around it, on scripted brokers and on odradek."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from client.scripted import HangUp, ScriptedBroker
from odradek.client import Producer, SimpleConsumer, TopicPartition
from odradek.client.core.versions import KAFKA_0_8_2
from odradek.client.errors import ConnectionFailedError, UnsupportedByBrokerError
from odradek.client.simple import EARLIEST, LATEST, find_leader, find_new_leader, read_partition
from odradek.client.types import Node
from odradek.errors import (
    ErrorCode,
    KafkaError,
    LeaderNotAvailableError,
    OffsetOutOfRangeError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from odradek.records.compression import Codec
from odradek.testing import Broker
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
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
from records.message_set_builder import MessageSetBuilder

TOPIC = "t"


class Log:
    """Offsets 10 to 29 in two compressed sets of ten, and who leads; answers as brokers of 0.8.2 do."""

    def __init__(self) -> None:
        self.start, self.end = 10, 30
        self.brokers: dict[int, ScriptedBroker] = {}
        self.leader = 1
        self.offsets_asked: list[tuple[int, int]] = []

    def broker(self, number: int) -> ScriptedBroker:
        answers = {
            ApiKey.METADATA: self.metadata,
            ApiKey.LIST_OFFSETS: self.offsets,
            ApiKey.FETCH: lambda request, version: self.fetch(number, request),
        }
        made = self.brokers[number] = ScriptedBroker(answers, KAFKA_0_8_2)
        return made

    def metadata(self, request: Any, version: int) -> Any:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader, replica_nodes=list(self.brokers), isr_nodes=[]
        )
        known = [
            MetadataResponseBroker(node_id=n, host="127.0.0.1", port=b.port) for n, b in self.brokers.items()
        ]
        assert request.topics == []  # all: whoever is asked for one by name may make it
        topic = MetadataResponseTopic(name=TOPIC, partitions=[partition])
        return MetadataResponse(brokers=known, topics=[topic])

    def offsets(self, request: Any, version: int) -> Any:
        asked = request.topics[0].partitions[0]
        self.offsets_asked.append((asked.timestamp, asked.max_num_offsets))
        found = {LATEST: [30, 20, 10], EARLIEST: [10]}.get(asked.timestamp, [20, 10])
        if asked.timestamp == 1:
            found = []
        answer = ListOffsetsPartitionResponse(
            partition_index=0, old_style_offsets=found[: asked.max_num_offsets]
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[answer])])

    def fetch(self, number: int, request: Any) -> Any:
        at = request.topics[0].partitions[0].fetch_offset
        answer = PartitionData(partition_index=0, high_watermark=self.end, records=b"")
        if number != self.leader:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.start <= at <= self.end:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif at < self.end:
            base = at // 10 * 10
            builder = MessageSetBuilder(0, Codec.GZIP, base_offset=base)
            for offset in range(base, base + 10):
                builder.append(-1, None, b"%d" % offset)
            answer.records = builder.build()
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[answer])])


def no_sleep(seconds: float) -> None:
    """Time passes by itself here."""


def test_leaders_offsets_and_records_of_one_broker() -> None:
    log = Log()
    with log.broker(1) as broker, SimpleConsumer("127.0.0.1", broker.port) as consumer:
        leadership = consumer.leaders(TOPIC)[0]
        assert leadership.leader == Node(1, "127.0.0.1", broker.port)
        assert leadership.replicas == (leadership.leader,)
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.leaders("another")
        assert consumer.offsets_before(TOPIC, 0, max_offsets=2) == [30, 20]
        assert consumer.last_offset(TOPIC, 0, 1_000) == 20
        assert consumer.last_offset(TOPIC, 0, 1) == 10  # nothing is as old: the start
        assert log.offsets_asked == [(LATEST, 2), (1_000, 1), (1, 1), (EARLIEST, 1)]
        got = consumer.fetch(TOPIC, 0, 17)
        assert [r.offset for r in got.records] == [17, 18, 19]
        assert (got.next_offset, got.high_watermark, got.skipped) == (20, 30, 7)
        assert consumer.fetch(TOPIC, 0, 30).records == []
        with pytest.raises(OffsetOutOfRangeError, match="t-0, offset 31"):
            consumer.fetch(TOPIC, 0, 31)


def test_an_answer_about_nothing_is_not_taken_for_an_empty_log() -> None:
    """A broker that throttles answers so (KIP-219)."""
    log = Log()
    with log.broker(1) as broker, SimpleConsumer("127.0.0.1", broker.port) as consumer:
        log.fetch = lambda number, request: FetchResponse()  # type: ignore[method-assign]
        with pytest.raises(KafkaError) as raised:
            consumer.fetch(TOPIC, 0, 17)
        assert raised.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert raised.value.retriable


def test_an_offset_that_an_answer_leaves_out_is_not_known() -> None:
    log = Log()
    with log.broker(1) as broker, SimpleConsumer("127.0.0.1", broker.port) as consumer:
        broker.answers[ApiKey.LIST_OFFSETS] = lambda request, version: ListOffsetsResponse()
        with pytest.raises(UnknownServerError, match="t-0"):
            consumer.last_offset(TOPIC, 0)


def test_an_offset_out_of_range_is_reset_and_the_rest_is_read() -> None:
    log = Log()
    with log.broker(1) as broker:
        read = read_partition(broker.at, TOPIC, 0, start=5, reset=EARLIEST, until=30, sleep=no_sleep)
        assert [r.offset for r in read] == list(range(10, 30))
        read = read_partition(broker.at, TOPIC, 0, start=EARLIEST, until=13, sleep=no_sleep)
        assert [r.value for r in read] == [b"10", b"11", b"12"]


def test_after_the_leaders_death_the_replicas_are_asked() -> None:
    log = Log()
    waited: list[float] = []
    with log.broker(1) as first, log.broker(2):

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            log.leader = 2

        read = read_partition(first.at, TOPIC, 0, until=30, sleep=sleep)
        assert [r.offset for r in itertools.islice(read, 10)] == list(range(10, 20))
        first.die()
        assert [r.offset for r in read] == list(range(20, 30))
        assert waited == [1.0]  # at first the other replica still named the dead one


def test_a_leader_that_is_well_again_is_believed_the_second_time() -> None:
    log = Log()
    with log.broker(1) as broker:
        old = Node(1, "127.0.0.1", broker.port)
        waited: list[float] = []
        found = find_new_leader(old, [old], TOPIC, 0, sleep=waited.append)
        assert found.leader == old
        assert waited == [1.0]
        log.leader = -1
        with pytest.raises(LeaderNotAvailableError, match="no leader after"):
            find_new_leader(old, [old], TOPIC, 0, sleep=no_sleep)


def test_seeds_are_tried_in_turn() -> None:
    log = Log()
    with log.broker(1) as broker, ScriptedBroker({}, like="0.8.2") as dumb:
        assert find_leader(f"{dumb.at},{broker.at}", TOPIC, 0).leader == Node(1, "127.0.0.1", broker.port)
        with pytest.raises(ConnectionFailedError):
            find_leader(dumb.at, TOPIC, 0)
        with pytest.raises(UnknownTopicOrPartitionError):
            find_leader(broker.at, TOPIC, 7)


def test_errors_in_a_row_end_it() -> None:
    log = Log()
    with log.broker(1) as broker:
        good = log.fetch

        def refuse(number: int, request: Any) -> Any:
            raise HangUp

        log.fetch = refuse  # type: ignore[method-assign]
        with pytest.raises(ConnectionFailedError):
            list(read_partition(broker.at, TOPIC, 0, until=30, max_errors=2, sleep=no_sleep))
        log.fetch = good  # type: ignore[method-assign]


def test_brokers_without_version_0_tell_the_ends_only() -> None:
    log = Log()
    with log.broker(1) as broker:
        broker.versions[ApiKey.LIST_OFFSETS] = (1, 5)
        with SimpleConsumer("127.0.0.1", broker.port) as consumer:
            with pytest.raises(UnsupportedByBrokerError, match="offsets_for_times"):
                consumer.offsets_before(TOPIC, 0, 1_000)
            with pytest.raises(UnsupportedByBrokerError):
                consumer.offsets_before(TOPIC, 0, LATEST, 2)


def test_on_odradek() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        broker.create_topic("simple", partitions=1)
        with Producer(
            bootstrap_servers=broker.bootstrap_servers, linger_ms=1_000, compression_type="gzip"
        ) as producer:
            for i in range(20):
                producer.send("simple", b"%d" % i)
            producer.flush()
        leader = find_leader(broker.bootstrap_servers, "simple", 0).leader
        assert leader is not None
        with SimpleConsumer(host, int(port)) as consumer:
            assert consumer.last_offset("simple", 0) == 20
            assert consumer.last_offset("simple", 0, EARLIEST) == 0
            got = consumer.fetch("simple", 0, 15)
            assert [r.value for r in got.records] == [b"15", b"16", b"17", b"18", b"19"]
            assert got.skipped == 15
            tp = TopicPartition("simple", 0)
            assert consumer.find_coordinator("simple-group").port == int(port)
            assert consumer.fetch_offsets("simple-group", [tp]) == {}
            consumer.commit_offsets("simple-group", {tp: 15})
            assert consumer.fetch_offsets("simple-group", [tp]) == {tp: 15}
            assert consumer.fetch_offsets("simple-group", [tp], in_zookeeper=True) == {}
            consumer.commit_offsets("simple-group", {tp: 7}, in_zookeeper=True)
            assert consumer.fetch_offsets("simple-group", [tp], in_zookeeper=True) == {tp: 7}
            assert consumer.fetch_offsets("simple-group", [tp]) == {tp: 15}
        read = read_partition(broker.bootstrap_servers, "simple", 0, start=99, reset=EARLIEST, sleep=no_sleep)
        assert [r.value for r in itertools.islice(read, 20)] == [b"%d" % i for i in range(20)]
