"""The package comes to executors in an archive of venv-pack, by the commands of docs/spark_cluster.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from odradek.records.kernel import NATIVE
from spark.test_cluster_packages import NEEDED, copy_package, submit
from spark_cluster import SparkCluster

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(900)]

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def test_executors_run_in_an_environment_packed_by_venv_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=120)
    installed = subprocess.run(
        [environment / "bin" / "pip", "install", "-q", "-c", CONSTRAINTS, *NEEDED, "venv-pack"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if installed.returncode:
        pytest.skip(f"PyPI is not there: {installed.stderr[-500:]}")
    # As `pip install` does, without building it once more.
    (site,) = (environment / "lib").glob("python*/site-packages")
    copy_package(site)
    subprocess.run(
        [environment / "bin" / "venv-pack", "-q", "-p", environment, "-o", "environment.tar.gz"],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
    words = ["--archives", f"{tmp_path / 'environment.tar.gz'}#environment"]
    with SparkCluster(tmp_path / "spark", workers=1) as cluster:
        told = submit(cluster, "./environment/bin/python", words, tmp_path)
    assert told["python"].endswith("/environment/bin/python")
    assert str(environment) not in told["python"]
    assert "/environment/lib/" in told["package"]
    assert told["native"] == NATIVE
