"""A thin client of Spark Connect, without odradek, on a server that has it: docs/spark_cluster.md."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from interop import programs
from interop.conftest import OdradekServer
from spark_cluster import ConnectServer, SparkCluster

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

CLIENT = Path(__file__).with_name("python") / "spark_connect_client.py"
#: The newest release of the thin client on PyPI; it works with newer servers.
VERSION = "4.2.0"


@pytest.fixture(scope="module")
def thin_python() -> str:
    """A Python that has `pyspark-client` and what that needs; skips, by name, where it cannot be had."""
    try:
        return programs.python_with("pyspark-client", VERSION)
    except RuntimeError as why:
        pytest.skip(str(why))


def test_a_client_without_odradek_reads_and_writes_topics(
    thin_python: str, server: OdradekServer, tmp_path: Path
) -> None:
    alone = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    with (
        SparkCluster(tmp_path / "spark", workers=1) as cluster,
        ConnectServer(tmp_path / "connect", cluster.url) as connect,
    ):
        words = [thin_python, str(CLIENT), connect.url, server.bootstrap_servers]
        done = subprocess.run(
            [*words, str(tmp_path / "checkpoint")], env=alone, capture_output=True, text=True, timeout=400
        )
        log = connect.log.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:] + log[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["numbers"] == list(range(1000))
    assert told["doubled"] == [2 * number for number in range(1000)]
