"""The statements of image/Containerfile hold, and its entrypoint makes the commands that it should."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from .blocks import ROOT

CONTAINERFILE = (ROOT / "image/Containerfile").read_text(encoding="utf-8")
ENTRYPOINT = ROOT / "image/entrypoint.sh"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: What Spark on Kubernetes tells a pod: BasicExecutorFeatureStep.
POD = {
    "JAVA_HOME": "/java",
    "SPARK_HOME": "/spark",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "600m",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "pod-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def copied() -> list[str]:
    """What comes from the checkout."""
    found = []
    for words in re.findall(r"^COPY (.*)$", CONTAINERFILE, re.MULTILINE):
        *sources, _ = words.split()
        if not sources[0].startswith("--from="):
            found += sources
    return found


def test_what_it_copies_is_there_and_let_in() -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignore
    assert sorted(copied()) == sorted(line[1:] for line in ignore if line.startswith("!"))
    for path in copied():
        assert (ROOT / path).exists(), path


def test_its_entrypoint_can_be_run() -> None:
    assert os.access(ENTRYPOINT, os.X_OK)


def test_what_builds_the_package_is_copied() -> None:
    needed = {"pyproject.toml", "setup.py", "src", PROJECT["readme"], *PROJECT["license-files"]}
    assert needed <= set(copied())


def test_its_extras_are_those_of_the_package() -> None:
    named = re.findall(r"^ARG (?:BROKER|SPARK)_EXTRAS=(.*)$", CONTAINERFILE, re.MULTILINE)
    assert len(named) == 2
    extras = {extra for names in named for extra in names.split(",")}
    assert extras <= set(PROJECT["optional-dependencies"])


def test_what_it_imports_is_where_it_looks() -> None:
    imported = re.findall(r"from (odradek\S*) import (\w+)", CONTAINERFILE)
    assert imported
    for module, name in imported:
        assert hasattr(importlib.import_module(module), name)


def test_its_base_has_a_python_that_the_package_takes() -> None:
    (release,) = re.findall(r"^ARG BASE=\S+/python:(\d+\.\d+)-", CONTAINERFILE, re.MULTILINE)
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert tuple(map(int, release.split("."))) >= tuple(map(int, oldest.split(".")))


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """Variables with which `tini` prints the words that it gets, a line each."""
    tini = tmp_path / "tini"
    tini.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    tini.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def command(variables: dict[str, str], *words: str, where: Path = ROOT) -> list[str]:
    """What a container runs."""
    done = subprocess.run(
        ["bash", ENTRYPOINT, *words],
        env=variables,
        cwd=where,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    subreaper, end, *command = done.stdout.splitlines()
    assert [subreaper, end] == ["-s", "--"]
    return command


def test_a_command_is_run_as_it_is(given: dict[str, str]) -> None:
    words = ["odradek", "server", "--data", "/with blanks", "*"]
    assert command(given, *words) == words


def test_a_broker_for_tests_of_other_languages(given: dict[str, str]) -> None:
    listening = ["--host", "0.0.0.0", "--port", "9092", "--control", "8082"]
    assert command(given, "mock", "--brokers", "3") == ["odradek", "mock", *listening, "--brokers", "3"]


def test_a_driver_of_kubernetes(given: dict[str, str]) -> None:
    told = command(
        given | {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.5"}, "driver", "--class", "x", "local:///job.py"
    )
    assert told[:3] == ["spark-submit", "--deploy-mode", "client"]
    assert "spark.driver.bindAddress=10.0.0.5" in told
    assert told[-3:] == ["--class", "x", "local:///job.py"]


@pytest.mark.parametrize("options", [[], ["-Da=b c"], [f"-Dnumber={number}" for number in range(12)]])
def test_an_executor_of_kubernetes(given: dict[str, str], tmp_path: Path, options: list[str]) -> None:
    numbered = {f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)}
    told = command(given | POD | numbered, "executor", where=tmp_path)
    heap = ["-Xms600m", "-Xmx600m", "-cp", f"/spark/conf:/spark/jars/*:{tmp_path}"]
    assert told[: len(options) + 5] == ["/java/bin/java", *options, *heap]
    own = told[len(options) + 5 :]
    assert own[0] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert dict(zip(own[1::2], own[2::2], strict=True)) == {
        "--driver-url": POD["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "pod-3",
    }


def test_an_executor_s_classes_come_before_spark_s(given: dict[str, str], tmp_path: Path) -> None:
    more = {"SPARK_CONF_DIR": "/opt/spark/conf", "SPARK_CLASSPATH": "/more/*"}
    told = command(given | POD | more, "executor", where=tmp_path)
    assert told[told.index("-cp") + 1] == f"/opt/spark/conf:/more/*:/spark/jars/*:{tmp_path}"


def test_an_executor_that_is_told_too_little_says_what(given: dict[str, str]) -> None:
    given |= {name: value for name, value in POD.items() if name != "SPARK_EXECUTOR_POD_IP"}
    done = subprocess.run(
        ["bash", ENTRYPOINT, "executor"],
        env=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert "SPARK_EXECUTOR_POD_IP" in done.stderr
