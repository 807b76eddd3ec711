"""kill -9 at 200 random moments while a client produces: nothing acknowledged is lost, moved, or there twice.

Real processes: `odradek server`, started on the same folder and port again and again, and our own idempotent
producer, which goes on through all of it. Two of them side by side, so that both cores are busy. Kills fall
into the start (recovery) and into the time after it. The seed is printed and can be given in
`ODRADEK_CRASH_SEED`, the number of kills in `ODRADEK_CRASH_KILLS`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.log import LogConfig, LogManager, RealFileSystem
from odradek.records.batch import iter_batches, iter_records
from odradek.util.clock import SystemClock
from ports import free_port
from waiting import joined

from .server import SETTINGS, Server

SEED = int(os.environ.get("ODRADEK_CRASH_SEED", "20261121"))
KILLS = int(os.environ.get("ODRADEK_CRASH_KILLS", "200"))
PAIRS = 2
PARTITIONS = 3
TOPIC = "events"
OUTSTANDING = 400
STARTING_S = 0.12
"""Within which a start is killed that is not waited for; a quiet machine needs about as long for one."""


class Sender(threading.Thread):
    """Sends numbered records, partition by partition in turn, and notes every answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.producer = Producer(
            bootstrap_servers=f"127.0.0.1:{port}",
            acks="all",
            enable_idempotence=True,
            linger_ms=1,
            retry_backoff_ms=5,
            retry_backoff_max_ms=20,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=20,
            request_timeout_ms=10_000,
            delivery_timeout_ms=150_000,
            metadata_max_age_ms=10_000,
        )
        self.sent = [0] * PARTITIONS
        self.acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        self.problems: list[Exception] = []
        self.stopping = threading.Event()
        self.acks = threading.Semaphore(OUTSTANDING)

    def run(self) -> None:
        turn = 0
        while not self.stopping.is_set():
            if not self.acks.acquire(timeout=0.1):
                continue
            partition = turn % PARTITIONS
            number = self.sent[partition]
            value = b"%d-" % number + b"." * (number * 7 % 300)
            future = self.producer.send(
                TOPIC, value, partition=partition, on_delivery=self.answer(partition, number)
            )
            assert future is not None
            self.sent[partition] += 1
            turn += 1
            if turn % 20 == 0:
                time.sleep(0.002)

    def answer(self, partition: int, number: int):
        """The callback for one record."""

        def on_delivery(metadata, error) -> None:
            self.acks.release()
            if error is not None:
                self.problems.append(error)
            else:
                self.acknowledged[partition].append((number, metadata.offset))

        return on_delivery

    def wait_for_answers(self, count: int) -> None:
        """Return when so many more were acknowledged."""
        before, deadline = self.total(), time.monotonic() + 60
        while self.total() < before + count:
            # Without an answer there is nothing to lose; a broker that gives none is broken.
            assert time.monotonic() < deadline, "nothing was acknowledged for 20 s"
            time.sleep(0.001)

    def total(self) -> int:
        """How many were acknowledged."""
        return sum(map(len, self.acknowledged))


def kill_again_and_again(seed: int, kills: int, directory: Path) -> Sender:
    """One broker's folder and its producer, through so many kills, then a clean stop."""
    rng = random.Random(seed)
    data, port = directory / "data", free_port()
    directory.mkdir()
    server = Server(data, port)
    sender = None
    try:
        server.wait_ready()
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        sender = Sender(port)
        sender.start()
        for number in range(kills):
            if number % 4 != 3:
                server.wait_ready()
                sender.wait_for_answers(rng.randint(1, 60))
                time.sleep(rng.random() * 0.02)
            else:
                time.sleep(rng.random() * STARTING_S)
            server.end(signal.SIGKILL)
            server = Server(data, port)
        server.wait_ready()
        sender.stopping.set()
        joined(sender)
        sender.producer.flush(60)
        sender.producer.close(10)
        assert server.end(signal.SIGTERM) == 0
        return sender
    except BaseException:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)
        if sender is not None:
            sender.stopping.set()
            sender.producer.close(0)
        raise


def records_of(data: Path) -> dict[int, list[tuple[int, int]]]:
    """(number, offset) of every record on the disk, in the order of the log, by partition."""
    manager = LogManager([data], RealFileSystem(), SystemClock(), LogConfig())
    found: dict[int, list[tuple[int, int]]] = {}
    for log in manager.load():
        if log.topic != TOPIC:
            continue
        offset, records = log.log_start_offset, []
        while offset < log.log_end_offset:
            piece = log.read(offset, 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True).records
            records += [(int(record.value.split(b"-")[0]), record.offset) for record in iter_records(piece)]
            offset = max(header.next_offset for header, _ in iter_batches(piece))
        found[log.partition] = records
    manager.close()
    return found


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_moved_or_doubled(tmp_path):
    sys.stdout.write(f"seed {SEED}, {KILLS} kills\n")
    directories = [tmp_path / str(pair) for pair in range(PAIRS)]
    with ThreadPoolExecutor(PAIRS) as pool:
        runs = [
            pool.submit(kill_again_and_again, SEED + pair, KILLS // PAIRS, directory)
            for pair, directory in enumerate(directories)
        ]
        senders = [run.result(300) for run in runs]
    for sender, directory in zip(senders, directories, strict=True):
        assert sender.problems == []
        found = records_of(directory / "data")
        for partition in range(PARTITIONS):
            # Every send was acknowledged in the end, so the log is exactly what was sent, in order.
            numbers = [number for number, _ in found[partition]]
            assert numbers == list(range(sender.sent[partition]))
            assert [offset for _, offset in found[partition]] == numbers
            acknowledged = sender.acknowledged[partition]
            assert [number for number, _ in acknowledged] == numbers
            wrong = [(number, offset) for number, offset in acknowledged if offset not in (number, -1)]
            assert wrong == []
        sys.stdout.write(f"{sender.total()} records were acknowledged\n")
        assert sender.total() > KILLS


@pytest.mark.slow
def test_records_that_were_deleted_stay_deleted(tmp_path):
    """Kill as soon as DeleteRecords was answered, several times; the checkpoints' time never comes."""
    data, port = tmp_path / "data", free_port()
    settings = {
        name: value for name, value in SETTINGS.items() if not name.endswith("checkpoint.interval.ms")
    }
    partition = TopicPartition(TOPIC, 0)
    deleted = 0
    for life in range(6):
        server = Server(data, port, settings)
        try:
            server.wait_ready()
            with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
                if not life:
                    admin.create_topics([NewTopic(TOPIC, 1, 1)])
                with Consumer(bootstrap_servers=f"127.0.0.1:{port}") as consumer:
                    assert consumer.beginning_offsets([partition])[partition] == deleted
                with Producer(bootstrap_servers=f"127.0.0.1:{port}") as producer:
                    for number in range(50):
                        producer.send(TOPIC, b"%d-%d" % (life, number) * 200, partition=0)
                deleted = 50 * life + 20 + life
                admin.delete_records({partition: deleted})
        finally:
            server.end(signal.SIGKILL)
    manager = LogManager([data], RealFileSystem(), SystemClock(), LogConfig())
    manager.load()
    log = manager.get(TOPIC, 0)
    assert log is not None
    assert log.log_start_offset == deleted
    manager.close()
