"""How odradek comes to executors whose Python does not have it: docs/spark_cluster.md."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.records.kernel import NATIVE
from spark_cluster import SparkCluster, environment, session_settings, spark_home

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("packaged_job.py")
SOURCES = Path(__file__).parents[2] / "src"
PROBE = Path(__file__).with_name("pyspark_probe")
#: All that the source needs beside PySpark, which a cluster brings.
NEEDED = ("pyarrow", "fastcrc", "cramjam", "lz4", "zlib_ng", "zstandard")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, bare: Path) -> Iterator[SparkCluster]:
    """One worker, which is told nothing of where the tests have their modules; its `python3` is bare."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        patch.setenv("PATH", str(bare.parent), prepend=os.pathsep)
        with SparkCluster(tmp_path_factory.mktemp("spark"), workers=1) as running:
            yield running


def environment_of(folder: Path) -> Path:
    """A new virtual environment that has what the source needs, and not the source. Returns its packages."""
    venv.create(folder, with_pip=False)
    (site,) = (folder / "lib").glob("python*/site-packages")
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        (site / name).symlink_to(Path(spec.origin).parent)
    return site


def copy_package(into: Path) -> None:
    """Put odradek there, as `pip install --no-deps --target` does, and the probe of the job."""
    for folder in (SOURCES / "odradek", SOURCES / "pyspark_odradek", PROBE):
        shutil.copytree(folder, into / folder.name, ignore=shutil.ignore_patterns("__pycache__", "*.c"))
    for compiled in SOURCES.glob("odradek__mypyc.*"):
        shutil.copy(compiled, into)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without odradek."""
    folder = tmp_path_factory.mktemp("bare")
    environment_of(folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in a zip."""
    folder = tmp_path_factory.mktemp("package")
    copy_package(folder / "package")
    return Path(shutil.make_archive(str(folder / "odradek"), "zip", folder / "package"))


def submit(
    cluster: SparkCluster, python: Path | str, words: list[str], where: Path, *job: str
) -> dict[str, Any]:
    """Run the job in a driver and executors that each look their Python up by this one name.

    Spark runs a data source by the name of the driver's Python, on executors too.

    Args:
        cluster: which runs the executors.
        python: a path, of a Python without odradek or in an archive, or a name: `python3` is that of the
            tests for the driver, which has odradek, and the bare one for the executors.
        words: further ones for spark-submit.
        where: the folder in which the driver runs.
        job: further words for the job.

    Returns:
        What the job says.
    """
    from odradek.testing import Broker

    conf = [word for name, value in session_settings().items() for word in ("--conf", f"{name}={value}")]
    given = environment({"PYSPARK_PYTHON": str(python)})
    given.pop("PYSPARK_DRIVER_PYTHON", None)
    if python == "python3":
        # The tasks of a data source look there, too: odradek is not to be found there.
        given["PYTHONPATH"] = str(PROBE.parent)
        given["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{given['PATH']}"
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url]
    with Broker() as broker:
        done = subprocess.run(
            [*command, *conf, *words, str(JOB), broker.bootstrap_servers, *job],
            cwd=where,
            env=given,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["sum"] == 999 * 500
    # The tasks of a data source are not started as others are: they run by the name of the driver's Python.
    assert told["source"] == {"python": told["python"], "package": told["package"]}
    return told


def test_in_a_zip_the_twins_in_python_serve(
    cluster: SparkCluster, bare: Path, package: Path, tmp_path: Path
) -> None:
    """Neither driver nor executors have odradek: `--py-files` brings it to both, to be registered."""
    told = submit(cluster, bare, ["--py-files", str(package)], tmp_path, "register")
    assert "odradek.zip/odradek" in told["package"]
    assert not told["native"]
    # Spark looks for data sources by their names before it looks into `--py-files`.
    assert "DATA_SOURCE_NOT_FOUND" in told["error"]


def test_unpacked_from_a_zip_its_kernels_serve(
    cluster: SparkCluster, bare: Path, package: Path, tmp_path: Path
) -> None:
    words = ["--archives", f"{package}#odradek-package"]
    words += ["--conf", "spark.executorEnv.PYTHONPATH=odradek-package"]
    told = submit(cluster, "python3", words, tmp_path)
    assert told["python"] == str(bare.with_name("python3"))
    assert "odradek-package/odradek" in told["package"]
    assert told["native"] == NATIVE


def test_in_an_archive_of_a_virtual_environment(cluster: SparkCluster, tmp_path: Path) -> None:
    """The driver has it under the same name, as it was made there."""
    site = environment_of(tmp_path / "environment")
    copy_package(site)
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(tmp_path / "environment", ".")
    words = ["--archives", f"{tmp_path / 'environment.tar.gz'}#environment"]
    told = submit(cluster, "./environment/bin/python", words, tmp_path)
    assert told["python"].endswith("/environment/bin/python")
    assert not told["python"].startswith(str(tmp_path / "environment"))
    assert told["native"] == NATIVE
