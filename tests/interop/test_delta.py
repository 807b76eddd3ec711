"""`examples/change_data_delta.py` on the Spark that Delta Lake has a release for, with jars from Maven."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.test_pipelines import ROOT, fill, records
from interop import kafka_peer
from interop.conftest import OdradekServer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(1200)]

PYSPARK = "4.2.0"
DELTA = ("io.delta", "delta-spark_2.13", "4.4.0")


@pytest.fixture(scope="module")
def older_pyspark() -> Path:
    """A folder with that PySpark; skips where it cannot be had."""
    folder = kafka_peer.CACHE / f"pyspark-{PYSPARK}"
    with kafka_peer.building(folder.name):
        if not (folder / "complete").exists():
            words = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
            done = subprocess.run(
                [sys.executable, *words, f"pyspark=={PYSPARK}"], capture_output=True, text=True, timeout=900
            )
            if done.returncode:
                pytest.skip(f"pyspark {PYSPARK} is not to be had from PyPI: {done.stderr[-300:]}")
            (folder / "complete").touch()
    return folder


def delta_jars() -> str:
    """Delta's own jars; what else it needs, Spark has."""
    library = kafka_peer.resolve("delta", [DELTA])
    mine = ("delta-", "unitycatalog-")
    return ",".join(str(jar) for jar in sorted(library.glob("*.jar")) if jar.name.startswith(mine))


@pytest.mark.usefixtures("kafka_toolchain")
def test_the_table_is_the_latest_state_of_each_key(
    older_pyspark: Path, server: OdradekServer, tmp_path: Path
) -> None:
    """After the first batch, and after more have been merged, deletions among them."""
    servers, state = server.bootstrap_servers, {}
    for first, count in ((0, 40), (40, 37)):
        fill(servers, first, count)
        found = run(older_pyspark, servers, tmp_path)
        state = latest(servers)
        assert found == state
    assert 0 < len(state) < 20


def run(pyspark: Path, servers: str, folder: Path) -> dict[str, Any]:
    """Run the example; the table that it prints, by key."""
    words = ["--once", "--servers", servers, "--output", str(folder), "--jars", delta_jars()]
    paths = os.pathsep.join([str(pyspark), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "change_data_delta.py"), *words],
        env={**os.environ, "PYTHONPATH": paths, "SPARK_HOME": str(pyspark / "pyspark")},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["customer"]: row for row in rows}


def latest(servers: str) -> dict[str, Any]:
    """The same from the topic, in plain Python."""
    state: dict[str, Any] = {}
    for record in records(servers, "customers"):
        key = record["key"].decode()
        state.pop(key, None)
        if record["value"] is not None:
            state[key] = {"customer": key, **json.loads(record["value"])}
    return state
