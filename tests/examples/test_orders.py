"""The orders pipeline of `examples/`, three ways: all give the same, checked against plain Python."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples"
PRICES_CENTS = {"tea": 350, "coffee": 420, "mate": 510}
ORDERS = 1000


@pytest.fixture
def servers() -> Iterator[str]:
    """A broker with the orders in it; a new one for each way, so that results are not mixed."""
    from odradek.testing import Broker

    with Broker(num_partitions=2) as broker:
        feed(broker.bootstrap_servers, first=0, count=ORDERS)
        yield broker.bootstrap_servers


def feed(servers: str, first: int, count: int) -> None:
    """Put orders into the topic."""
    numbers = ["--first", first, "--count", count]
    run(sys.executable, EXAMPLES / "orders.py", "--servers", servers, *numbers)


def run(*command: Any, cwd: Path | None = None, **environment: str) -> str:
    """Run a program to its end; what it printed."""
    from odradek.spark.sessions.java import find_java

    done = subprocess.run(
        [str(word) for word in command],
        env={
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **environment,
        },
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def good_orders(count: int = ORDERS) -> list[dict[str, Any]]:
    """The orders that can be read, with their totals, worked out without Spark."""
    products = list(PRICES_CENTS)
    orders = []
    for number in range(count):
        if number % 50 == 49:
            continue
        product, quantity = products[number % 3], 1 + number % 4
        price = PRICES_CENTS[product]
        orders.append(
            {
                "order": number,
                "product": product,
                "quantity": quantity,
                "price_cents": price,
                "time_ms": 1_767_225_600_000 + 250 * number,
                "total_cents": quantity * price,
            }
        )
    return orders


def good_revenue(count: int = ORDERS) -> dict[tuple[datetime, str], tuple[int, int]]:
    """(minute, product) → (orders, revenue in cents)."""
    totals: Counter[tuple[datetime, str]] = Counter()
    counts: Counter[tuple[datetime, str]] = Counter()
    for order in good_orders(count):
        moment = datetime.fromtimestamp(order["time_ms"] / 1000, UTC)
        key = (moment.replace(second=0, microsecond=0), order["product"])
        counts[key] += 1
        totals[key] += order["total_cents"]
    return {key: (counts[key], totals[key]) for key in totals}


def priced_in_topic(servers: str) -> list[dict[str, Any]]:
    """What the pipeline wrote to its topic, by order number."""
    from odradek.client import RawReader

    found = []
    with RawReader(servers) as reader:
        partitions = [("orders-priced", number) for number in reader.partitions_for("orders-priced")]
        for (topic, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(topic, number, 0, end):
                for key, value in zip(
                    rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
                ):
                    order = json.loads(value)
                    assert order["product"].encode() == key
                    found.append(order)
    return sorted(found, key=lambda order: order["order"])


def rejected(servers: str) -> int:
    """How many orders went to the topic of those that cannot be read."""
    from odradek.client import RawReader

    with RawReader(servers) as reader:
        partitions = [("orders-rejected", number) for number in reader.partitions_for("orders-rejected")]
        return sum(reader.end_offsets(partitions).values())


def revenue_in(folder: Path) -> dict[tuple[datetime, str], tuple[int, int]]:
    """What the pipeline wrote as Parquet."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for file in folder.glob("**/*.parquet"):
        rows += pq.ParquetFile(file).read().to_pylist()
    found = {
        (row["minute"].replace(tzinfo=UTC), row["product"]): (row["orders"], row["revenue_cents"])
        for row in rows
    }
    assert len(found) == len(rows)
    return found


def test_as_a_stream(servers: str, tmp_path: Path) -> None:
    command = [
        sys.executable, EXAMPLES / "streaming_job.py", "--once", "--servers", servers, "--output", tmp_path
    ]  # fmt: skip
    run(*command)
    assert priced_in_topic(servers) == good_orders()
    assert revenue_in(tmp_path / "revenue") == good_revenue()


def test_as_a_batch_job(servers: str, tmp_path: Path) -> None:
    printed = run(sys.executable, EXAMPLES / "batch_job.py", "--servers", servers, "--output", tmp_path)
    assert priced_in_topic(servers) == good_orders()
    assert revenue_in(tmp_path / "revenue") == good_revenue()
    assert "2026-01-01 00:00:00" in printed


def test_declared(servers: str, tmp_path: Path) -> None:
    """`spark-pipelines run`, twice: the second run reads what is new, and repeats nothing."""
    pytest.importorskip("grpc")
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "declarative", project, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("spark-pipeline.yml", "spark.conf"):
        text = (project / name).read_text(encoding="utf-8")
        (project / name).write_text(
            text.replace("/tmp/odradek-orders", str(tmp_path / "out")), encoding="utf-8"
        )
    command = [
        Path(sysconfig.get_path("scripts")) / "spark-pipelines",
        "run",
        "--properties-file",
        project / "spark.conf",
        "--spec",
        project / "spark-pipeline.yml",
    ]
    for orders in (ORDERS, ORDERS + 200):
        if orders > ORDERS:
            feed(servers, first=ORDERS, count=orders - ORDERS)
        # Of the two JVMs one knows no options but these.
        run(*command, cwd=tmp_path, ORDERS_SERVERS=servers, JDK_JAVA_OPTIONS=os.environ["SPARK_SUBMIT_OPTS"])
        assert priced_in_topic(servers) == good_orders(orders)
        assert rejected(servers) == orders // 50
        assert revenue_in(tmp_path / "out" / "warehouse" / "revenue") == good_revenue(orders)
