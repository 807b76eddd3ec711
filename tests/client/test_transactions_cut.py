"""Connections cut before requests and before their answers, amid transactions: lost answers are repeats.

A seeded run of transactions that commit and abort; every request of theirs may be lost on its way or done
without the client hearing of it. What was told to be committed is there once, in order within its partition;
what was aborted is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from client.proxy import Proxy
from odradek.client import (
    Admin,
    ConsumerGroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RawReader,
    TopicPartition,
    TransactionalWriter,
)
from odradek.errors import OdradekError
from odradek.testing import Broker
from seeds import each_seed

pytestmark = pytest.mark.model

pa = pytest.importorskip("pyarrow")

CUT = {0, 10, 22, 24, 25, 26, 28}
QUICK = {
    "reconnect.backoff.ms": 2,
    "reconnect.backoff.max.ms": 5,
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 5,
    "batch.size": 300,
}
TRANSACTIONS = 40


def by_producer(at: str) -> Any:
    """The producer of threads, and how it sends."""
    client = Producer({"bootstrap.servers": at, "transactional.id": "id", **QUICK})

    def send(values: list[str]) -> None:
        for number, value in enumerate(values):
            client.send("t", value, partition=number % 2)

    return client, send


def by_writer(at: str) -> Any:
    """The writer of blocking sockets, and how it sends."""
    client = TransactionalWriter(at, "id", QUICK)

    def send(values: list[str]) -> None:
        for start in range(0, len(values), 7):
            part = values[start : start + 7]
            partitions = pa.array([number % 2 for number in range(start, start + len(part))], pa.int32())
            client.write_columns(pa.record_batch({"value": part, "partition": partitions}), "t")

    return client, send


def partition(reader: RawReader, number: int) -> list[str]:
    """The committed values of one partition, in order."""
    end = reader.end_offsets([("t", number)])[("t", number)]
    parts = reader.fetch_columns("t", number, 0, end)
    return [value.decode() for rows in parts for value in rows.column("value").to_pylist()]


def values_of(round_number: int, rng: random.Random) -> Iterator[str]:
    """The records of a transaction; sometimes none."""
    for number in range(rng.choice([0, 1, 2, 30])):
        yield f"{round_number}:{number}"


@each_seed(2)
@pytest.mark.parametrize("release", [None, "2.2", "3.9"])
@pytest.mark.parametrize("kind", [by_producer, by_writer])
def test_whatever_is_lost(kind: Any, release: str | None, seed: int) -> None:
    rng, loss = random.Random(seed), random.Random(seed)
    expected: list[list[str]] = [[], []]
    offset = None
    with (
        Proxy() as proxy,
        Broker(kafka_version=release, advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker,
    ):
        proxy.target = (broker.host, broker.port)
        with Admin(bootstrap_servers=proxy.address) as admin:
            admin.create_topics([NewTopic("t", 2, 1), NewTopic("in", 1, 1)])
        proxy.on_request = lambda key, frame: key not in CUT or loss.random() > 0.06
        proxy.on_response = lambda key, frame: key not in CUT or loss.random() > 0.06
        client, send = kind(proxy.address)
        try:
            client.init_transactions()
            for number in range(TRANSACTIONS):
                values = list(values_of(number, rng))
                client.begin_transaction()
                try:
                    send(values)
                    if rng.random() < 0.5:
                        client.send_offsets_to_transaction(
                            {TopicPartition("in", 0): OffsetAndMetadata(number)}, ConsumerGroupMetadata("g")
                        )
                        wanted = number
                    else:
                        wanted = None
                    if rng.random() < 0.3:
                        client.abort_transaction()
                        continue
                    client.commit_transaction()
                except OdradekError as problem:
                    assert problem.requires_abort, (seed, problem)
                    client.abort_transaction()
                    continue
                expected[0] += values[::2]
                expected[1] += values[1::2]
                offset = offset if wanted is None else wanted
        finally:
            proxy.on_request = proxy.on_response = lambda key, frame: True
            client.close()
        assert proxy.cuts
        with RawReader(broker.bootstrap_servers, {"isolation.level": "read_committed"}) as reader:
            assert [partition(reader, 0), partition(reader, 1)] == expected, f"seed {seed}"
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            found = admin.list_group_offsets("g")
        assert found[TopicPartition("in", 0)].offset == offset, f"seed {seed}"
