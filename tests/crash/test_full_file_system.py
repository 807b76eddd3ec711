"""A file system that is full to the last block, under a real broker: not only the log fails then, but also
checkpoints, the metadata, offsets and new topics. Nothing that was acknowledged is lost, and everything goes
on when there is room.

Needs to mount a small tmpfs, so it runs for root alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import Admin, Consumer, NewTopic, Producer
from odradek.errors import KafkaError
from ports import free_port
from waiting import WITHIN_S, gathered

from .server import Server

TOPIC = "events"
MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
        timeout=WITHIN_S,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, timeout=WITHIN_S)


def consume(port: int, count: int) -> dict[int, bytes]:
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning()
        records = gathered(lambda: consumer.poll(1_000), count, f"{count} records")
    assert [record.offset for record in records] == list(range(len(records)))
    return {record.offset: record.value for record in records}


class Writer:
    """Sends one record at a time and remembers what was acknowledged."""

    def __init__(self, port: int) -> None:
        self._producer = Producer(
            bootstrap_servers=f"127.0.0.1:{port}", acks="all", enable_idempotence=False, retries=0
        )
        self.acknowledged: dict[int, bytes] = {}
        self._count = 0

    def send(self, size: int) -> bool:
        self._count += 1
        value = b"%08d" % self._count + bytes(size)
        try:
            metadata = self._producer.send(TOPIC, value, partition=0).result(timeout=30)
        except KafkaError as error:
            assert error.code.name == "KAFKA_STORAGE_ERROR", error
            return False
        assert metadata.offset not in self.acknowledged
        self.acknowledged[metadata.offset] = value
        return True

    def close(self) -> None:
        self._producer.close()


def fill(disk: Path) -> Path:
    """Take every block that is left."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for chunk in (MIB, 4096, 512, 1):
            try:
                while True:
                    file.write(bytes(chunk))
            except OSError:
                continue
    return ballast


def test_a_full_file_system(small_disk: Path, tmp_path: Path) -> None:
    port = free_port()
    data = small_disk / "data"
    settings = {
        "log.segment.bytes": "200000",
        "offsets.topic.num.partitions": "1",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    server = Server(data, port, settings)
    try:
        server.wait_ready()
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])
        writer = Writer(port)
        while len(writer.acknowledged) < 50:
            assert writer.send(5_000)
        ballast = fill(small_disk)
        # Whether a byte more goes into a block that is begun is the file system's affair.
        while writer.send(5_000):
            pass
        for _ in range(3):
            assert not writer.send(5_000)
        full_at = len(writer.acknowledged)
        # Reading goes on, and so does what needs no disk; what needs it says so.
        assert consume(port, full_at) == writer.acknowledged
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            with pytest.raises(KafkaError):
                admin.create_topics([NewTopic("another", 50, 1)])
            assert TOPIC in admin.list_topics()
        assert server.process.poll() is None

        ballast.unlink()
        assert writer.send(5_000)
        while len(writer.acknowledged) < full_at + 50:
            assert writer.send(5_000)
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            admin.create_topics([NewTopic("another", 1, 1)])
        assert consume(port, full_at + 50) == writer.acknowledged

        # It fills up again, and the broker is stopped, and killed, while it is full.
        for number in (signal.SIGTERM, signal.SIGKILL):
            ballast = fill(small_disk)
            while writer.send(5_000):
                pass
            writer.close()
            server.end(number)
            ballast.unlink()
            server = Server(data, port, settings)
            server.wait_ready()
            count = len(writer.acknowledged)
            assert consume(port, count) == writer.acknowledged
            known = writer.acknowledged
            writer = Writer(port)
            writer.acknowledged = known
            assert writer.send(100)
        writer.close()
        assert server.end(signal.SIGTERM) == 0
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)
