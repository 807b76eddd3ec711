"""Kills while segments are compacted and removed: no start takes what a cleaner has left for damage."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from ports import free_port
from waiting import gathered

from .server import SETTINGS, Server

KEYS, LIVES, SENDS = 40, 6, 1500
QUICK = {
    **SETTINGS,
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "100",
    # Damage would refuse the start.
    "odradek.refuse.damaged.logs": "true",
}


@pytest.mark.slow
def test_the_newest_record_of_every_key_is_there(tmp_path: Path) -> None:
    data, port, rng = tmp_path / "data", free_port(), random.Random(5)
    servers = f"127.0.0.1:{port}"
    newest: dict[bytes, bytes] = {}
    for life in range(LIVES):
        server = Server(data, port, QUICK)
        try:
            server.wait_ready()
            if not life:
                configs = {"cleanup.policy": "compact", "segment.bytes": "15000"}
                with Admin(bootstrap_servers=servers) as admin:
                    admin.create_topics([NewTopic("c", 1, 1, configs=configs)])
            with Producer(bootstrap_servers=servers, batch_size=3000) as producer:
                for number in range(SENDS):
                    key, value = b"%d" % rng.randrange(KEYS), b"%d.%d" % (life, number) + b"." * 100
                    producer.send("c", value, key=key, partition=0)
                    newest[key] = value
            deadline = time.monotonic() + 60
            while not (data / "c-0" / "offset-gaps").exists():
                assert time.monotonic() < deadline, "nothing was compacted for 60 s"
                time.sleep(0.01)
            # Into whatever the cleaner is at just then.
            time.sleep(rng.random())
        finally:
            server.end(signal.SIGKILL if life % 3 else signal.SIGTERM)
    server = Server(data, port, QUICK)
    try:
        server.wait_ready()
        with Consumer(bootstrap_servers=servers) as consumer:
            partition = TopicPartition("c", 0)
            consumer.assign([partition])
            consumer.seek_to_beginning()
            records = gathered(
                lambda: consumer.poll(1000),
                lambda: consumer.position(partition) >= LIVES * SENDS,
                "what compaction has left",
            )
            found = {record.key: record.value for record in records}
        assert found == newest
    finally:
        server.end(signal.SIGKILL)
