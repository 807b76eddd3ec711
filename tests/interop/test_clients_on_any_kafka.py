"""Clients of today on brokers of ours that are each release of Kafka, from 0.8.2 on.

A broker per release, in this process; each client writes a record and reads it back, from 0.9 on in a group.
Where a client does not speak with such a Kafka, it says so itself, and the test expects that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interop import members, programs
from interop.releases import ends
from interop.test_program_clients import _franz
from odradek import Consumer, Producer, TopicPartition
from odradek.broker.apis.registry import SERVED
from odradek.broker.kafka_versions.release import Release, find
from odradek.broker.kafka_versions.report import missing
from odradek.testing import Broker, kafka_versions

pytestmark = pytest.mark.interop

VALUE = b"from one age to another"


@pytest.fixture(scope="module", params=ends(kafka_versions(), "0.9", "0.11", "2.2"))
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that is a release of Kafka."""
    served = {key: entry.versions for key, entry in SERVED.items()}
    absent = missing(find(request.param), served)
    if any(served[key].start > find(request.param).answered[key][-1] for key in (0, 1, 2)):
        pytest.skip(f"not there of {request.param}: {absent}")
    with Broker(kafka_version=request.param) as broker:
        yield broker


def release_of(broker: Broker) -> Release:
    found = broker.call(lambda broker: broker.handlers.release)
    assert found is not None
    return found


def has_groups(release: Release) -> bool:
    return release.at_least("0.9")


def until_read(poll: Callable[[], list[bytes]]) -> None:
    """Poll until the value has come."""
    got: list[bytes] = []
    deadline = time.monotonic() + members.LIMIT_S
    while not got:
        assert time.monotonic() < deadline, "nothing is read"
        got += poll()
    assert got == [VALUE]


def test_our_own(kafka: Broker) -> None:
    kafka.create_topic("ours")
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("ours", VALUE).result(members.LIMIT_S)
    group = "ours" if has_groups(release_of(kafka)) else None
    with Consumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        if group is None:
            consumer.assign([TopicPartition("ours", 0)])
        else:
            consumer.subscribe(["ours"])
        until_read(lambda: [bytes(one.value or b"") for one in consumer.poll(100)])


def test_librdkafka(kafka: Broker) -> None:
    from confluent_kafka import Consumer as LibrdkafkaConsumer
    from confluent_kafka import Producer as LibrdkafkaProducer
    from confluent_kafka import TopicPartition as LibrdkafkaPartition

    release = release_of(kafka)
    # librdkafka 2.16 cannot read Metadata 0 when it is as short as that of one topic with a short name.
    topic = "librdkafka-and-kafkas-of-all-ages"
    kafka.create_topic(topic)
    at: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 3}
    if not release.at_least("0.10.0"):
        # It does not find out by itself what a broker without ApiVersions is.
        at |= {"api.version.request": False, "broker.version.fallback": release.patch}
    # 0.9 takes no session of 45 s, which is what clients of today ask for.
    session: dict[str, Any] = {} if release.at_least("0.10.0") else {"session.timeout.ms": 30_000}
    errors: list[object] = []
    producer = LibrdkafkaProducer(at)
    producer.produce(topic, VALUE, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(members.LIMIT_S) == 0
    assert errors == [None]
    consumer = LibrdkafkaConsumer(
        {**at, **session, "group.id": "librdkafka", "auto.offset.reset": "earliest"}
    )
    try:
        if has_groups(release):
            consumer.subscribe([topic])
        else:
            consumer.assign([LibrdkafkaPartition(topic, 0, 0)])

        def poll() -> list[bytes]:
            message = consumer.poll(0.1)
            return [] if message is None or message.error() else [message.value()]

        until_read(poll)
    finally:
        consumer.close()


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python(kafka: Broker) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as KafkaPythonPartition

    release = release_of(kafka)
    kafka.create_topic("kafka-python")
    at: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers}
    if not release.at_least("0.10.0"):
        # Version 3 does not find out by itself what a broker without ApiVersions is.
        at["api_version"] = (0, 9) if release.at_least("0.9") else (0, 8, 2)
    producer = KafkaProducer(**at)
    producer.send("kafka-python", VALUE, partition=0).get(members.LIMIT_S)
    producer.close()
    group = "kafka-python" if has_groups(release) else None
    consumer = KafkaConsumer(**at, group_id=group, auto_offset_reset="earliest")
    try:
        # Known beforehand: 3.0.12 stands still now and then when it joins again while it learns of a topic.
        assert "kafka-python" in consumer.topics()
        if group is None:
            consumer.assign([KafkaPythonPartition("kafka-python", 0)])
        else:
            consumer.subscribe(["kafka-python"])
        until_read(lambda: [one.value for batch in consumer.poll(100).values() for one in batch])
    finally:
        consumer.close()


def test_franz_go(kafka: Broker) -> None:
    release = release_of(kafka)
    # It asks for ApiVersions first unless it is told that the broker is older.
    version = "newest" if release.at_least("0.10.0") else {"0.9": "0.9.0", "0.8.2": "0.8.2"}[release.name]
    kafka.create_topic("franz-go", 4)
    client = programs.ProgramClient(_franz(), kafka.bootstrap_servers, version, ("none",))
    try:
        client.produce("franz-go", [VALUE])
        if not release.at_least("0.10.0"):
            return  # 0.8.2 has no groups, and the program's session is longer than 0.9 takes
        member = client.join("franz-go", "franz-go")
        until_read(member.poll)
        member.close()
    finally:
        client.close()
