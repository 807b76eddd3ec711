"""kill -9 under the clients: a broker dies amid produce and consume, and comes back on the same port."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from odradek.client import Consumer, Producer
from waiting import WITHIN_S

pytestmark = pytest.mark.model


class Server:
    """`odradek server` in a process of its own."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "odradek",
            "server",
            "--data",
            str(self._data),
            "--port",
            str(self.port),
        ]
        settings = (
            "num.partitions=2",
            "group.initial.rebalance.delay.ms=0",
            "offsets.topic.num.partitions=2",
        )
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready "), line
        self.port = int(line.rsplit(":", 1)[1])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate(timeout=WITHIN_S)


def test_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        at = f"127.0.0.1:{server.port}"
        sent: dict[int, list[bytes]] = {0: [], 1: []}
        with Producer(bootstrap_servers=at, linger_ms=2, batch_size=2_000) as producer:
            futures: list[Any] = []
            for round_number in range(3):
                for i in range(2_000):
                    value = f"{round_number}:{i}".encode()
                    sent[i % 2].append(value)
                    futures.append(producer.send("t", value, partition=i % 2))
                if round_number < 2:
                    futures[-1_500].result(60)
                    server.kill()
                    server.start()
            producer.flush(60)
            for future in futures:
                future.result(0)
        with Consumer("t", group_id="g", bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
            got: dict[int, list[bytes]] = {0: [], 1: []}
            deadline = time.monotonic() + 60
            killed = False
            while sum(map(len, got.values())) < 6_000:
                assert time.monotonic() < deadline
                for record in consumer.poll(200):
                    got[record.partition].append(record.value)
                if not killed and sum(map(len, got.values())) > 2_000:
                    server.kill()
                    server.start()
                    killed = True
        assert got == sent
    finally:
        server.kill()
