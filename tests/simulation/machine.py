"""A machine of a simulation with its disk and its clock, and the lives of the broker on it."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.broker.app import Broker, StartError
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.membership.membership import ClusterAccess
from odradek.broker.metadata.controller_thread import ControllerThread, UntilTold, _call
from odradek.broker.network.connection import Connection
from odradek.broker.network.limits import network_limits
from odradek.broker.network.server import Listener
from odradek.broker.network.socket_protocol import SocketProtocol
from odradek.broker.requests.peer import Peer
from odradek.log.storage.memory_files import MemoryFileSystem

from .sockets import Port
from .store_sessions import Ensemble, Session
from .virtual_threads import VirtualExecutor
from .world import EXECUTOR_DELAY_S_MAX, Killed, VirtualClock

if TYPE_CHECKING:
    from odradek.broker.network.dispatch import Dispatcher
    from odradek.broker.network.listening import Listening

    from .sockets import End, Network
    from .world import MachineLoop, World

PORT = 9092
START_AGAIN_S = 2.0

CONFIG = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    # As short as members of the workload have it: they would not be let in.
    "group.min.session.timeout.ms": "500",
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "400",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "leader.imbalance.check.interval.seconds": "10",
    "controlled.shutdown.retry.backoff.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.segment.bytes": "3000",
    "log.index.size.max.bytes": "4096",
    "offsets.topic.segment.bytes": "65536",
    "transaction.state.log.segment.bytes": "65536",
}


class SimulatedListener(Listener):
    """A listener on a simulated network."""

    def __init__(self, machine: Machine, dispatcher: Dispatcher, config: BrokerConfig) -> None:
        super().__init__(dispatcher, network_limits(config))
        self._machine = machine
        self.host, self.port = machine.host, PORT

    def start(self) -> None:
        """See `Listener.start`."""
        self._machine.network.listen(self.host, self.port, Port(self.loop, self._accept_end))  # type: ignore[arg-type]
        self._schedule_idle_sweep()

    def stop_accepting(self) -> None:
        """See `Listener.stop_accepting`."""
        self._machine.network.unlisten(self.host, self.port, self.loop)  # type: ignore[arg-type]
        super().stop_accepting()

    def _accept_end(self, end: End) -> None:
        self._next_id += 1
        peer = Peer(end.host, end.port, f"{self._next_id}", self.name)
        self.accepted += 1
        end.begin(SocketProtocol(Connection(self, peer)))


class SimulatedControllerThread(ControllerThread):
    """The controller's thread as one that takes turns with its loop."""

    def __init__(self, broker: SimulatedBroker) -> None:
        super().__init__(broker.loop)
        self._executor: Any = VirtualExecutor(broker.machine.loop)

    def _in_loop(self, work: Any) -> Any:
        done: Future[Any] = Future()
        self._in_turn = done
        if self._stopped:
            done.cancel()
        else:
            self._loop.call_soon_threadsafe(_call, work, done)
        self._executor.wait_for(done)
        return done.result()


class SimulatedBroker(Broker):
    """A broker on a simulated machine."""

    def __init__(self, machine: Machine, **more: Any) -> None:
        self.machine, self.machine_life = machine, machine.lives
        self.has_started = False
        super().__init__(**more)

    async def start(self) -> None:
        await super().start()
        self.has_started = True

    async def stop(self) -> None:
        self.has_started = False
        await super().stop()

    def _bind(self, listening: Listening) -> None:
        listener = SimulatedListener(self.machine, self._dispatcher, self.config)
        listening.listeners.append(listener)
        self._undo.push("listener", listener.stop_accepting)

    def _use_controller_thread(self, until_told: UntilTold | None) -> None:
        assert until_told is None, "there are several brokers"
        self._controller_thread = SimulatedControllerThread(self)
        self.controller.event_queue = self._controller_thread
        self.controller.context.rng = random.Random(self.machine.world.rng.random())
        self._undo.push("controller's thread", self._controller_thread.let_go)


