"""Brokers as processes with a real ZooKeeper, to be killed, paused, stopped and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

import forking
from odradek import Admin
from odradek.client.types import PartitionInfo
from odradek.errors import OdradekError
from ports import free_port
from zookeeper_server import available

SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "auto.create.topics.enable": "false",
}
#: Only ever reached by what is broken: the machine may be busy.
LIMIT_S = 90


class ClusterProcesses:
    """Some brokers, each a process on its port and folder, and their ZooKeeper; a context manager.

    Args:
        directory: gets the folders, configs and logs.
        size: how many brokers, with the ids from 0.
        settings: configs of all brokers, over `SETTINGS`.
    """

    def __init__(self, directory: Path, size: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.zookeeper = available(directory / "zookeeper")
        self.ports = [free_port() for _ in range(size)]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self._processes: dict[int, forking.Forked] = {}
        self._epochs: dict[str, int] = {}
        for broker, port in enumerate(self.ports):
            configs = {
                "broker.id": str(broker),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": str(directory / f"data-{broker}"),
                "zookeeper.connect": self.zookeeper.address,
                **SETTINGS,
                **(settings or {}),
            }
            text = "".join(f"{name}={value}\n" for name, value in configs.items())
            (directory / f"{broker}.properties").write_text(text)

    def __enter__(self) -> ClusterProcesses:
        self.zookeeper.start()
        try:
            self.start(*range(len(self.ports)))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what runs."""
        self.kill(*list(self._processes))
        self.zookeeper.kill()

    @property
    def live(self) -> list[int]:
        """The brokers whose processes run, paused ones too."""
        return sorted(self._processes)

    def start(self, *brokers: int) -> None:
        """Start brokers and wait until they say that they are ready."""
        for broker in brokers:
            assert broker not in self._processes
            config = self.directory / f"{broker}.properties"
            with (self.directory / f"{broker}.log").open("ab") as errors:
                self._processes[broker] = forking.start(["server", "--config", str(config)], errors)
        for broker in brokers:
            line = self._processes[broker].stdout.readline()
            assert line.startswith("ready "), (broker, line, self.log(broker)[-3000:])

    def kill(self, *brokers: int) -> None:
        """End brokers as a crash does."""
        for broker in brokers:
            self._end(broker, signal.SIGKILL)

    def stop(self, *brokers: int) -> None:
        """Stop brokers in good order; asserts that each says that it did."""
        for broker in brokers:
            assert self._end(broker, signal.SIGTERM) == 0, self.log(broker)[-3000:]

    def pause(self, broker: int) -> None:
        """Have a broker do nothing, with its connections standing."""
        self._processes[broker].send_signal(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """Have it go on."""
        self._processes[broker].send_signal(signal.SIGCONT)

    def _end(self, broker: int, how: signal.Signals) -> int:
        process = self._processes.pop(broker)
        process.send_signal(how)
        code = process.wait(LIMIT_S)
        process.stdout.close()
        return code

    def log(self, broker: int) -> str:
        """What a broker has logged in all its lives."""
        return (self.directory / f"{broker}.log").read_text(errors="replace")

    @contextlib.contextmanager
    def admin(self) -> Iterator[Admin]:
        """A client that knows all brokers."""
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            yield admin

    def partition(self, topic: str) -> PartitionInfo:
        """Partition 0 of a topic, as a broker describes it."""
        with self.admin() as admin:
            return admin.describe_topics([topic])[topic].partitions[0]

    def controller(self) -> int:
        """The controller's id; waits until there is one that runs."""
        found: list[int] = []

        def look() -> bool:
            with self.admin() as admin:
                node = admin.describe_cluster().controller
            found[:] = [node.id] if node is not None and node.id in self._processes else []
            return bool(found)

        self.wait_until(look)
        return found[0]

    def await_partition(self, topic: str, is_so: Callable[[PartitionInfo], bool]) -> PartitionInfo:
        """Wait until partition 0 of a topic is described so.

        A broker that was paused tells for a moment what it knew before: an epoch older than one that was
        told already is not believed.
        """
        found: list[PartitionInfo] = []

        def look() -> bool:
            found[:] = [self.partition(topic)]
            epoch = found[0].leader_epoch
            newest = self._epochs[topic] = max(epoch, self._epochs.get(topic, epoch))
            return epoch == newest and is_so(found[0])

        self.wait_until(look)
        return found[0]

    def await_whole(self, topic: str) -> PartitionInfo:
        """Wait until all brokers are in sync for a topic and one of them leads."""
        return self.await_partition(
            topic, lambda one: one.leader >= 0 and len(one.in_sync_replicas) == len(self.ports)
        )

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what has no signal; errors of clients mean "not yet"."""
        deadline = time.monotonic() + LIMIT_S
        last: BaseException | None = None
        while time.monotonic() < deadline:
            try:
                if is_so():
                    return
            except OdradekError as error:
                last = error
            time.sleep(0.05)
        logs = "\n".join(f"--- {n}\n{self.log(n)[-2000:]}" for n in range(len(self.ports)))
        raise AssertionError(f"not within {LIMIT_S} s; last error: {last!r}{os.linesep}{logs}")
