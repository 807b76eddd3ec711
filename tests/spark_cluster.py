"""A Spark cluster on this machine, from the pip package: a master and workers, each a process of its own.

    python tests/spark_cluster.py [PORT]      run one until Ctrl-C (`make spark-cluster`)

A worker stands for a machine: what it starts (executors, and the Python processes of these) ends with it, as
when somebody pulls the plug. All listen on the loopback address alone.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ports import free_port
from spark import java_classes

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
LOOPBACK = "127.0.0.1"
#: What workers call their machines, in turn: a task is tried by speculation on another machine only.
_NAMES = (LOOPBACK, "localhost")


def spark_home() -> Path:
    """Where the pip package has Spark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("a Spark cluster needs the package pyspark: pip install '.[spark]'")
    return Path(spec.origin).parent


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of Spark's own processes: a Java that runs it, and no address but loopback."""
    from odradek.spark.sessions.java import find_java

    own = {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": LOOPBACK}
    return {**os.environ, **own, **(more or {})}


def parents_of_all() -> dict[int, int]:
    """The parent of each process that runs on this machine."""
    told = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=60
    )
    return {int(pid): int(parent) for pid, parent in map(str.split, told.stdout.splitlines())}


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs; the nearest come first."""
    children = defaultdict(list)
    for child, parent in parents_of_all().items():
        children[parent].append(child)
    found = [pid]
    for one in found:
        found += children[one]
    return found[1:]


def lives(pid: int) -> bool:
    """Whether a process goes on; one that has ended and that nobody has asked after does not."""
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=60
    )
    return told.stdout.strip()[:1] not in ("", "Z")


def kill_with_all_below(pid: int) -> None:
    """End a process and all that it started, at once; harmless where they have ended."""
    # What starts others goes first: it can start none then.
    for one in [pid, *descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


class SparkProcess:
    """A class of Spark's with a `main`, as a process that listens on a port."""

    def __init__(self, directory: Path, port: int, words: Sequence[str], more: Mapping[str, str]) -> None:
        self.log = directory / "log"
        self.port = port
        directory.mkdir(parents=True, exist_ok=True)
        self._command = [str(spark_home() / "bin" / "spark-class"), *words]
        self._environment = environment({"SPARK_DAEMON_JAVA_OPTS": java_classes.options(), **more})
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._child is not None
        return self._child.pid

    def launch(self) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    def await_ready(self, line: str, limit_s: float = 120) -> None:
        """Wait until it listens and has told a line.

        Raises `RuntimeError` if it ends, or takes longer.
        """
        deadline = time.monotonic() + limit_s
        while line not in self.log.read_text(encoding="utf-8", errors="replace") or not self._listens():
            if not self.runs() or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(
                    f"not ready: {self._command}\n{self.log.read_text(encoding='utf-8')[-3000:]}"
                )
            time.sleep(0.05)

    def _listens(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=5):
                return True
        except OSError:
            return False

    def runs(self) -> bool:
        """Whether it was started, and has not ended since."""
        return self._child is not None and self._child.poll() is None

    def wait(self) -> None:
        """Wait until it ends."""
        assert self._child is not None
        self._child.wait()

    def kill(self) -> None:
        """End it with all that it started, as a machine that stops; harmless when it does not run."""
        child, self._child = self._child, None
        if child is not None:
            kill_with_all_below(child.pid)
            child.wait(30)


class ConnectServer(SparkProcess):
    """A server of Spark Connect: a driver, for clients that have no Spark.

    Args:
        directory: gets its log, and is where it works.
        master: where its queries run.
        python: what it starts as Python, with the packages that queries need.
    """

    def __init__(self, directory: Path, master: str, python: str = sys.executable) -> None:
        port = free_port()
        own = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
        words = ["org.apache.spark.deploy.SparkSubmit", "--class", CONNECT, "--master", master]
        for name, value in {**session_settings(), **own}.items():
            words += ["--conf", f"{name}={value}"]
        pythons = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        super().__init__(directory, port, [*words, "spark-internal"], pythons)

    @property
    def url(self) -> str:
        """What a client is given as its remote."""
        return f"sc://{LOOPBACK}:{self.port}"

    def __enter__(self) -> ConnectServer:
        self.launch()
        self.await_ready("Spark Connect server started at")
        return self

    def __exit__(self, *problem: object) -> None:
        self.kill()


class SparkCluster:
    """A master and its workers.

    Args:
        directory: gets logs, and the folders in which executors work.
        workers: how many.
        port: the master's; default: a free port.
        cores, memory: of each worker, for its executors.
        more: variables of the environment, for executors too.
    """

    def __init__(
        self,
        directory: Path,
        workers: int = 2,
        port: int = 0,
        cores: int = 2,
        memory: str = "2g",
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._web, port = free_port(), port or free_port()
        self.master = SparkProcess(
            directory / "master",
            port,
            [MASTER, "--host", LOOPBACK, "--port", str(port), "--webui-port", str(self._web)],
            more or {},
        )
        self.workers = [
            self._worker(directory / f"worker-{number}", _NAMES[number % 2], cores, memory, more or {})
            for number in range(workers)
        ]

    @property
    def url(self) -> str:
        """What a session is given as its master."""
        return f"spark://{LOOPBACK}:{self.master.port}"

    @property
    def web(self) -> str:
        """The page on which the master shows workers and applications."""
        return f"http://{LOOPBACK}:{self._web}"

    def _worker(
        self, directory: Path, name: str, cores: int, memory: str, more: Mapping[str, str]
    ) -> SparkProcess:
        port = free_port()
        words = ["--host", name, "--port", str(port), "--webui-port", str(free_port())]
        words += ["--cores", str(cores), "--memory", memory, "--work-dir", str(directory / "work"), self.url]
        return SparkProcess(directory, port, [WORKER, *words], more)

    def start(self) -> None:
        """Start all, and wait until the workers are the master's."""
        self.master.launch()
        self.master.await_ready("I have been elected leader")
        for worker in self.workers:
            worker.launch()
        for worker in self.workers:
            worker.await_ready("Successfully registered with master")

    def revive(self) -> None:
        """Start the workers again that do not run, without waiting for them."""
        for worker in self.workers:
            if not worker.runs():
                worker.launch()

    def executors(self) -> list[int]:
        """The processes of the executors: what workers started."""
        pids = {worker.pid for worker in self.workers if worker.runs()}
        return sorted(child for child, parent in parents_of_all().items() if parent in pids)

    def stop(self) -> None:
        """End all."""
        for process in (*self.workers, self.master):
            process.kill()

    def __enter__(self) -> SparkCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()


def session_settings() -> dict[str, str]:
    """What an application of the tests tells a cluster of one machine."""
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": java_classes.options(),
    }


USE = """\
A Spark cluster: two workers of two cores each. Its page: {web}
Use it from another terminal, with the environment in which odradek is installed:

    from odradek.spark import session
    spark = session("mine", "{url}")

Executors run the Python of the session, on this machine, and find odradek where it does; what to do on other
machines is in docs/spark_cluster.md. Logs: {directory}. Ctrl-C ends all.
"""


def main() -> None:
    """Run a cluster until it is interrupted."""
    with tempfile.TemporaryDirectory(prefix="spark-cluster-") as folder:
        port = int(sys.argv[1]) if len(sys.argv) > 1 else 7077
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
        with suppress(KeyboardInterrupt), SparkCluster(Path(folder), port=port) as cluster:
            sys.stdout.write(USE.format(web=cluster.web, url=cluster.url, directory=folder))
            sys.stdout.flush()
            cluster.master.wait()


if __name__ == "__main__":
    main()