class Disk(MemoryFileSystem):
    """The disk of a machine; it takes its time when it is slow.

    Attributes:
        host: the machine's name.
        is_slow: each write and sync holds its process up.
        is_looked_at: the observer reads, which is no part of the simulation.
        crash_after: the process dies at the so-manyeth operation from now, in the middle of it perhaps; None
            for never.
        broken: the folder of which nothing can be read or written; None while all is well.
        is_full: of that folder everything can be read.
    """

    def __init__(self, machine: Machine, rng: random.Random) -> None:
        super().__init__(rng, machine.clock.now_ms)
        self._machine = machine
        self.host = machine.host
        self.is_slow = self.is_looked_at = False
        self.crash_after: int | None = None
        self.broken: Path | None = None
        self.is_full = False

    def check_failure(self, name: str, path: Path) -> None:
        """See `MemoryFileSystem.check_failure`."""
        if self.is_looked_at:
            return
        if self._machine.loop.is_dead:
            raise Killed
        if self.broken is not None and path.is_relative_to(self.broken):
            if not self.is_full:
                raise OSError(errno.EIO, "Input/output error", str(path))
            if name == "pwrite":
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().check_failure(name, path)

    def step(self, name: str, path: Path, size: int = 0) -> int | None:
        """See `MemoryFileSystem.step`."""
        self.history.clear()
        loop = self._machine.loop
        if self.is_slow and name in ("pwrite", "fsync"):
            now_s = self._machine.world.now_s
            loop.busy_until_s = max(loop.busy_until_s, now_s) + self.rng.uniform(0.0, 0.15)
        if self.crash_after is not None and not loop.is_dead:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.crash_after = None
                self.kill_at = self.operations
        return super().step(name, path, size)

    def die_or_fail(self) -> None:
        """See `MemoryFileSystem.die_or_fail`."""
        self._machine.kill()
        raise Killed


