"""A client for coroutines that nobody closed tells so once, and neither hangs nor leaves anything behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio
from odradek.client import AsyncAdmin, AsyncConsumer, AsyncProducer

async def main():
    global kept
    BODY

asyncio.run(main())
"""
PRODUCER = (
    "client = AsyncProducer(bootstrap_servers=AT, client_id='c', linger_ms=%s); await client.send(TOPIC)"
)
CONSUMER = (
    "client = AsyncConsumer(TOPIC, bootstrap_servers=AT, group_id='g', client_id='c'); await client.poll(0)"
)
ITERATION = "; asyncio.ensure_future(anext(aiter(client))); await asyncio.sleep(0)"
ADMIN = "client = AsyncAdmin(bootstrap_servers=AT, client_id='c'); await client.list_topics()"


@pytest.mark.parametrize(
    ("body", "client_name"),
    [
        (PRODUCER % 0, "producer 'c'"),
        (PRODUCER % 60_000, "producer 'c'"),
        (PRODUCER % 0 + "; kept = client", "producer 'c'"),
        (PRODUCER % 0 + "; del client; await asyncio.sleep(0)", "producer 'c'"),
        (CONSUMER, "consumer 'c'"),
        (CONSUMER + "; kept = client", "consumer 'c'"),
        (CONSUMER + ITERATION, "consumer 'c'"),
        (ADMIN, "admin client 'c'"),
        (ADMIN + "; kept = client", "admin client 'c'"),
    ],
)
def test_it_tells_once(servers: str, topic: str, body: str, client_name: str) -> None:
    program = PROGRAM.replace("BODY", body).replace("AT", repr(servers)).replace("TOPIC", repr(topic))
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ResourceWarning") == done.stderr.count(f"{client_name} was not closed") == 1, (
        done.stderr
    )
    assert "Task was destroyed" not in done.stderr
    assert "Traceback" not in done.stderr
