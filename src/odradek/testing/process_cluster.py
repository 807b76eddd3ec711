"""Brokers of one cluster, each a process of its own, over a metadata store that this process serves.

They use as many cores as there are, and die as processes do: by signals of the kernel. Faults reach them over
a control port. What needs to look into a broker, or to cut its connections to others, is for `Cluster`, whose
brokers live in this process.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from odradek.broker.config.keywords import check_keywords, properties_from_keywords
from odradek.broker.folders.store_file import STORE_FILE
from odradek.broker.process.supervisor import READY
from odradek.client import Admin, NewTopic
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.store_server import StoreServer
from odradek.coordinators.partitioner import partition_for
from odradek.errors import BrokerNotAvailableError, OdradekError
from odradek.testing.by_hand import coordinated, fence_producer, led_by, move_leader
from odradek.testing.cluster import check_broker, check_size, cluster_defaults, wait_until
from odradek.testing.control.of_process import CONTROL, tickets_of
from odradek.testing.control.remote import RemoteBroker
from odradek.testing.faults.calls import Calls
from odradek.testing.faults.checks import ALL_APIS
from odradek.testing.faults.fault import Fault
from odradek.testing.faults.keeper import FaultKeeper
from odradek.testing.faults.sentences import FaultSentences
from odradek.testing.in_block import InBlock
from odradek.testing.security import Security, configs_of_client, write_security
from odradek.util.properties import escaped_value

if TYPE_CHECKING:
    from types import TracebackType

    from odradek.client.types import PartitionInfo
    from odradek.testing.faults.set_fault import SetFault

# Long, as a machine may be busy with the tests of others; what is quick does not wait.
START_S = 60.0
WAIT_S = 60.0
_LOOK_S = 0.02
_SOCKET = "store.sock"


class ProcessCluster(InBlock, FaultSentences):
    """Some brokers of one cluster for tests, as processes.

        with ProcessCluster(3) as cluster:
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            cluster.kill(cluster.leader("clicks"))

        with ProcessCluster(3, security=Security(users={"admin": "…", "alice": "…"}, tls=True)) as cluster:
            producer = Producer(cluster.client_configs("alice"))

    Their ids are 0, 1, 2 …. Configs are keywords, as those of `Cluster`, and hold for all of them.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data: Path | str | None = None,
        session_timeout_ms: int = 3_000,
        racks: Sequence[str] = (),
        security: Security | str | None = None,
        **config: Any,
    ) -> None:
        """
        Args:
            brokers: how many.
            data: where their data folders and logs are made; kept when given.
            session_timeout_ms: how long the metadata store waits for a broker that is paused. A broker that
                dies is missed at once.
            racks: `broker.rack` of each; none have one without it.
            security: as of `odradek.testing.Broker`; brokers speak it with each other, too, and are its first
                user, by PLAIN.
            config: configs of all brokers, with underscores.

        Raises:
            TypeError: a keyword that is no config.
            ValueError: fewer than one broker, or another number of racks.
        """
        check_size(brokers, racks)
        check_keywords(config, ("brokers", "data", "session_timeout_ms", "racks", "security"))
        self._given_data = Path(data) if data is not None else None
        self._session_timeout_ms = session_timeout_ms
        self.security = Security.of(security)
        self._config = cluster_defaults(brokers) | properties_from_keywords(config)
        release = self._config.get("odradek.kafka.version")
        self._members = [
            _Process(
                number,
                racks[number] if racks else None,
                RemoteBroker(number, release, lambda fault: self._fault_numbers[fault.calls]),
            )
            for number in range(brokers)
        ]
        self._keeper = FaultKeeper()
        self._fault_numbers: dict[Calls, int] = {}
        self._folder: Path | None = None
        """None, like the next three, before `start` and after `close`."""
        self._store: EmbeddedStore | None = None
        self._server: StoreServer | None = None
        self._sockets: str | None = None
        """A folder of its own for the store's socket."""

    @property
    def _faults(self) -> Path:
        """The folder of what the processes count together, and of the faults with which they begin."""
        if self._folder is None:
            raise BrokerNotAvailableError("the cluster does not run: `start` it first")
        return self._folder / "faults"

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Start the store and all brokers, and return when each of them knows all the others.

        Raises:
            RuntimeError: a broker does not start; the message has the end of its log.
            StoreError: the store cannot be opened or served.
        """
        self._folder = self._given_data or Path(tempfile.mkdtemp(prefix="odradek-cluster-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        # Those of a cluster that had the folder before are not this one's.
        shutil.rmtree(self._faults, ignore_errors=True)
        self._faults.mkdir()
        # The kernel takes some hundred bytes for a socket's path; the folder's may be longer.
        self._sockets = tempfile.mkdtemp(prefix="odradek-")
        self._store = EmbeddedStore(self._folder / STORE_FILE)
        if self.security is not None:
            write_security(self._store, self.security)
        self._server = StoreServer(
            self._store, Path(self._sockets) / _SOCKET, session_timeout_ms=self._session_timeout_ms
        )
        self._server.start()
        # All at once: one that has data may wait for another before it is ready (docs/cluster.md).
        for member in self._members:
            self._begin(member)
        for member in self._members:
            member.await_ready()
        self.wait_until(self._all_know_all)

    def _begin(self, member: _Process) -> None:
        member.remote.write_faults(self._faults)
        member.begin(self._command(member), self._log_of(member))

    def _command(self, member: _Process) -> list[str]:
        assert self._folder is not None and self._sockets is not None
        # What the test says goes before, but for what makes it this broker of this cluster.
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{member.port}",
            **self._security_of(member),
            **self._config,
            "broker.id": str(member.number),
            "log.dirs": str(self._folder / f"broker-{member.number}"),
            "odradek.store.socket": str(Path(self._sockets) / _SOCKET),
        }
        if member.rack is not None:
            own["broker.rack"] = member.rack
        # In a file of its own: whoever may list processes sees their words, and these hold passwords.
        properties = self._folder / f"broker-{member.number}.properties"
        with open(properties, "w", encoding="utf-8", opener=_for_the_owner) as file:
            file.writelines(f"{name}={escaped_value(text)}\n" for name, text in own.items())
        words = ["server", "--worker", str(member.number), "--config", str(properties)]
        words += ["--faults", str(self._faults)]
        return [sys.executable, "-m", "odradek", *words]

    def _security_of(self, member: _Process) -> dict[str, str]:
        if self.security is None:
            return {}
        return self.security.broker_configs(member.port) | self.security.between_brokers(self._config)

    def _log_of(self, member: _Process) -> Path:
        assert self._folder is not None
        return self._folder / f"broker-{member.number}.log"

    def close(self) -> None:
        """Stop all brokers and the store, and remove the data unless its folder was named.

        Raises:
            UnmetFaultError: no request has met a fault that was set.
        """
        # A process that is stopped hears of nothing before it goes on.
        for member in self._members:
            member.resume()
        problem = self._keeper.end()
        for member in self._members:
            member.send(signal.SIGTERM)
        for member in self._members:
            member.end()
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._store is not None:
            self._store.close()
            self._store = None
        for folder in (self._sockets, self._folder if self._given_data is None else None):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._sockets = self._folder = None
        if problem is not None:
            raise problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave nothing behind. Where the block has failed, nobody is told of unmet faults."""
        if kind is not None:
            for member in self._members:
                member.resume()
            self._keeper.lift_all()
        super().__exit__(kind, error, trace)

    # ------------------------------------------------------------------ what tests ask for

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients: of all brokers, also those that do not run now."""
        return ",".join(f"127.0.0.1:{member.port}" for member in self._members)

    def client_configs(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the configs of a client of this cluster; see `odradek.testing.Broker.client_configs`.

        Args:
            user, mechanism: see `odradek.testing.security.Security.client_configs`.
        """
        return configs_of_client(self.bootstrap_servers, self.security, user, mechanism)

    @property
    def live(self) -> list[int]:
        """The ids of the brokers that run, paused ones included."""
        return [member.number for member in self._members if member.is_running]

    def pid(self, broker_id: int) -> int:
        """The process id of a broker.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        return self._members[broker_id].pid

    def remote(self, broker_id: int) -> RemoteBroker:
        """Return a broker's control port."""
        return self._members[broker_id].remote

    def log(self, broker_id: int) -> str:
        """Return what a broker has logged, in all its lives."""
        return self._log_of(self._members[broker_id]).read_text(encoding="utf-8", errors="replace")

    def admin(self) -> Admin:
        """A client for administration, which may do everything; the caller closes it."""
        return self._admin_of(self.bootstrap_servers)

    def _admin_of(self, servers: str) -> Admin:
        return Admin({**self._administrator(), "bootstrap.servers": servers})

    def _administrator(self) -> dict[str, Any]:
        return self.client_configs(None if self.security is None else self.security.administrator)

    @property
    def controller(self) -> int:
        """The id of the controller, once there is one that runs."""

        def look() -> int | None:
            # Who answers may not have heard yet that the controller is dead.
            with self.admin() as admin:
                node = admin.describe_cluster().controller
            return node.id if node is not None and node.id in self.live else None

        controller_id: int = self.wait_until(look)
        return controller_id

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic, and return when all its partitions are led.

        Raises:
            KafkaError: it exists, or its name or configs are not allowed.
        """
        factor = min(3, len(self.live)) if replication_factor is None else replication_factor
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, partitions, factor, configs=dict(configs or {}))])
        for index in range(partitions):
            self.leader(name, index)

    def partition(self, topic: str, index: int = 0) -> PartitionInfo:
        """A partition, once some broker knows it.

        Args:
            topic, index: its name and number.
        """

        def look() -> PartitionInfo | None:
            with self.admin() as admin:
                partitions = admin.describe_topics([topic])[topic].partitions
            return next((partition for partition in partitions if partition.partition == index), None)

        partition: PartitionInfo = self.wait_until(look)
        return partition

    def leader(self, topic: str, index: int = 0) -> int:
        """The id of the broker that leads a partition, once a broker that runs does.

        Args:
            topic, index: the partition.
        """

        def look() -> int | None:
            leader = self.partition(topic, index).leader
            return leader if leader in self.live else None

        leader_id: int = self.wait_until(look)
        return leader_id

    def wait_for_isr(self, topic: str, isr: set[int], index: int = 0) -> None:
        """Wait until a partition's in-sync replicas are these.

        Args:
            topic, index: the partition.
            isr: broker ids.
        """
        self.wait_until(lambda: set(self.partition(topic, index).in_sync_replicas) == isr)

    def wait_until(self, look: Callable[[], Any]) -> Any:
        """Call `look` again and again until it returns something true, and return that. Errors of brokers
        that are away or have not been told yet count as not true.

        Raises:
            TimeoutError: it has not in a minute; the message has the last error.
        """
        return wait_until(look, WAIT_S, _LOOK_S, (OdradekError,))

    def _all_know_all(self) -> bool:
        for member in self._members:
            if not member.is_running:
                raise RuntimeError(f"broker {member.number} has ended:\n{self._end_of_log(member)}")
            # Each is asked by its own address: brokers know of each other one after the other.
            with self._admin_of(f"127.0.0.1:{member.port}") as admin:
                if len(admin.describe_cluster().nodes) < len(self.live):
                    return False
        return True

    def _end_of_log(self, member: _Process) -> str:
        return "\n".join(self.log(member.number).splitlines()[-20:])

    # ------------------------------------------------------------------ faults

    def set_fault(self, fault: Fault, *, broker: int | None = None, calls: Calls | None = None) -> SetFault:
        """See `FaultSentences.set_fault`. The processes count together; one that is paused takes no fault."""
        check_broker(broker, len(self._members))
        remotes = [member.remote for member in self._members]
        return self._keeper.set(
            fault, remotes if broker is None else [remotes[broker]], calls or self._calls(fault)
        )

    def cut_client(self, client_id: str, *, calls: Calls | None = None) -> SetFault:
        """See `FaultSentences.cut_client`."""
        fault = Fault(effect="drop", apis=(ALL_APIS,), client_id=client_id)
        return self._keeper.cut(
            client_id, [member.remote for member in self._members], calls or self._calls(fault)
        )

    def _calls(self, fault: Fault) -> Calls:
        number = len(self._fault_numbers) + 1

        def missed_elsewhere() -> Counter[str]:
            return sum((member.remote.missed(number) for member in self._members), Counter())

        calls = Calls(fault, tickets_of(self._faults, number), missed_elsewhere)
        self._fault_numbers[calls] = number
        return calls

    def fill_disk(self, broker_id: int) -> None:
        """Leave no room on a broker's disk; see `odradek.testing.Broker.fill_disk`."""
        self.remote(broker_id).ask("POST", "/fill_disk")

    def free_disk(self, broker_id: int) -> None:
        """Make room on a broker's disk again."""
        self.remote(broker_id).ask("POST", "/free_disk")

    def expire_session(self, group: str, member: str | None = None) -> None:
        """Let a group member's session run out now; see `odradek.testing.Broker.expire_session`."""
        words = {"group": group, "member": member}
        self.remote(self.coordinator(group=group)).ask("POST", "/expire_session", words)

    def fence_producer(self, transactional_id: str) -> None:
        """Take a transactional id away from its producer; see `odradek.testing.Broker.fence_producer`."""
        fence_producer(self._administrator(), transactional_id)

    def move_leader(self, topic: str, index: int, broker_id: int) -> None:
        """Make a broker the leader of a partition; see `odradek.testing.Cluster.move_leader`."""
        replicas = led_by(broker_id, topic, index, self.partition(topic, index).replicas)
        if self.leader(topic, index) != broker_id:
            move_leader(self._administrator(), topic, index, replicas)
        self.wait_until(lambda: self.leader(topic, index) == broker_id)

    def move_coordinator(
        self, broker_id: int, *, group: str | None = None, transactional_id: str | None = None
    ) -> None:
        """Make a broker the coordinator of a group or a transactional id; see `Cluster.move_coordinator`."""
        self.move_leader(*self._coordinating(group, transactional_id), broker_id)

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """The id of the broker that coordinates a group, or a transactional id.

        Args:
            group, transactional_id: one of them; somebody has asked for its coordinator before.
        """
        return self.leader(*self._coordinating(group, transactional_id))

    def _coordinating(self, group: str | None, transactional_id: str | None) -> tuple[str, int]:
        topic, key = coordinated(group, transactional_id)

        def look() -> int:
            with self.admin() as admin:
                return len(admin.describe_topics([topic])[topic].partitions)

        return topic, partition_for(key, self.wait_until(look))

    def kill(self, broker_id: int) -> None:
        """End a broker with SIGKILL."""
        self._members[broker_id].send(signal.SIGKILL)
        self._members[broker_id].end()

    def stop(self, broker_id: int) -> None:
        """Stop a broker in good order, with SIGTERM: what it leads moves away first."""
        self._members[broker_id].resume()
        self._members[broker_id].send(signal.SIGTERM)
        self._members[broker_id].end()

    def restart(self, broker_id: int) -> None:
        """Start a broker that was killed or stopped, with the same data on the same port.

        Raises:
            RuntimeError: it does not start; the message has the end of its log.
        """
        member = self._members[broker_id]
        self._begin(member)
        member.await_ready()

    def pause(self, broker_id: int) -> contextlib.ExitStack:
        """Pause a broker (SIGSTOP): connections to it are taken and stay silent.

        Returns:
            What a `with` block resumes it by.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        self._members[broker_id].pause()
        at_end = contextlib.ExitStack()
        at_end.callback(self.resume, broker_id)
        return at_end

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._members[broker_id].resume()


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Process:
    """One broker, and the process that it is at the moment."""

    def __init__(self, number: int, rack: str | None, remote: RemoteBroker) -> None:
        self.number = number
        self.rack = rack
        self.remote = remote
        self.port = 0
        """0, a free port, until the first start; kept from then on, so that clients find the broker again."""
        self._process: subprocess.Popen[bytes] | None = None
        """The newest; it may have ended by itself."""
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """The address of its control port and, when it is ready, the one for clients; None at the end of its
        output. Anew for each process."""
        self._log: Path | None = None
        self._reader: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def _absent(self) -> str:
        return f"broker {self.number} does not run: nothing can be asked of it until `restart`"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerNotAvailableError(self._absent)
        return self._process.pid

    def begin(self, command: Sequence[str], log: Path) -> None:
        if self.is_running:
            raise RuntimeError(f"broker {self.number} runs already")
        self._log = log
        self._said = queue.SimpleQueue()
        with log.open("ab") as output:
            # Its standard input ends with this process, and the broker with that (`lifeline.py`). In a
            # session of its own it does not get the terminal's Ctrl-C: `close` stops it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, start_new_session=True
            )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[bytes]) -> None:
        # To the end: a pipe that nobody reads fills, and then the process waits.
        announcements = self._said
        for line in output:
            text = line.decode(errors="replace").strip()
            if text.startswith((CONTROL, READY)):
                announcements.put(text.split()[1])
        announcements.put(None)

    def await_ready(self) -> None:
        try:
            control = self._said.get(timeout=START_S)
            address = None if control is None else self._said.get(timeout=START_S)
        except queue.Empty:
            address = None
        if address is None:
            assert self._log is not None
            end = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
            raise RuntimeError(f"broker {self.number} does not start:\n{end}")
        self.remote.url = control
        self.port = int(address.rpartition(":")[2])

    def pause(self) -> None:
        if not self.is_running:
            raise BrokerNotAvailableError(self._absent)
        self.remote.is_paused = True
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)
        if self.remote.is_paused:
            self.remote.has_resumed()

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            # It may end in between.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def end(self) -> None:
        process, self._process = self._process, None
        self.remote.has_ended()
        if process is None:
            return
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None and process.stdout is not None
        if self._reader is not None:
            self._reader.join()
        process.stdin.close()
        process.stdout.close()
