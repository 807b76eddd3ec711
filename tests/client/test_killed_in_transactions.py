"""kill -9 of the broker at every step of a transaction: what is told to be committed is there once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from client.test_killed_broker import Server
from odradek.client import (
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RawReader,
    TopicPartition,
    TransactionalWriter,
)
from odradek.errors import OdradekError

pytestmark = pytest.mark.model

pa = pytest.importorskip("pyarrow")

STEPS = ["begin", "records", "flush", "offsets", "more records", "commit"]
IN = TopicPartition("in", 0)


class ByProducer:
    """The producer of threads."""

    def __init__(self, at: str) -> None:
        self.client = Producer(bootstrap_servers=at, transactional_id="id", linger_ms=2, batch_size=2_000)

    def send(self, values: list[str]) -> None:
        for number, value in enumerate(values):
            self.client.send("t", value, partition=number % 2)


class ByWriter:
    """The writer of blocking sockets."""

    def __init__(self, at: str) -> None:
        self.client = TransactionalWriter(at, "id")

    def send(self, values: list[str]) -> None:
        partitions = pa.array([number % 2 for number in range(len(values))], pa.int32())
        self.client.write_columns(pa.record_batch({"value": values, "partition": partitions}), "t")


def transaction(side: Any, values: list[str], offset: int, kill: Any) -> None:
    """One transaction; `kill(step)` before each of its steps."""
    client = side.client
    kill("begin")
    client.begin_transaction()
    kill("records")
    side.send(values[:100])
    kill("flush")
    client.flush()
    kill("offsets")
    group = ConsumerGroupMetadata("g")
    client.send_offsets_to_transaction({IN: OffsetAndMetadata(offset)}, group)
    kill("more records")
    side.send(values[100:])
    kill("commit")
    client.commit_transaction()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ByProducer, ByWriter])
def test_at_every_step(kind: Any, tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        at = f"127.0.0.1:{server.port}"
        with Admin(bootstrap_servers=at) as admin:
            admin.create_topics([NewTopic("t", 2, 1), NewTopic("in", 1, 1)])
        side = kind(at)
        side.client.init_transactions()
        committed: list[str] = []
        aborted = 0
        for round_number, step in enumerate([*STEPS, ""]):
            values = [f"{round_number}:{number}" for number in range(200)]

            def kill(now: str, wanted: str = step) -> None:
                if now == wanted:
                    server.kill()
                    server.start()

            try:
                transaction(side, values, round_number + 1, kill)
            except OdradekError as problem:
                assert problem.requires_abort, problem
                side.client.abort_transaction()
                aborted += 1
            else:
                committed += values
                last = round_number + 1
        side.client.close()
        assert aborted <= len(STEPS)
        with RawReader(at, {"isolation.level": "read_committed"}) as reader:
            found: Counter[str] = Counter()
            for (topic, partition), end in reader.end_offsets([("t", 0), ("t", 1)]).items():
                for rows in reader.fetch_columns(topic, partition, 0, end):
                    found.update(value.decode() for value in rows.column("value").to_pylist())
        with Consumer(bootstrap_servers=at, group_id="g") as consumer:
            offset = consumer.committed([IN])[IN]
    finally:
        server.kill()
    assert found == Counter(committed)
    assert offset is not None
    assert offset.offset == last