class Machine:
    """See the module.

    Attributes:
        host: its name.
        loop: of the present or last life of the broker.
        broker: the present or last one.
        lives: how many there were.
        disk, clock: its own.
        folders: of its data.
        has_lost_pages: it lost power, and has not started since.
        may_return: asked then whether it may start.
    """

    loop: MachineLoop
    broker: Any

    def __init__(
        self, world: World, network: Network, server: Ensemble, number: int, folders: Sequence[str]
    ) -> None:
        self.folders = folders
        self.world, self.network, self.server, self.number = world, network, server, number
        self.host = f"b{number}"
        self.lives = 0
        self.has_lost_pages = False
        self._is_stopping = self._is_to_return = False
        self.may_return: Callable[[str], bool] = lambda host: True
        self.broker = None
        self.clock = VirtualClock(world)
        self.disk = Disk(self, random.Random(world.rng.random()))
        self.sessions: list[Session] = []
        self.past: list[SimulatedBroker] = []

    @property
    def is_alive(self) -> bool:
        """Return whether a broker's process is there, perhaps paused or just starting."""
        return self.lives > 0 and not self.loop.is_dead

    @property
    def is_started(self) -> bool:
        """Return whether a broker is there and has joined."""
        broker = self.broker
        return (
            self.is_alive and broker is not None and broker.machine_life == self.lives and broker.has_started
        )

    @property
    def serves(self) -> bool:
        """Return whether a broker is there that has started, and is not about to stop."""
        return self.is_started and not self._is_stopping

    def start(self) -> None:
        """Start a broker, again and again until it has started; when it has stopped, if it is about to."""
        if self.is_alive:
            self._is_to_return = self._is_stopping
            return
        if self.has_lost_pages and not self.may_return(self.host):
            # A machine that boots before anybody has missed it is Kafka's known gap.
            self.world.control.call_later(START_AGAIN_S, self.start)
            return
        self.has_lost_pages = False
        self.network.dark.discard(self.host)
        self.disk.restart()
        self.disk.crash_after = None
        self._begin_life()

    def _begin_life(self) -> None:
        self.lives += 1
        self._is_stopping = self._is_to_return = False
        self.world.note(f"{self.host} starts {self.lives}")
        self.loop = self.world.loop(f"{self.host}.{self.lives}")
        self.loop.host, self.loop.network = self.host, self.network
        self.slow_disk(self.disk.is_slow)
        self.loop.call_soon(lambda: self.loop.create_task(self._live(self.loop)))

    async def _live(self, loop: MachineLoop) -> None:
        config = BrokerConfig(
            {
                **CONFIG,
                "log.dirs": ",".join(self.folders),
                "broker.id": str(self.number),
                "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            }
        )
        self.broker = SimulatedBroker(
            self,
            config=config,
            clock=self.clock,
            files=self.disk,
            rng=random.Random(self.world.rng.random()),
            cluster=ClusterAccess(partial(self._open_session, loop)),
        )
        self.past.append(self.broker)
        self.broker.on_fatal = lambda reason: self.kill()
        try:
            await self.broker.start()
        except StartError as error:
            self.world.note(f"{loop.name} does not start: {error}")
            if not loop.is_dead:
                self.kill()
            self.world.control.call_later(START_AGAIN_S, self.start)

    def _open_session(self, loop: MachineLoop) -> Session:
        session = Session(self.server, self, self.broker.config.zookeeper_session_timeout_ms / 1000)
        if not session.is_reached:
            session.end()
            session._travel("/")
        self.sessions.append(session)
        return session

    # ------------------------------------------------------------------ faults

    def kill(self, *, is_heard: bool = True) -> None:
        """End the process as `kill -9` does: what it has written is in the page cache.

        Args:
            is_heard: what it has sent still arrives, and so does the end of its connections.
        """
        if self.is_alive:
            self.world.note(f"{self.host} dies")
            self.loop.is_dead = True
            self.network.process_died(self.loop, silently=not is_heard)
            self.disk.restart()

    def lose_power(self) -> None:
        """Cut the power: what was not synced may be gone, nobody hears anything."""
        self.world.note(f"{self.host} loses power")
        if self.is_alive:
            self.loop.is_dead = True
            self.network.process_died(self.loop, silently=True)
        self.network.dark.add(self.host)
        self.has_lost_pages = True
        self.disk.lose_power()

    def pause(self, paused: bool = True) -> None:
        """Have the process do nothing, or go on."""
        if self.lives:
            self.loop.is_paused = paused

    def slow_disk(self, slow: bool) -> None:
        """Have the disk take its time, or be quick again."""
        self.disk.is_slow = slow
        if self.lives:
            self.loop.executor_delay_s_max = 1.0 if slow else EXECUTOR_DELAY_S_MAX

    @property
    def has_failed_folder(self) -> bool:
        """Return whether its broker has given a folder up."""
        if not self.is_started:
            return False
        logs = self.broker.logs
        return len(logs.online_dirs) < len(logs.data_dirs)

    def break_folder(self, number: int, *, is_full: bool) -> None:
        """Have nothing be read from or written to a folder; when it is full it can be read."""
        self.disk.broken, self.disk.is_full = Path(self.folders[number % len(self.folders)]), is_full

    def mend_folder(self) -> None:
        """Have the folder be in order, and start the broker anew if it has given it up."""
        self.disk.broken = None
        if self.has_failed_folder:
            self.kill()
        self.start()

    def stop(self) -> None:
        """Stop the broker in good order, and end its process."""
        if self.is_started:
            self.world.note(f"{self.host} stops")
            self._is_stopping = True
            self.loop.call_soon(lambda: self.loop.create_task(self._stop(self.loop)))

    async def _stop(self, loop: MachineLoop) -> None:
        await self.broker.stop()
        if not loop.is_dead:
            self.kill()
            if self._is_to_return:
                self.start()

    def move_out(self, topic: str, index: int) -> None:
        """Take a partition's folder out of the data folder, while no broker runs."""
        for parent in self.folders:
            folder = Path(f"{parent}/{topic}-{index}")
            for path in [path for path in self.disk.files if folder in path.parents]:
                del self.disk.files[path]
            self.disk.dirs.discard(folder)

    def empty(self, folders: Sequence[str]) -> None:
        """Lose all that is in some folders, while no broker runs: their disks are replaced."""
        self.world.note(f"{self.host} has empty disks: {', '.join(folders)}")
        for folder in folders:
            self.disk.replace_disk(Path(folder))

    def expire(self) -> None:
        """End the present sessions at the store."""
        for session in self.sessions:
            session.end()
