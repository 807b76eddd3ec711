"""Our data source beside `spark-sql-kafka-0-10` on topics with all that there can be: the same rows.

What differs is written in docs/pipeline.md: headers of a record that has none.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.test_spark_connector import connector_jars
from odradek import Producer
from odradek.testing import Broker
from seeds import seed
from spark.odd_topics import Manner, PartitionWriter
from waiting import WITHIN_S

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.usefixtures("kafka_toolchain")]

MANNERS = {
    "today": Manner(transactions=True),
    "compacted": Manner(gaps=True, transactions=True),
    "stamped": Manner(by_broker=True, gaps=True),
    "old": Manner(formats=(0, 1, 2), gaps=True, transactions=True, without_time=0.2),
    "back-and-forth": Manner(formats=(2, 0, 2, 1), without_time=0.3),
    "oldest": Manner(formats=(0,)),
}
PARTITIONS = 3
LARGE = 50_000_000
WIDE = 10_000
FILLED = range(0, WIDE, 500)
"""The partitions of the widest topic that have a record."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    limits: Any = {"message_max_bytes": LARGE + 1000, "replica_fetch_max_bytes": LARGE + 1000}
    with Broker(**limits, num_partitions=1) as broker:
        chosen = seed(20261124)
        print(f"seed {chosen}")
        for name, manner in MANNERS.items():
            broker.create_topic(name, partitions=PARTITIONS)
            # The last partition stays empty.
            for partition in range(PARTITIONS - 1):
                rng = random.Random(f"{chosen} {name} {partition}")
                PartitionWriter(broker, name, partition, rng, manner).fill(30)
        broker.create_topic("empty", partitions=2)
        broker.create_topic("large", partitions=1)
        broker.create_topic("wide", partitions=WIDE)
        with Producer(
            bootstrap_servers=broker.bootstrap_servers, max_request_size=LARGE + 1000, buffer_memory=4 * LARGE
        ) as producer:
            for number in range(2):
                producer.send("large", value=bytes([number]) * LARGE, partition=0).result(WITHIN_S)
            for partition in FILLED:
                producer.send("wide", value=b"%d" % partition, partition=partition)
        yield broker


def compared(broker: Broker, reads: list[tuple[str, dict[str, str], dict[str, str]]]) -> list[dict[str, Any]]:
    job = Path(__file__).with_name("spark_odd_input_job.py")
    words = [broker.bootstrap_servers, connector_jars(), json.dumps(reads)]
    done = subprocess.run([sys.executable, str(job), *words], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_the_rows_are_those_of_the_connector(broker: Broker) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    fetch = {"kafka.max.partition.fetch.bytes": "1048576"}
    # It makes a task for each partition that it is told of, empty or not, which is half an hour for so many.
    filled = {"assign": json.dumps({"wide": list(FILLED)})}
    reads: list[tuple[str, dict[str, str], dict[str, str]]] = [(name, {}, {}) for name in MANNERS]
    reads += [(name, committed, {}) for name in MANNERS]
    reads += [
        (",".join(MANNERS), {**committed, "minPartitions": "40"}, {}),
        (",".join(MANNERS), {**fetch, "maxRecordsPerPartition": "7"}, {}),
        ("empty", {}, {}),
        ("large", {}, {}),
        ("wide", {}, filled),
    ]
    for read, seen in zip(reads, compared(broker, reads), strict=True):
        assert seen["same"], (read, seen)
        assert seen["rows"] or read[0] == "empty", read
