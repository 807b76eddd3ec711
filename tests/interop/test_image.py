"""Executors, drivers and brokers in containers of the image of image/Containerfile: docs/spark_cluster.md.

The image is made beforehand, by `podman build -f image/Containerfile -t odradek-spark .` in a checkout.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ports import free_port
from spark_cluster import LOOPBACK, MASTER, WORKER, environment, session_settings, spark_home

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.timeout(600)]

IMAGE = "localhost/odradek-spark"
JOB = Path(__file__).with_name("image_job.py")
SOURCES = Path(__file__).parents[2] / "src"
LIMIT_S = 240


def in_image(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a container of its own."""
    return subprocess.run(
        ["podman", "run", "--rm", IMAGE, *words], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    """Skips, by name, where there is no podman, no image, or nothing that runs it here."""
    if shutil.which("podman") is None:
        pytest.skip("an image: podman is absent")
    if subprocess.run(["podman", "image", "exists", IMAGE], check=False, timeout=300).returncode:
        pytest.skip(f"an image: {IMAGE} is absent; podman build -f image/Containerfile -t odradek-spark .")
    told = in_image("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    if told.returncode:
        pytest.skip(f"an image: podman cannot run it here: {told.stderr.strip()}")
    if told.stdout.strip() != f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip(
            f"an image: its Python is {told.stdout.strip()}, and a driver's has to be the same release"
        )


class Container:
    """A container that runs in the network of this machine.

    Args:
        log: gets what it prints.
        words: its command.
        options: further words of `podman run`.
    """

    def __init__(self, log: Path, words: Sequence[str], options: Sequence[str] = ()) -> None:
        self.log = log
        self._name = f"odradek-{secrets.token_hex(6)}"
        self._command = [
            "podman",
            "run",
            "--rm",
            "--network",
            "host",
            "--name",
            self._name,
            *options,
            IMAGE,
            *words,
        ]

    def __enter__(self) -> Container:
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, *problem: object) -> None:
        subprocess.run(
            ["podman", "rm", "--force", "--time", "0", self._name],
            capture_output=True,
            check=False,
            timeout=300,
        )
        self._child.wait(60)

    def await_line(self, text: str) -> str:
        """Wait until it has told a line with a text in it. Returns that line.

        Raises `RuntimeError` if it ends, or takes longer than `LIMIT_S`.
        """
        deadline = time.monotonic() + LIMIT_S
        while True:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            for line in lines:
                if text in line and line.endswith("\n"):
                    return line.strip()
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"not ready: {self._command}\n{''.join(lines)[-3000:]}")
            time.sleep(0.05)


class Cluster:
    """A master of Spark's and a broker, each in a container.

    Attributes:
        master: the master's address.
        servers: the broker's.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master = f"spark://{LOOPBACK}:{free_port()}"
        self.servers = ""
        self._stack = ExitStack()

    def start(self, name: str, words: Sequence[str], options: Sequence[str] = ()) -> Container:
        """Start one more container, which ends with these."""
        return self._stack.enter_context(Container(self.directory / f"{name}.log", words, options))

    def start_worker(self) -> None:
        """Start a worker of two cores, and wait until it is the master's."""
        words = ["--host", LOOPBACK, "--webui-port", str(free_port()), "--cores", "2", "--memory", "2g"]
        worker = self.start("worker", ["spark-class", WORKER, *words, self.master])
        worker.await_line("Successfully registered with master")

    def __enter__(self) -> Cluster:
        with ExitStack() as starting:
            starting.push(self._stack)
            broker = self.start("broker", ["odradek", "server", "--data", "/data", "--port", "0"])
            words = [
                "--host",
                LOOPBACK,
                "--port",
                self.master.rsplit(":", 1)[1],
                "--webui-port",
                str(free_port()),
            ]
            master = self.start("master", ["spark-class", MASTER, *words])
            self.servers = broker.await_line("ready ").split()[1]
            master.await_line("I have been elected leader")
            starting.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master without workers, and a broker."""
    with Cluster(tmp_path) as running:
        yield running


def conf() -> list[str]:
    """Words of spark-submit."""
    return [word for name, value in session_settings().items() for word in ("--conf", f"{name}={value}")]


def drive(cluster: Cluster, tmp_path: Path) -> subprocess.Popen[str]:
    """Start the job's driver outside of all containers: it has odradek from this checkout, and ships nothing.

    Its Python has a name by which executors find that of the image.
    """
    words = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.master, *conf()]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = environment({"PYSPARK_PYTHON": "python3", "PYTHONPATH": str(SOURCES), "PATH": path})
    given.pop("PYSPARK_DRIVER_PYTHON", None)
    with (tmp_path / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [*words, str(JOB), cluster.servers, str(tmp_path / "checkpoint")],
            env=given,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def check(told: Mapping[str, Any]) -> None:
    """Assert that all rows went through an executor that had all of it from the image."""
    assert told["sum"] == 999 * 500
    assert told["python"].startswith("/opt/odradek/")
    assert told["package"].startswith("/opt/odradek/")
    assert told["native"]
    assert told["user"] != 0


def end_of(driver: subprocess.Popen[str], tmp_path: Path) -> dict[str, Any]:
    """Wait for a driver. Returns the last of what it says."""
    printed, _ = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 0, (
        printed[-2000:] + (tmp_path / "driver.log").read_text(encoding="utf-8")[-4000:]
    )
    last: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return last


def test_executors_of_a_worker_have_the_package_from_the_image(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_worker()
    with drive(cluster, tmp_path) as driver:
        check(end_of(driver, tmp_path))


def test_a_driver_of_the_image_has_it_too(cluster: Cluster) -> None:
    cluster.start_worker()
    options = ["--env", f"SPARK_DRIVER_BIND_ADDRESS={LOOPBACK}", "--volume", f"{JOB}:/job.py:ro"]
    words = [
        "driver",
        "--master",
        cluster.master,
        *conf(),
        "/job.py",
        cluster.servers,
        "/home/odradek/checkpoint",
    ]
    driver = cluster.start("driver", words, options)
    check(json.loads(driver.await_line('{"sum"')))


def test_an_executor_joins_that_is_told_what_kubernetes_tells_it(cluster: Cluster, tmp_path: Path) -> None:
    """There is no worker: the container is the executor, by the word and the variables of a pod."""
    with drive(cluster, tmp_path) as driver:
        assert driver.stdout is not None
        first = driver.stdout.readline()
        assert first, (tmp_path / "driver.log").read_text(encoding="utf-8")[-4000:]
        place = json.loads(first)
        variables = {
            "SPARK_DRIVER_URL": place["driver"],
            "SPARK_APPLICATION_ID": place["application"],
            "SPARK_EXECUTOR_ID": "1",
            "SPARK_EXECUTOR_CORES": "2",
            "SPARK_EXECUTOR_MEMORY": "600m",
            "SPARK_EXECUTOR_POD_IP": LOOPBACK,
            "SPARK_EXECUTOR_POD_NAME": "pod-1",
            "SPARK_RESOURCE_PROFILE_ID": "0",
        }
        for number, option in enumerate(shlex.split(place["options"])):
            variables[f"SPARK_JAVA_OPT_{number}"] = option
        options = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        cluster.start("executor", ["executor"], options)
        check(end_of(driver, tmp_path))
