"""Brokers as processes with a real ZooKeeper, to be killed, paused, stopped and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import forking
from cluster_network import CLIENTS, ZOOKEEPER, Network
from odradek import Admin
from odradek.client.types import PartitionInfo
from odradek.errors import OdradekError
from ports import free_port
from zookeeper_server import available

SETTINGS = {
    # As long as a request may take as well: on a busy machine a ZooKeeper answers late.
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "auto.create.topics.enable": "false",
}
#: Only ever reached by what is broken: the machine may be busy.
LIMIT_S = float(os.environ.get("ODRADEK_FAULT_LIMIT_S", "90"))


class ClusterProcesses:
    """Some brokers, each a process on its port and folder, and their ZooKeeper; a context manager.

    Args:
        directory: gets the folders, configs and logs.
        size: how many brokers, with the ids from 0.
        settings: configs of all brokers, over `SETTINGS`.
        own: configs of one broker, by its id, over those.
        folders: data folders of each broker.
        network: have all connections go over a `Network`, where they can be cut and slowed.
        protocol: what is spoken at the brokers' only listener, where they have no network.
        client_configs: how to log in there.

    Attributes:
        ports: where each listens for clients.
        bootstrap_servers: what clients are given.
        client_configs: with what else they connect: nothing, or how to log in.
    """

    def __init__(
        self,
        directory: Path,
        size: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        own: Callable[[int], Mapping[str, str]] | None = None,
        folders: int = 1,
        network: bool = False,
        protocol: str = "PLAINTEXT",
        client_configs: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self._folders = folders
        self._network = Network() if network else None
        self.zookeeper = available(directory / "zookeeper")
        self.ports = [free_port() for _ in range(size)]
        self._processes: dict[int, forking.Forked] = {}
        self._pids: dict[int, str] = {}
        self._asked = 0
        self._epochs: dict[tuple[str, int], int] = {}
        self._configs: list[dict[str, str]] = []
        self.client_configs: dict[str, Any] = dict(client_configs or {})
        served = []
        for broker, port in enumerate(self.ports):
            configs = {
                "broker.id": str(broker),
                "listeners": f"{protocol}://127.0.0.1:{port}",
                "security.inter.broker.protocol": protocol,
                "log.dirs": ",".join(str(folder) for folder in self.folders(broker)),
                "zookeeper.connect": self.zookeeper.address,
                **SETTINGS,
                **(settings or {}),
                **(own(broker) if own is not None else {}),
            }
            if self._network is not None:
                port = self._over_network(self._network, broker, port, configs)
            served.append(port)
            self._configs.append({})
            self.configure(broker, configs)
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in served)

    def configure(self, broker: int, configs: Mapping[str, str | None]) -> None:
        """Change configs of a broker, as of its next start; None takes one away."""
        own = self._configs[broker]
        own |= {name: value for name, value in configs.items() if value is not None}
        for name, value in configs.items():
            if value is None:
                own.pop(name, None)
        text = "".join(f"{name}={value}\n" for name, value in own.items())
        (self.directory / f"{broker}.properties").write_text(text, encoding="utf-8")

    def _over_network(self, network: Network, broker: int, port: int, configs: dict[str, str]) -> int:
        """Have a broker be reached, and reach its ZooKeeper, over the network. Returns where clients do."""
        inner = free_port()
        for_clients = network.way(str(broker), port, CLIENTS)
        for_brokers = network.way(str(broker), inner, self._names)
        zookeeper = network.way(ZOOKEEPER, self.zookeeper.port, str(broker))
        del configs["security.inter.broker.protocol"]
        configs |= {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},INNER://127.0.0.1:{inner}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{for_clients},INNER://127.0.0.1:{for_brokers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "zookeeper.connect": f"127.0.0.1:{zookeeper}",
        }
        return for_clients

    def _names(self) -> dict[int, str]:
        """The brokers' processes, those that are about to end too, and their names on the network."""
        return dict(self._pids)

    @property
    def network(self) -> Network:
        """The network that all connections go over."""
        assert self._network is not None
        return self._network

    def folders(self, broker: int) -> list[Path]:
        """A broker's data folders."""
        names = (
            [f"data-{broker}"] if self._folders == 1 else [f"data-{broker}-{n}" for n in range(self._folders)]
        )
        return [self.directory / name for name in names]

    def folder_of(self, broker: int, topic: str, index: int = 0) -> Path:
        """The data folder in which a broker has a partition."""
        return next(folder for folder in self.folders(broker) if (folder / f"{topic}-{index}").is_dir())

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
        if self._network is not None:
            self._network.close()

    @property
    def live(self) -> list[int]:
        """The brokers whose processes run, paused ones too."""
        return sorted(self._processes)

    def start(self, *brokers: int) -> None:
        """Start brokers and wait until they say that they are ready."""
        self.launch(*brokers)
        for broker in brokers:
            self.await_ready(broker)

    def launch(self, *brokers: int) -> None:
        """Start brokers, and do not wait."""
        for broker in brokers:
            assert broker not in self._processes
            config = self.directory / f"{broker}.properties"
            with (self.directory / f"{broker}.log").open("ab") as errors:
                process = forking.start(["server", "--config", str(config)], errors)
            self._processes[broker] = process
            self._pids[process.pid] = str(broker)

    def await_ready(self, broker: int) -> None:
        """Wait until a broker that was launched says that it is ready."""
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

    def await_end(self, broker: int) -> int:
        """Wait until a broker has ended by itself; its exit code."""
        process = self._processes.pop(broker)
        code = process.wait(LIMIT_S)
        process.stdout.close()
        return code

    def _end(self, broker: int, how: signal.Signals) -> int:
        process = self._processes.pop(broker)
        process.send_signal(how)
        code = process.wait(LIMIT_S)
        process.stdout.close()
        return code

    def log(self, broker: int) -> str:
        """What a broker has logged in all its lives."""
        return (self.directory / f"{broker}.log").read_text(encoding="utf-8", errors="replace")

    @contextlib.contextmanager
    def admin(self, request_timeout_ms: int = 5_000) -> Iterator[Admin]:
        """A client that knows all brokers, and soon asks another one when one does not answer.

        Each begins with another broker: one that is cut off tells for as long what it knew before.
        """
        servers = self.bootstrap_servers.split(",")
        self._asked += 1
        first = self._asked % len(servers)
        servers = servers[first:] + servers[:first]
        with Admin(
            self.client_configs, bootstrap_servers=servers, request_timeout_ms=request_timeout_ms
        ) as admin:
            yield admin

    def partition(self, topic: str, index: int = 0) -> PartitionInfo:
        """A partition, as a broker describes it."""
        with self.admin() as admin:
            return admin.describe_topics([topic])[topic].partitions[index]

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a group."""
        found: list[int] = []

        def look() -> bool:
            with self.admin() as admin:
                node = admin.describe_groups([group])[group].coordinator
            found[:] = [node.id] if node is not None and node.id in self._processes else []
            return bool(found)

        self.wait_until(look)
        return found[0]

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

    def await_partition(
        self, topic: str, is_so: Callable[[PartitionInfo], bool], index: int = 0
    ) -> PartitionInfo:
        """Wait until a partition is described so.

        A broker that was paused tells for a moment what it knew before: an epoch older than one that was
        told already is not believed.
        """
        found: list[PartitionInfo] = []

        def look() -> bool:
            found[:] = [self.partition(topic, index)]
            epoch = found[0].leader_epoch
            newest = self._epochs[topic, index] = max(epoch, self._epochs.get((topic, index), epoch))
            return epoch == newest and is_so(found[0])

        self.wait_until(look)
        return found[0]

    def forget_epochs(self) -> None:
        """Believe any leader epoch: a topic was created again."""
        self._epochs.clear()

    def await_whole(self, topic: str, index: int = 0) -> PartitionInfo:
        """Wait until all replicas of a partition are in sync, on as many brokers, and one of them leads."""
        return self.await_partition(
            topic,
            lambda one: one.leader >= 0 and set(one.in_sync_replicas) == set(one.replicas),
            index,
        )

    def await_all_whole(self, topic: str) -> None:
        """Wait until all replicas of all partitions of a topic are in sync, and one of each leads."""

        def look() -> bool:
            with self.admin() as admin:
                partitions = admin.describe_topics([topic])[topic].partitions
            return all(
                one.leader >= 0 and set(one.in_sync_replicas) == set(one.replicas) for one in partitions
            )

        self.wait_until(look)

    def wait_until(self, is_so: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Wait for what has no signal; errors of clients mean "not yet"."""
        deadline = time.monotonic() + limit_s
        last: BaseException | None = None
        while time.monotonic() < deadline:
            try:
                if is_so():
                    return
            except OdradekError as error:
                last = error
            time.sleep(0.05)
        logs = "\n".join(f"--- {n}\n{self.log(n)[-2000:]}" for n in range(len(self.ports)))
        raise AssertionError(f"not within {limit_s} s; last error: {last!r}{os.linesep}{logs}")
