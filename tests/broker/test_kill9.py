"""kill -9 in the middle of producing, two hundred times: nothing acknowledged is lost, nothing is there
twice.

Real processes on a real disk. An idempotent producer keeps several requests in flight; after each kill it
sends again what was not acknowledged, with the same sequence numbers, as every real one does. In the end the
log must hold its records exactly once each, in order; and at each restart everything acknowledged so far.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.records.batch import iter_records
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

from .live import batch, fetch, produce

KILLS = 200
IN_FLIGHT = 5
SEED = 20261121


class Brokers:
    """Forks brokers over one data folder, one at a time."""

    def __init__(self, data: Path) -> None:
        self._config = {"log.dirs": str(data), "listeners": "PLAINTEXT://127.0.0.1:0"}
        self._forker = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "forking_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = 0

    def start(self) -> Wire:
        """Start the next broker and connect to it."""
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.write(json.dumps(self._config) + "\n")
        self._forker.stdin.flush()
        pid, address = self._forker.stdout.readline().split()
        self.pid = int(pid)
        host, port = address.rsplit(":", 1)
        return Wire(host, int(port))

    def kill(self) -> None:
        """kill -9, and wait until the process has gone."""
        os.kill(self.pid, signal.SIGKILL)
        while True:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.0005)

    def close(self) -> None:
        """End everything."""
        assert self._forker.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._forker.stdin.close()
        self._forker.wait(10)
        assert self._forker.stdout is not None
        self._forker.stdout.close()


class Wire:
    """A blocking raw connection."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def send(self, message: Any, version: int) -> None:
        self._socket.sendall(b"".join(encode_request(message.API_KEY, version, 1, "kill9", message)))

    def receive(self, key: int, version: int) -> Any:
        """The next response; `ConnectionError` when the broker has died."""
        head = self._stream.read(4)
        frame = self._stream.read(int.from_bytes(head, "big")) if len(head) == 4 else b""
        if len(head) < 4 or len(frame) < int.from_bytes(head, "big"):
            raise ConnectionResetError
        return decode_response(frame, key, version)[1]

    def call(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return self.receive(message.API_KEY, version)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class Producer:
    """An idempotent producer of the numbers 0, 1, 2, … with several requests in flight."""

    def __init__(self, producer_id: int, rng: random.Random) -> None:
        self._producer_id = producer_id
        self._rng = rng
        self.acknowledged = 0
        self._sent = 0
        self._in_flight: deque[tuple[int, bytes]] = deque()

    def _next_batch(self) -> tuple[int, bytes]:
        count = self._rng.choice((1, 1, 2, 5, 20))
        first = self._sent
        self._sent += count
        padding = b"x" * self._rng.choice((0, 10, 500))
        values = [b"%d %b" % (number, padding) for number in range(first, first + count)]
        return count, batch(
            values, producer_id=self._producer_id, producer_epoch=0, base_sequence=first % 2**31
        )

    def run(self, wire: Wire, acks: int, linger_s: float, kill: Any) -> None:
        """Send again what is open, go on until so many acks have come, and a moment later kill the broker."""
        for _, records in self._in_flight:
            wire.send(produce("t", records), 9)
        for _ in range(acks):
            while len(self._in_flight) < IN_FLIGHT:
                self._in_flight.append(self._next_batch())
                wire.send(produce("t", self._in_flight[-1][1]), 9)
            self._take_ack(wire)
        while len(self._in_flight) < IN_FLIGHT:
            self._in_flight.append(self._next_batch())
            wire.send(produce("t", self._in_flight[-1][1]), 9)
        deadline = time.perf_counter() + linger_s
        while time.perf_counter() < deadline:
            pass
        kill()
        # What was acknowledged before it died counts as well.
        with contextlib.suppress(ConnectionError):
            while self._in_flight:
                self._take_ack(wire)

    def finish(self, wire: Wire) -> None:
        """Send again what is open, and wait for all of it."""
        for _, records in self._in_flight:
            wire.send(produce("t", records), 9)
        while self._in_flight:
            self._take_ack(wire)

    def _take_ack(self, wire: Wire) -> None:
        answer = wire.receive(0, 9).responses[0].partition_responses[0]
        count, _ = self._in_flight[0]
        assert answer.error_code == 0, answer
        assert answer.base_offset == self.acknowledged, answer
        self._in_flight.popleft()
        self.acknowledged += count


def read_numbers(wire: Wire, offset: int) -> list[int]:
    """The numbers from `offset` to the log's end, checked to stand at their own offset."""
    numbers: list[int] = []
    while True:
        answer = wire.call(fetch("t", offset, max_bytes=2**24, partition_max_bytes=2**24), 12)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == 0
        if not partition.records:
            assert partition.high_watermark == offset
            return numbers
        for record in iter_records(partition.records):
            if record.offset < offset:
                continue
            number = int((record.value or b"").split(b" ")[0])
            assert number == record.offset
            numbers.append(number)
            offset = record.offset + 1


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing(brokers: Brokers) -> None:
    rng = random.Random(SEED)
    print(f"seed {SEED}")  # noqa: T201 - to run it again
    wire = brokers.start()
    wire.call(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="t",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name="segment.bytes", value="100000")],
                )
            ],
            timeout_ms=1000,
        ),
        4,
    )
    started = wire.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
    producer = Producer(started.producer_id, rng)
    checked = 0
    for _ in range(KILLS):
        producer.run(wire, rng.randrange(20), rng.random() * 0.004, brokers.kill)
        wire.close()
        wire = brokers.start()
        # Everything acknowledged is there; what was in flight may be, and then follows it in order.
        there = checked + len(read_numbers(wire, checked))
        assert there >= producer.acknowledged
        checked = max(0, producer.acknowledged - 50)
    producer.finish(wire)
    assert read_numbers(wire, 0) == list(range(producer.acknowledged))
    wire.close()
