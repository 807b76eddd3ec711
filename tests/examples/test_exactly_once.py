"""`examples/exactly_once.py` on our broker: killed again and again, and every order is billed once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from odradek import Admin, Consumer, NewTopic, TopicPartition
from odradek.client import RawReader
from odradek.testing import Broker
from waiting import WITHIN_S, gathered, until

EXAMPLES = Path(__file__).parents[2] / "examples"
PRICES_CENTS = {"tea": 350, "coffee": 420, "mate": 510}
ORDERS = 3_000
SEED = 7


def command(servers: str, *more: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / "exactly_once.py"), "--servers", servers, *more]


def invoices(servers: str) -> Counter[int]:
    """How often each order was billed, as read_committed readers see it."""
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition("invoices", partition) for partition in range(2)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        records = gathered(
            lambda: consumer.poll(500),
            lambda: all(consumer.position(tp) >= end for tp, end in ends.items()),
            f"the invoices up to {ends}",
        )
    return Counter(json.loads(record.value)["order"] for record in records)


def written(log: RawReader) -> int:
    """How many records and markers are in the topic of invoices, committed or not."""
    return sum(log.end_offsets([("invoices", 0), ("invoices", 1)]).values())


@pytest.mark.parametrize("by_hand", [False, True])
def test_each_run_shows_its_point(by_hand: bool) -> None:
    """From the first, on a broker that has nothing yet."""
    with Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1) as broker:
        at = broker.bootstrap_servers
        for run in (1, 2):
            ended = subprocess.run(
                command(at, *(["--by-hand"] if by_hand else [])),
                timeout=120,
                capture_output=True,
                text=True,
                check=True,
            )
            # Every fiftieth order cannot be read.
            assert ended.stdout == f"{run * 98} orders have been billed in all, 0 of them more than once\n"
            assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("by_hand", [False, True])
def test_killed_at_any_moment(by_hand: bool) -> None:
    rng = random.Random(SEED)
    words = ["--idle-polls", "4", "--new-orders", "0"] + (["--by-hand"] if by_hand else [])
    with Broker(num_partitions=2) as broker:
        at = broker.bootstrap_servers
        with Admin(bootstrap_servers=at) as admin:
            admin.create_topics([NewTopic("orders", 2, 1), NewTopic("invoices", 2, 1)])
        feed = [sys.executable, str(EXAMPLES / "orders.py"), "--servers", at, "--count", str(ORDERS)]
        subprocess.run(feed, check=True, timeout=60)
        readable = {number for number in range(ORDERS) if number % 50 != 49}
        with RawReader(at) as log:
            for _ in range(8):
                before = written(log)
                program = subprocess.Popen(command(at, *words, "--max-records", "20"))
                # In the midst of its work, wherever that is.
                until(
                    lambda program=program, before=before: (
                        program.poll() is not None or written(log) >= before + rng.randrange(1, 200)
                    ),
                    "the program at work, or its end",
                    every_s=0,
                    instead=lambda: written(log),
                )
                program.kill()
                program.wait(WITHIN_S)
            assert before > 0
        done = subprocess.run(command(at, *words), timeout=120, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = invoices(at)
    assert found == Counter(readable), f"seed {SEED}"
