"""How long one request holds the event loop: of each API, requests as large as the broker takes.

    python benchmarks/stalls.py [--bytes N] [--only NAME]

Each array of each request is filled until the frame has N bytes (4 MB when nothing is said), once with what
exists and once with what does not. The loop is asyncio's own, and the processor time of every callback is
taken. A line tells the longest callback, the whole time until the answer, and the size of both; what is
longest comes last. A broker promises that no request holds its loop for 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from broker import many_items
from odradek.broker.apis.registry import SERVED
from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.process import collector
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_request
from odradek.wire.messages import request_class

LIMIT_MS = 50
WAIT_S = 300
FEW = {19: 500}
"""Requests each of whose items is work for the disk: how many items they have at most."""


class Callbacks:
    """Times every callback of the event loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.what = ""
        whole = asyncio.Handle._run

        def run(handle: Any) -> None:
            began = time.thread_time()
            whole(handle)
            took = time.thread_time() - began
            if took > self.longest_s:
                self.longest_s, self.what = took, repr(handle)[:100]

        asyncio.Handle._run = run  # type: ignore[method-assign]


class Running:
    """A broker in a thread of its own."""

    def __init__(self, folder: str) -> None:
        self.ready = threading.Event()
        self.over: asyncio.Event | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread = threading.Thread(target=lambda: asyncio.run(self._main(folder)))
        self.thread.start()
        self.ready.wait()

    async def _main(self, folder: str) -> None:
        properties = {
            "log.dirs": folder,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "offsets.topic.num.partitions": "1",
        }
        broker = Broker(BrokerConfig(properties))
        await broker.start()
        broker.controller.create_topic(NewTopic(many_items.TOPIC, many_items.PARTITIONS, 1))
        broker.groups.ensure_topic()
        broker.transactions.ensure_topic()
        long_lived = collector.LongLived()
        broker.slicer.on_busy = long_lived.hold_back
        long_lived.start()
        self.port, self.topic_id = broker.port, broker.image.topic_id(many_items.TOPIC)
        self.over, self.loop = asyncio.Event(), asyncio.get_running_loop()
        self.ready.set()
        await self.over.wait()
        await broker.stop()

    def stop(self) -> None:
        """End it."""
        assert self.loop is not None
        assert self.over is not None
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join()


def frame(running: Running, key: int, path: many_items.Path, present: bool, size: int) -> bytes:
    """A request of about `size` bytes."""
    version = SERVED[key].versions[-1]

    def made(count: int) -> bytes:
        message = many_items.request(key, version, path, count, present=present, topic_id=running.topic_id)
        return b"".join(encode_request(key, version, 1, "stalls", message))

    few = made(1_000)
    count = min(int(size / max(1, len(few)) * 1_000), FEW.get(key, 1 << 30))
    whole = made(count)
    while len(whole) > size:
        count = int(count * 0.97)
        whole = made(count)
    return whole


def ask(port: int, request: bytes) -> int:
    """Send a request; returns the size of its answer, 0 if the broker closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(request)
        got = connection.recv(4, socket.MSG_WAITALL)
        left = size = int.from_bytes(got, "big")
        while left > 0:
            got = connection.recv(min(left, 1 << 20))
            if not got:
                return 0
            left -= len(got)
        return size


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bytes", type=int, default=4_000_000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        running, callbacks = Running(folder), Callbacks()
        try:
            for key in many_items.apis():
                for path in many_items.paths(request_class(key), SERVED[key].versions[-1]):
                    for present in (True, False):
                        name = f"{ApiKey(key).api_name}.{'.'.join(path)}"
                        if options.only not in name:
                            continue
                        ask(running.port, frame(running, key, path, present, 2_000))  # what is compiled once
                        request = frame(running, key, path, present, options.bytes)
                        gc.collect()
                        callbacks.longest_s = 0.0
                        began = time.perf_counter()
                        answer = ask(running.port, request)
                        took = time.perf_counter() - began
                        longest_ms = callbacks.longest_s * 1000
                        kind = "present" if present else "absent"
                        lines.append(
                            (
                                longest_ms,
                                f"{longest_ms:8.1f} ms {took:7.2f} s {len(request):9,} {answer:11,} bytes "
                                f"{name} {kind}" + (f"  {callbacks.what}" if longest_ms > LIMIT_MS else ""),
                            )
                        )
                        print(lines[-1][1], flush=True)
        finally:
            running.stop()
    print("\nlongest last:")
    for _, line in sorted(lines):
        print(line)


if __name__ == "__main__":
    main()
