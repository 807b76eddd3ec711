"""`spark-sql-kafka-0-10`, unmodified, reads and writes our broker: batch and stream."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interop import kafka_peer
from interop.conftest import OdradekServer

CONNECTOR = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
]


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.usefixtures("kafka_toolchain")
def test_the_connector_reads_and_writes(server: OdradekServer, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    library = kafka_peer.resolve("spark-connector", CONNECTOR, transitive=False)
    jars = ",".join(str(jar) for jar in sorted(library.glob("*.jar")))
    job = Path(__file__).with_name("spark_connector_job.py")
    done = subprocess.run(
        [sys.executable, str(job), server.bootstrap_servers, str(tmp_path / "checkpoint"), jars],
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
