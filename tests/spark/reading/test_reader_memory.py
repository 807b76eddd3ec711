"""A task's Python process stays small however large records are: docs/pipeline.md says 300 MiB for 1 MiB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic, Producer

pytestmark = pytest.mark.spark

MIB = 1 << 20
RECORDS = 300


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_reading_records_of_a_mebibyte_takes_less_than_300(servers: str) -> None:
    """The topic is larger than that, so a reader that kept what it has handed over would be seen."""
    pytest.importorskip("pyspark")
    name = "reader-memory"
    limits = {"max.message.bytes": str(2 * MIB)}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, configs=limits)])
    with Producer(bootstrap_servers=servers, max_request_size=2 * MIB) as producer:
        for number in range(RECORDS):
            producer.send(name, bytes([number % 256]) * MIB)
        producer.flush()
    job = Path(__file__).with_name("reader_memory_job.py")
    done = subprocess.run(
        [sys.executable, str(job), servers, name], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    peak_mib = int(done.stdout) / 1024
    assert peak_mib < 300
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([name])
