"""Programs that end their clients in a signal's handler, wherever the signal comes.

The signals are real, and come at seeded times; each round that does not end is told with its seed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest

from odradek.client import Admin
from odradek.testing import Broker

from .conftest import new_topic

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")

#: Arms a timer whose signal comes while the round is at work; what hangs ends the process with all stacks.
COMMON = """
import faulthandler, random, signal, sys
from odradek import Consumer, Producer

servers, topic, seed, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)

def arm(handler):
    signal.signal(signal.SIGALRM, handler)
    faulthandler.dump_traceback_later(60, exit=True)
    signal.setitimer(signal.ITIMER_REAL, rng.choice([0.0005, 0.005, 0.05]) * rng.random() + 1e-5)
"""

#: `flush(5)` and `close()` around sends: all that `send` has returned is delivered.
SENDING = """
kinds = {
    "plain": {},
    "headers": {"headers": {"h": "x"}},
}
for turn in range(rounds):
    linger_ms, batch_size = rng.choice([0, 5, 50]), rng.choice([300, 16384])
    producer = Producer(bootstrap_servers=servers, linger_ms=linger_ms, batch_size=batch_size)
    producer.partitions_for(topic)
    futures, ended = [], []

    def end(*_):
        sent = len(futures)
        producer.flush(5)
        assert all(future.done() for future in futures[:sent]), turn
        producer.close()
        ended.append(sent)

    more = kinds[rng.choice(sorted(kinds))]
    arm(end)
    try:
        while not ended:
            futures.append(producer.send(topic, b"x" * 50, **more))
            if rng.random() < 0.01:
                futures[-1].result(60)
    except Exception as problem:
        if type(problem).__name__ != "ClosedError" or not ended:
            raise
    producer.close()
    assert all(future.result(0).offset >= 0 for future in futures), turn
"""

#: The broker has gone: `close(timeout)` in the handler keeps its timeout.
SENDING_TO_NOBODY = """
import time
for turn in range(rounds):
    producer = Producer(bootstrap_servers=servers, linger_ms=0)
    ended = []

    def end(*_):
        began = time.monotonic()
        producer.close(0.05)
        ended.append(time.monotonic() - began)

    arm(end)
    try:
        while not ended:
            producer.send(topic, b"x")
    except Exception as problem:
        if type(problem).__name__ != "ClosedError" or not ended:
            raise
    # Not that it takes no longer, on a busy machine, but that it is not the 60 s of a send.
    assert ended[0] < 30, ended
"""

#: `close()` around polls and commits: the call that was interrupted says that it was closed.
POLLING = """
for turn in range(rounds):
    consumer = Consumer(bootstrap_servers=servers, group_id=f"g{turn}", auto_offset_reset="earliest")
    way = rng.choice(["poll", "iteration", "commit"])
    if rng.random() < 0.5:
        consumer.assign([(topic, 0)])
    else:
        consumer.subscribe([topic])
    ended, woken = [], rng.random() < 0.3

    def end(*_):
        if woken:
            consumer.wakeup()
        else:
            consumer.close()
        ended.append(True)

    arm(end)
    try:
        while True:
            if way == "iteration":
                for record in consumer:
                    pass
            consumer.poll(60_000)
            if way == "commit":
                consumer.commit()
    except Exception as problem:
        if type(problem).__name__ not in ("ClosedError", "WakeupError") or not ended:
            raise
    consumer.close()
"""


@pytest.fixture(scope="module")
def numbers(servers: str, admin: Admin) -> str:
    return new_topic(admin, 1)


def play(program: str, servers: str, topic: str, rounds: int, **environ: str) -> Any:
    seed = int(os.environ.get("ODRADEK_TEST_SEED") or random.randrange(1 << 32))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMON + program, servers, topic, str(seed), str(rounds)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-6000:]}"


@pytest.mark.parametrize("program", [SENDING, POLLING], ids=["sending", "polling"])
def test_a_handler_ends_the_client(servers: str, numbers: str, program: str) -> None:
    play(program, servers, numbers, 60)


def test_a_handler_keeps_its_time_where_the_broker_has_gone() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
    play(SENDING_TO_NOBODY, servers, "t", 20)
