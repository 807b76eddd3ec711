"""Which Python a session's workers are started by."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from odradek.spark.sessions import worker_python
from odradek.spark.sessions.worker_python import DRIVERS, NAMES, PROGRAM, PYTHON


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been chosen in this process."""
    monkeypatch.setattr(worker_python, "_set_here", {})


def told(environment: dict[str, str]) -> set[str | None]:
    return {environment.get(name) for name in NAMES}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_on_one_machine_a_script_starts_this_python(master: str) -> None:
    environment: dict[str, str] = {}
    worker_python.choose(environment, master)
    assert told(environment) == {str(PROGRAM)}
    assert environment[PYTHON] == sys.executable


@pytest.mark.parametrize("master", ["", "yarn", "spark://127.0.0.1:7077", "local-cluster[2,1,1024]"])
def test_elsewhere_executors_get_no_path_of_a_script(master: str) -> None:
    environment: dict[str, str] = {}
    worker_python.choose(environment, master)
    assert told(environment) == {sys.executable}


def test_a_session_on_a_cluster_after_one_on_this_machine_has_the_python_itself() -> None:
    environment: dict[str, str] = {}
    worker_python.choose(environment, "local[2]")
    worker_python.choose(environment, "yarn")
    assert told(environment) == {sys.executable}


@pytest.mark.parametrize("prefixes", [1, 2])
def test_a_pyspark_of_the_system_is_found_by_an_environment_that_sees_the_system(
    prefixes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "system"
    monkeypatch.setattr(site, "PREFIXES", [sys.prefix, str(system)][:prefixes])
    package = Path(site.getsitepackages([str(system)])[0]) / "pyspark" / "__init__.py"
    spec = importlib.machinery.ModuleSpec("pyspark", None, origin=str(package))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    environment: dict[str, str] = {}
    worker_python.choose(environment, "local[2]")
    assert told(environment) == {str(PROGRAM) if prefixes == 2 else sys.executable}


def test_a_python_that_somebody_has_named_for_the_driver_stays() -> None:
    environment = {DRIVERS: "/opt/python"}
    worker_python.choose(environment, "local[2]")
    assert told(environment) == {"/opt/python", sys.executable}


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_a_python_that_somebody_has_named_for_workers_is_the_only_one(master: str) -> None:
    environment: dict[str, str] = {}
    worker_python.choose(environment, master)
    environment["PYSPARK_PYTHON"] = "/opt/python"
    worker_python.choose(environment, master)
    # A driver's Python that is named would run the source on executors too.
    assert told(environment) == {"/opt/python", None}


def test_another_spark_brings_a_pyspark_of_its_own(tmp_path: Path) -> None:
    environment = {"SPARK_HOME": str(tmp_path)}
    worker_python.choose(environment, "local[2]")
    assert told(environment) == {sys.executable}


def test_the_script_leaves_out_spark_s_zips_and_nothing_else(tmp_path: Path) -> None:
    zips = [f"/x/site-packages/pyspark/python/lib/{name}.zip" for name in ("pyspark", "py4j-0.10.9.9-src")]
    kept = [str(tmp_path), "/with blanks and */x", "/some/other.zip"]
    environment = {**os.environ, PYTHON: sys.executable, "PYTHONPATH": ":".join([*zips, *kept, *zips])}
    done = subprocess.run(
        [str(PROGRAM), "-c", "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:])", "a b", "*"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout == f"{':'.join(kept)} a b *\n"
