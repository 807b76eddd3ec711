"""The brokers that are measured: each a process on loopback, its data in memory."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from interop import kafka_peer  # noqa: E402

OURS = "odradek"
KAFKA = "Apache Kafka"
KFAKE = "kfake"
FLOOR = "floor"


class SkippedError(Exception):
    """This peer cannot run here; the message says why."""


def in_memory() -> Path | None:
    """A folder that is no disk, where the machine has one."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() and os.access(shared, os.W_OK) else None


@dataclass
class Peer:
    """A broker process.

    `ready_s` is the time from the start of its process to its first answer to ApiVersions, for which it is
    waited `ready_within_s`.
    """

    name: str
    directory: Path
    version: str = ""
    port: int = 0
    pid: int = 0
    ready_s: float = 0.0
    ready_within_s: float = 60.0
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait for its first answer. Raises `SkippedError` where it cannot run."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it in good order."""
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10)

    def resident_mib(self) -> float:
        """Memory that its process has now."""
        return resident_mib(self.pid)

    def cpu_s(self) -> float:
        """User and system time that its process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _spawn(self, words: list[str]) -> None:
        with (self.directory / "log").open("ab") as log:
            began = time.monotonic()
            child = self._child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = child.pid
        while not kafka_peer.answers_api_versions(self.port):
            if child.poll() is not None or time.monotonic() > began + self.ready_within_s:
                tail = (self.directory / "log").read_text(encoding="utf-8")[-2000:]
                self.stop()
                raise RuntimeError(f"{self.name} did not become ready:\n{tail}")
            time.sleep(0.002)
        self.ready_s = time.monotonic() - began


def resident_mib(pid: int) -> float:
    """Return what a process has resident, what it shares with the one it was forked from included; 0: it has
    ended."""
    try:
        text = Path(f"/proc/{pid}/statm").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Odradek(Peer):
    """This checkout."""

    def settings(self) -> dict[str, str]:
        """Return configs beside the port and the folder."""
        return {"log.segment.delete.delay.ms": "1000"}

    def start(self) -> None:
        from odradek import __version__
        from odradek.records.kernel import NATIVE

        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
        )
        self.version = (
            f"{__version__} {commit.stdout.strip()}{'' if NATIVE else ', without the compiled kernel'}"
        )
        self.port = kafka_peer.free_ports(1)[0]
        words = [sys.executable, "-m", "odradek", "server", "--data", str(self.directory / "data")]
        words += ["--log-level", "warning"]
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", **self.settings()}
        self._spawn([*words, *(word for one in settings.items() for word in ("--set", "=".join(one)))])


class Kafka(Peer):
    """Apache Kafka of Maven Central, started as its own script starts it, with a heap of 1 GiB."""

    _broker: kafka_peer.RealKafka | None = None

    def settings(self) -> dict[str, str]:
        """Return configs beside the port and the folder; `listeners` are further ones."""
        return {"log.segment.delete.delay.ms": "1000"}

    def start(self) -> None:
        if why := kafka_peer.missing_toolchain():
            raise SkippedError(why)
        self.version = kafka_peer.NEWEST
        self._broker = kafka_peer.RealKafka(
            self.version,
            self.directory,
            self.settings(),
            collector=kafka_peer.SERVER_COLLECTOR,
        )
        self._broker.start()
        self.port, self.pid, self.ready_s = self._broker.port, self._broker.pid, self._broker.ready_s

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()


class Kfake(Peer):
    """franz-go's fake Kafka: everything in memory, nothing written."""

    def start(self) -> None:
        source = ROOT / "benchmarks" / "kfake"
        if shutil.which("go") is None:
            raise SkippedError("not on this machine: go")
        binary = ROOT / "build" / "kfake"
        binary.parent.mkdir(exist_ok=True)
        done = subprocess.run(
            ["go", "build", "-o", str(binary), "."], cwd=source, capture_output=True, text=True
        )
        if done.returncode:
            raise SkippedError(f"go build: {done.stderr.strip()[-300:]}")
        found = re.search(r"pkg/kfake v0\.0\.0-(\d{8})", (source / "go.mod").read_text(encoding="utf-8"))
        self.version = found[1] if found else "?"
        self.port = kafka_peer.free_ports(1)[0]
        self._spawn([str(binary), str(self.port)])


class Floor(Peer):
    """The system calls of a produce request alone; see benchmarks/floor."""

    def start(self) -> None:
        source = ROOT / "benchmarks" / "floor" / "floor.c"
        compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
        if compiler is None:
            raise SkippedError("not on this machine: a C compiler")
        binary = ROOT / "build" / "floor"
        binary.parent.mkdir(exist_ok=True)
        done = subprocess.run(
            [compiler, "-O2", "-std=gnu11", "-o", str(binary), str(source)], capture_output=True, text=True
        )
        if done.returncode:
            raise SkippedError(f"{compiler}: {done.stderr.strip()[-300:]}")
        self.version = "system calls alone"
        self.port = kafka_peer.free_ports(1)[0]
        data = self.directory / "data"
        data.mkdir()
        self._spawn([str(binary), str(self.port), str(data)])


BROKERS: dict[str, type[Peer]] = {OURS: Odradek, KAFKA: Kafka, KFAKE: Kfake}
WITH_FLOOR: dict[str, type[Peer]] = {**BROKERS, FLOOR: Floor}
"""What takes turns where requests are produced: `Floor` can nothing else."""


@contextmanager
def running(names: list[str], skipped: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Start these brokers, all at once idle; who cannot run gets its reason into `skipped`."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=in_memory()))
        peers: dict[str, Peer] = {}
        for name in names:
            directory = Path(folder) / name.replace(" ", "-")
            directory.mkdir()
            peer = WITH_FLOOR[name](name, directory)
            try:
                stack.callback(peer.stop)
                peer.start()
            except SkippedError as why:
                skipped[name] = str(why)
                continue
            peers[name] = peer
        yield peers


def package_version(name: str) -> str | None:
    """The version of an installed distribution, or None."""
    from importlib import metadata

    if importlib.util.find_spec(name.replace("-", "_")) is None:
        return None
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
