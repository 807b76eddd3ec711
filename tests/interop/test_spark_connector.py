"""`spark-sql-kafka-0-10`, unmodified, on our broker: batch, stream, real-time mode."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interop import compatibility, kafka_peer, members, row_names
from interop.conftest import OdradekServer
from interop.tap import OURS
from odradek import Admin, Consumer, NewTopic, Producer
from waiting import WITHIN_S

CONNECTOR = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
]


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.usefixtures("kafka_toolchain")
def test_the_connector_reads_and_writes(
    tapped: OdradekServer, tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    pyspark = pytest.importorskip("pyspark")
    row = compatibility_row(*row_names.spark(pyspark.__version__, CONNECTOR[0][2]))
    job = Path(__file__).with_name("spark_connector_job.py")
    done = subprocess.run(
        [sys.executable, str(job), tapped.bootstrap_servers, str(tmp_path / "checkpoint"), connector_jars()],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    saw = json.loads(done.stdout.splitlines()[-1])
    assert (saw["rows"], saw["copied"]) == (2_000, 2_000)
    assert saw["batches"] >= 3
    assert saw["first"] == ["0", "value-0", "connector", 0]
    assert saw["header"] == ["n", "0"]
    row.does("produce", what="none")
    row.does("consume")


def connector_jars() -> str:
    """The connector's jars, as `spark.jars` wants them."""
    library = kafka_peer.resolve("spark-connector", CONNECTOR, transitive=False)
    return ",".join(str(jar) for jar in sorted(library.glob("*.jar")))


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("trigger", ["stream", "real-time"])
def test_a_stream_goes_on_over_a_restart(
    trigger: str, tapped: OdradekServer, tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    """Topic → topic while the broker restarts: no value is lost (the connector's sink may repeat some)."""
    pyspark = pytest.importorskip("pyspark")
    at = tapped.bootstrap_servers
    with Admin(bootstrap_servers=at, client_id=OURS) as admin:
        admin.create_topics([NewTopic("live", num_partitions=2), NewTopic("live.copy", num_partitions=2)])
    job = Path(__file__).with_name("spark_connector_live_job.py")
    log = tmp_path / "job.log"
    with log.open("w", encoding="utf-8") as errors:
        child = subprocess.Popen(
            [sys.executable, str(job), at, str(tmp_path / "checkpoint"), connector_jars(), trigger],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    assert child.stdout is not None
    assert child.stdin is not None
    copied: list[tuple[bytes | None, bytes | None]] = []
    try:
        answer = child.stdout.readline().strip()
        if answer.startswith("refused"):
            assert trigger == "real-time", answer
            pytest.skip(f"Spark's real-time mode with its own connector: {answer}")
        assert answer == "started", log.read_text(encoding="utf-8")[-4000:]
        row = compatibility_row(*row_names.spark(pyspark.__version__, CONNECTOR[0][2]))
        with Consumer(
            "live.copy", bootstrap_servers=at, client_id=OURS, group_id="copied", auto_offset_reset="earliest"
        ) as consumer:
            sent: set[bytes] = set()

            def arrived() -> bool:
                assert child.poll() is None, log.read_text(encoding="utf-8")[-4000:]
                copied.extend((r.key, r.value) for r in consumer.poll(timeout_ms=200))
                return sent <= {value for _, value in copied if value is not None}

            for part in range(2):
                values = [b"%d-%d" % (part, i) for i in range(100)]
                with Producer(bootstrap_servers=at, client_id=OURS) as producer:
                    for i, value in enumerate(values):
                        producer.send("live", key=b"k", value=value, partition=i % 2)
                    producer.flush()
                sent |= set(values)
                members.until(f"part {part} is copied", arrived)
                if part == 0:
                    tapped.restart()
        child.stdin.close()
        assert child.wait(60) == 0, log.read_text(encoding="utf-8")[-4000:]
        assert child.stdout.read().strip() == "stopped"
    finally:
        if child.poll() is None:
            child.kill()
            child.wait(WITHIN_S)
        child.stdout.close()
        child.stdin.close()
    assert {value for _, value in copied} == sent
    assert {key for key, _ in copied} == {b"k"}
    row.does("broker restart")
