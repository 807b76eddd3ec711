"""Where records go: librdkafka's partitioners by name, those of one's own, brokers that take nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import confluent_kafka
import pytest

from odradek.client import Producer
from odradek.client.core.node_latency_stats import NodeLatencyStats
from odradek.client.core.partitioners import StickyPartitions, resolve_partitioner
from odradek.client.errors import IllegalArgumentError

from .consuming import fill
from .twins import FACES, twin

KEYS = [b"", b"a", b"order-17", bytes(range(256)), "müller".encode(), b"x" * 33]


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", ["consistent", "consistent_random", "murmur2", "fnv1a", "fnv1a_random"])
def test_a_key_goes_where_librdkafka_sends_it(servers: str, topic: str, name: str) -> None:
    theirs: dict[bytes, int] = {}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "topic.metadata.refresh.interval.ms": 10_000, "partitioner": name}
    )
    for key in KEYS:
        producer.produce(
            topic,
            b"x",
            key,
            on_delivery=lambda error, message: theirs.update({message.key() or b"": message.partition()}),
        )
    assert producer.flush(60) == 0
    with Producer(bootstrap_servers=servers, partitioner=name) as ours:
        keys = KEYS[1:] if name.endswith("_random") else KEYS
        assert {key: ours.send(topic, b"x", key).result(60).partition for key in keys} == {
            key: theirs[key] for key in keys
        }
        assert 0 <= ours.send(topic, b"x").result(60).partition < 3


def test_a_partitioner_of_ones_own(face: str, servers: str, topic: str) -> None:
    asked: list[Any] = []

    def by_value(
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int | None:
        asked.append((topic, key, value, list(partitions), list(available)))
        return {b"to 2": 2, b"to 9": 9}.get(value or b"")

    with twin(face, Producer, bootstrap_servers=servers, partitioner=by_value, linger_ms=60_000) as producer:
        placed = producer.send(topic, "to 2", key=b"k")
        sticky = [producer.send(topic, b"anywhere", key=f"k{n}") for n in range(9)]
        producer.flush()
        assert placed.result(0).partition == 2
        assert len({future.result(0).partition for future in sticky}) == 1
        assert asked[0] == (topic, b"k", b"to 2", [0, 1, 2], [0, 1, 2])
        with pytest.raises(IllegalArgumentError, match="no partition 9"):
            producer.send(topic, b"to 9")


def test_a_partitioner_that_gives_no_number_is_told(face: str, servers: str, topic: str) -> None:
    answers: list[Any] = [[1], "1", 0.5, -1, 2.0]
    configs = {"bootstrap_servers": servers, "partitioner": lambda *_: answers.pop(0)}
    with twin(face, Producer, **configs) as producer:
        for told in (r"is \[1\]", "is '1'", "is 0.5", "no partition -1"):
            with pytest.raises(IllegalArgumentError, match=told):
                producer.send(topic, b"x", key=b"k")
        sent = producer.send(topic, b"x", key=b"k")
        producer.flush()
        assert sent.result(0).partition == 2


def test_keys_are_ignored_if_that_is_asked_for(face: str, servers: str, topic: str) -> None:
    configs = {"bootstrap_servers": servers, "partitioner_ignore_keys": True, "linger_ms": 60_000}
    with twin(face, Producer, **configs) as producer:
        futures = [producer.send(topic, b"x", key=f"k{n}") for n in range(20)]
        producer.flush()
        assert len({future.result(0).partition for future in futures}) == 1


def test_names_are_resolved() -> None:
    assert resolve_partitioner("murmur2_random") is None
    partitioner = resolve_partitioner("consistent_random")
    assert partitioner is not None
    assert partitioner("t", None, b"x", [0, 1], [0, 1]) is None


def test_brokers_that_take_nothing_for_too_long_are_left_out() -> None:
    stats = NodeLatencyStats(1_000)
    stats.looked(1, 0, can_drain=True)
    stats.looked(2, 0, can_drain=False)
    stats.looked(2, 1_000, can_drain=False)
    assert stats.takes_records(1) and stats.takes_records(2) and stats.takes_records(None)
    stats.looked(2, 1_001, can_drain=False)
    assert stats.takes_records(1) and not stats.takes_records(2)
    stats.looked(2, 1_002, can_drain=True)
    assert stats.takes_records(2)
    stats.looked(2, 2_000, can_drain=False)
    stats.looked(2, 4_000, can_drain=False)
    assert not stats.takes_records(2)
    stats.nothing_waits_but_for({1})
    assert stats.takes_records(2), "what waited for it has expired"


def test_without_a_timeout_every_broker_takes_records() -> None:
    stats = NodeLatencyStats(0)
    stats.looked(2, 0, can_drain=False)
    stats.looked(2, 1e9, can_drain=False)
    assert stats.takes_records(2)


def test_partitions_of_such_brokers_are_not_drawn_unless_there_are_no_others() -> None:
    refusing = {1}
    sticky = StickyPartitions(
        1,
        adaptive=True,
        rng=random.Random(5),
        takes_records=lambda topic, partition: partition not in refusing,
    )

    def drawn() -> set[int]:
        partitions = set()
        for _ in range(60):
            partition = sticky.current("t", [0, 1, 2], lambda topic, partition: 0)
            sticky.appended("t", partition, 10, batch_closed=True)
            partitions.add(partition)
        return partitions

    assert drawn() == {0, 2}
    refusing |= {0, 2}
    assert drawn() == {0, 1, 2}


def test_the_sender_tells_of_brokers(servers: str, topic: str) -> None:
    fill(servers, topic, 1)
    with Producer(bootstrap_servers=servers, partitioner_availability_timeout_ms=1_000) as producer:
        assert producer.send(topic, b"x").result(60).offset >= 0
