"""Brokers of one cluster in this process, over a metadata store in memory, with faults at hand."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.broker.app import Broker as AppBroker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.membership.membership import ClusterAccess, between_brokers
from odradek.broker.sasl.new_users import add_scram_users
from odradek.cluster.paths import sanitize
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import StoreUnavailable
from odradek.coordinators.partitioner import partition_for
from odradek.testing.between_tests import Baseline, close_waiting_clients, in_turn, is_clean, take_away
from odradek.testing.broker import LOOPBACK, TEST_DEFAULTS, Broker, clock_of, create_topic, unready_of
from odradek.testing.by_hand import coordinated, fence_producer, led_by, move_leader
from odradek.testing.faults.keeper import FaultKeeper
from odradek.testing.faults.sentences import FaultSentences
from odradek.testing.faulty_transport import FaultyTransport
from odradek.testing.in_block import InBlock
from odradek.testing.looking.inside import LookInside
from odradek.testing.security import Security, configs_of_client
from odradek.util.hosts import host_and_port

if TYPE_CHECKING:
    from types import TracebackType

    from odradek.cluster.image import ClusterImage, PartitionImage
    from odradek.cluster.store.store import MetadataStore
    from odradek.sasl.scram_words import NewUser
    from odradek.testing.clock.manual_clock import ManualClock
    from odradek.testing.faults.calls import Calls
    from odradek.testing.faults.fault import Fault
    from odradek.testing.faults.set_fault import SetFault
    from odradek.util.timers import TimerHandle

_WAIT_S = 30.0
_LOOK_S = 0.005

_DEFAULTS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    # A test waits for a follower and for a stop as long as these last.
    "replica.fetch.backoff.ms": "50",
    "controlled.shutdown.retry.backoff.ms": "100",
}


def cluster_defaults(brokers: int) -> dict[str, str]:
    """Return the configs in which the brokers of a cluster in a test differ from those that are alone. There
    are no more replicas than brokers.
    """
    replicas = str(min(3, brokers))
    return {name: replicas if "factor" in name else text for name, text in _DEFAULTS.items()}


def check_size(brokers: int, racks: Sequence[str]) -> None:
    """Check the numbers of brokers and racks.

    Raises:
        ValueError: it is fewer than one broker, or another number of racks.
    """
    if brokers < 1:
        raise ValueError(f"a cluster of {brokers} brokers: it takes one at least")
    if racks and len(racks) != brokers:
        raise ValueError(f"{len(racks)} racks for {brokers} brokers")


def check_broker(broker: int | None, brokers: int) -> None:
    """Check the id of a broker on which a fault is to be set; None is all.

    Raises:
        ValueError: there is none of that id.
    """
    if broker is not None and not 0 <= broker < brokers:
        raise ValueError(f"broker={broker}: there are 0 to {brokers - 1}")


def wait_until(
    look: Callable[[], Any], within_s: float, every_s: float, passing: tuple[type[Exception], ...] = ()
) -> Any:
    """Call `look` again and again until it returns something other than None and False, and return that.

    Args:
        look: called every `every_s` seconds.
        within_s: how long it may take.
        passing: errors that count as None.

    Raises:
        TimeoutError: it has not in time; the message has the last error.
    """
    deadline = time.monotonic() + within_s
    error: Exception | None = None
    while True:
        try:
            value = look()
            # 0 is an answer: the first broker's id.
            if value is not None and value is not False:
                return value
        except passing as problem:
            error = problem
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s" + (f"; last error: {error!r}" if error else ""))
        time.sleep(every_s)


class Cluster(InBlock, FaultSentences, LookInside):
    """Some brokers of one cluster for tests.

        with Cluster(3) as cluster:
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            cluster.kill(cluster.leader("clicks"))

    Their ids are 0, 1, 2 …; each has a thread and an event loop of its own, and they talk to each other over
    real connections on 127.0.0.1. Configs are keywords, as those of `Broker`, and hold for all of them.
    Faults are sentences as there; they are set on all brokers, or on one with `broker=1`. What is looked at
    is what the leaders and coordinators have.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data: Path | str | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        session_timeout_ms: int = 1_000,
        racks: Sequence[str] = (),
        folders: int = 1,
        security: Security | str | None = None,
        clock: ManualClock | None = None,
        unready: bool = False,
        seed: int | None = None,
        **config: Any,
    ) -> None:
        """
        Args:
            brokers: how many.
            data: where their data folders are made; kept when given.
            host: see `Broker`.
            port: of the first broker; the others have the next ones. 0 takes free ones.
            session_timeout_ms: how long after `kill` or `isolate` the metadata store waits for a broker.
            racks: `broker.rack` of each; none have one without it.
            folders: how many data folders each has.
            security: as of `odradek.testing.Broker`; brokers speak it with each other, too, and are its first
                user.
            clock: the time of all brokers, and of the metadata store; see `advance`.
            unready, seed: as of `odradek.testing.Broker`.
            config: configs of all brokers.

        Raises:
            ValueError: fewer than one broker, or another number of racks.
        """
        check_size(brokers, racks)
        self._racks = racks
        self._folders = folders
        self._given_data = Path(data) if data is not None else None
        self._temporary: str | None = None
        self._session_timeout_ms = session_timeout_ms
        self.clock = clock
        self.server = MemoryServer(clock)
        self._cuts: set[tuple[int, int]] = set()
        """Pairs of brokers: what the first asks of the second is lost. `heal` empties it and the next two."""
        self._refusals: Counter[tuple[int, int]] = Counter()
        """By pairs like those of `_refusing`, which alone have any."""
        self._refusing: set[tuple[int, int]] = set()
        """Pairs of brokers: the second refuses the first's connections."""
        self._config = cluster_defaults(brokers)
        self.security = Security.of(security)
        self.unready = unready_of(unready, seed)
        self._keywords = {
            **config,
            "security": self.security,
            "host": host,
            "clock": clock,
            "unready": self.unready or False,
        }
        self._port = port
        self.brokers = [_Member(self, number) for number in range(brokers)]
        self._keeper = FaultKeeper()
        self._baseline: Baseline | None = None
        """Since the start, or the last `keep`."""

    def __repr__(self) -> str:
        """Its size, and the seed of what is not ready."""
        unready = "" if self.unready is None else f", {self.unready}"
        return f"<Cluster of {len(self.brokers)}{unready}>"

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Start all brokers, and return when each of them knows all the others.

        Raises:
            StartError: a broker cannot start; the message says why.
        """
        root = self._given_data
        if root is None:
            self._temporary = tempfile.mkdtemp(prefix="odradek-cluster-")
            root = Path(self._temporary)
        for member in self.brokers:
            member.data = root / f"broker-{member.number}"
            member._disk.syncs = self._temporary is None
            member.start()
        self._wait_for_members()
        self._add_users([] if self.security is None else self.security.scram_users())
        self.keep()

    def _add_users(self, users: Sequence[NewUser]) -> None:
        """Write users' credentials by the controller, and wait until every broker knows them."""
        if not users:
            return
        self.brokers[self.controller].call(
            lambda broker: broker.controller.event_queue.run(
                lambda: add_scram_users(broker.controller, users)
            )
        )
        # Notices of configs are followed in their order: who knows the last user knows all of them.
        *_, last = users
        entity = f"users/{sanitize(last.name)}"
        self.wait_until(
            lambda: all(last.mechanism in self.image(broker_id).config(entity) for broker_id in self.live)
        )

    def close(self) -> None:
        """Stop all brokers at once, and remove their data unless its folder was named.

        Raises:
            UnmetFaultError: no request has met a fault that was set.
        """
        for member in self.brokers:
            # A loop that stands still would tell nothing.
            member.resume()
        problems = [keeper.end() for keeper in self._keepers()]
        # Who is cut off from the controller could not stop in good order. All stop at once, as the leads of
        # each would move to the next otherwise.
        self.heal()
        threads = [threading.Thread(target=member.end) for member in self.brokers if member.is_running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for member in self.brokers:
            member.expire()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        for problem in problems:
            if problem is not None:
                raise problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave nothing behind. Where the block has failed, nobody is told of unmet faults."""
        if kind is not None:
            for member in self.brokers:
                member.resume()
            for keeper in self._keepers():
                keeper.lift_all()
        super().__exit__(kind, error, trace)

    def _keepers(self) -> list[FaultKeeper]:
        return [self._keeper, *(member._keeper for member in self.brokers)]

    # ------------------------------------------------------------------ what tests ask for

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients: of all brokers, also those that do not run now."""
        return ",".join(member.address for member in self.brokers)

    def client_configs(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the configs of a client of this cluster; see `odradek.testing.Broker.client_configs`.

        Args:
            user, mechanism: see `odradek.testing.security.Security.client_configs`.
        """
        return configs_of_client(self.bootstrap_servers, self.security, user, mechanism)

    @property
    def live(self) -> list[int]:
        """The ids of the brokers that run."""
        return [member.number for member in self.brokers if member.is_running]

    def broker(self, broker_id: int) -> Broker:
        """One of the brokers, for what `Broker` has: `call`, `metrics`, `port` …"""
        return self.brokers[broker_id]

    def image(self, broker_id: int) -> ClusterImage:
        """The cluster as a broker sees it now."""
        return self.brokers[broker_id].call(lambda broker: broker.image)

    @property
    def controller(self) -> int:
        """The id of the controller, once there is one."""
        controller_id: int = self.wait_until(
            lambda: next(
                (
                    broker_id
                    for broker_id in self.live
                    if self.brokers[broker_id].call(lambda b: b.controller.is_active)
                ),
                None,
            )
        )
        return controller_id

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        """A partition as the controller sees it.

        Args:
            topic, index: its name and number.
        """

        # In a tuple, as "no such partition" is an answer that ends the wait.
        def look() -> tuple[PartitionImage | None] | None:
            # Who has just ceased to be the controller, or has not begun, knows of nobody.
            image: ClusterImage = self.brokers[self.controller].call(lambda b: b.controller.image)
            return (image.partition(topic, index),) if image.brokers else None

        partition: PartitionImage | None = self.wait_until(look)[0]
        if partition is None:
            raise KeyError(f"{topic}-{index}")
        return partition

    def leader(self, topic: str, index: int = 0) -> int:
        """The id of the broker that leads a partition, once a broker does and knows it.

        Args:
            topic, index: the partition.
        """

        # Both have to say so: a broker that is cut off leads until it hears otherwise, and a broker that the
        # controller has chosen leads when LeaderAndIsr has come.
        def look() -> int | None:
            for broker_id in self.live:
                replica = self.brokers[broker_id].call(lambda b: b.replicas.find(topic, index))
                if replica is not None and replica.is_leader and self._leads(topic, index, broker_id):
                    return broker_id
            return None

        leader_id: int = self.wait_until(look)
        return leader_id

    def _leads(self, topic: str, index: int, broker_id: int) -> bool:
        partition = self.brokers[self.controller].call(lambda b: b.controller.image.partition(topic, index))
        return partition is not None and partition.leader == broker_id

    def wait_for_isr(self, topic: str, isr: set[int], index: int = 0) -> None:
        """Wait until a partition's in-sync replicas are these.

        Args:
            topic, index: the partition.
            isr: broker ids.
        """

        def look() -> bool:
            # Who has just ceased to be the controller knows of no partitions any more.
            partition = self.brokers[self.controller].call(
                lambda b: b.controller.image.partition(topic, index)
            )
            return partition is not None and set(partition.isr) == isr

        self.wait_until(look)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic without a client, and return when it is led and all brokers know it.

        Args:
            name: of the topic.
            partitions: how many.
            configs: its own, under Kafka's names.
            replication_factor: replicas of each partition; None: 3, or as many as run.

        Raises:
            KafkaError: it exists, or its name or configs are not allowed.
        """
        factor = min(3, len(self.live)) if replication_factor is None else replication_factor
        self.brokers[self.controller].call(
            lambda broker: create_topic(broker, name, partitions, configs or {}, factor)
        )

        def is_there() -> bool:
            images = [self.image(broker_id).topic(name) for broker_id in self.live]
            return all(image is not None and len(image.partitions) == partitions for image in images) and all(
                self.leader(name, index) >= 0 for index in range(partitions)
            )

        self.wait_until(is_there)
        for broker_id in self.live:
            self.brokers[broker_id].tell_at_once(name)

    def wait_until(self, look: Callable[[], Any]) -> Any:
        """Call `look` again and again until it returns something true, and return that.

        Raises:
            TimeoutError: it has not in half a minute.
        """
        return wait_until(look, _WAIT_S, _LOOK_S)

    # ------------------------------------------------------------------ between two tests

    def clean_up(self) -> None:
        """Take away what a test has made, as `Broker.clean_up` does; brokers that do not run are started, and
        cuts healed. Returns when all brokers have followed.

        A client's connection is closed where it waits for an answer, or asks for something meanwhile. The
        ports stay: a client that is left open comes back.

        Raises:
            UnmetFaultError: no request has met a fault that was set; all is clean nevertheless.
        """
        self.heal()
        for member in self.brokers:
            member.resume()
            member.free_disk()
        problems = [keeper.end() for keeper in self._keepers()]
        self.forget_requests()
        for member in self.brokers:
            member.forget_requests()
        for member in self.brokers:
            if not member.is_running:
                member.start_again()
        self._wait_for_members()
        baseline = self._baseline
        assert baseline is not None
        for member in self.brokers:
            member.shut()
        try:
            for member in self.brokers:
                member.call(lambda broker: close_waiting_clients(broker.listeners))
            self.brokers[self.controller].call(
                lambda broker: in_turn(broker, lambda: take_away(broker, baseline))
            )
            self.wait_until(
                lambda: all(member.call(lambda broker: is_clean(broker, baseline)) for member in self.brokers)
            )
        finally:
            for member in self.brokers:
                member.reopen()
        for problem in problems:
            if problem is not None:
                raise problem

    def keep(self) -> None:
        """Let what there is now stay in later clean-ups; see `Broker.keep`."""
        self._baseline = self.brokers[self.controller].call(Baseline.of)

    def _wait_for_members(self) -> None:
        """Wait until each broker knows all that run."""
        self.wait_until(
            lambda: all(len(self.image(broker_id).brokers) == len(self.live) for broker_id in self.live)
        )

    def _looked_at(self) -> list[_Member]:
        return self.brokers

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Let time pass for all brokers, and return when all that is due is done: see `Broker.advance`.

        Raises:
            RuntimeError, TimeoutError, ValueError: as there.
        """
        clock_of(self.clock).advance(
            by, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )

    # ------------------------------------------------------------------ faults

    def set_fault(self, fault: Fault, *, broker: int | None = None, calls: Calls | None = None) -> SetFault:
        """See `FaultSentences.set_fault`."""
        check_broker(broker, len(self.brokers))
        return self._keeper.set(fault, self.brokers if broker is None else [self.brokers[broker]], calls)

    def cut_client(self, client_id: str, *, calls: Calls | None = None) -> SetFault:
        """See `FaultSentences.cut_client`."""
        return self._keeper.cut(client_id, self.brokers, calls)

    def move_leader(self, topic: str, index: int, broker_id: int) -> None:
        """Make a broker the leader of a partition, and return when it is.

        It becomes the partition's preferred leader by a reassignment, and is elected.

        Args:
            topic, index: the partition.
            broker_id: one of its replicas, in sync.

        Raises:
            KafkaError: it is refused.
            ValueError: the broker has no replica of the partition.
        """
        replicas = led_by(broker_id, topic, index, self.partition(topic, index).replicas)
        if self.leader(topic, index) != broker_id:
            move_leader(self._administrator(), topic, index, replicas)
        self.wait_until(lambda: self.leader(topic, index) == broker_id)

    def move_coordinator(
        self, broker_id: int, *, group: str | None = None, transactional_id: str | None = None
    ) -> None:
        """Make a broker the coordinator of a group, or of a transactional id, as `move_leader` does.

        Args:
            broker_id: which.
            group, transactional_id: one of them; somebody has asked for its coordinator before.

        Raises:
            KafkaError, ValueError: as `move_leader`.
        """
        self.move_leader(*self._coordinating(group, transactional_id), broker_id)

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """The id of the broker that coordinates a group, or a transactional id.

        Args:
            group, transactional_id: one of them; somebody has asked for its coordinator before.
        """
        return self.leader(*self._coordinating(group, transactional_id))

    def _coordinating(self, group: str | None, transactional_id: str | None) -> tuple[str, int]:
        """The partition whose leader coordinates."""
        topic, key = coordinated(group, transactional_id)

        def look() -> int | None:
            image = self.image(self.controller).topic(topic)
            return None if image is None else len(image.partitions)

        partitions: int = self.wait_until(look)
        return topic, partition_for(key, partitions)

    def expire_session(self, group: str, member: str | None = None) -> None:
        """Let a group member's session run out now; see `Broker.expire_session`."""
        self.brokers[self.coordinator(group=group)].expire_session(group, member)

    def fence_producer(self, transactional_id: str) -> None:
        """Take a transactional id away from its producer; see `Broker.fence_producer`."""
        fence_producer(self._administrator(), transactional_id)

    def _administrator(self) -> dict[str, Any]:
        return self.client_configs(None if self.security is None else self.security.administrator)

    def kill(self, broker_id: int) -> None:
        """End a broker as `kill -9` does: nothing is flushed, nobody is told.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        self.brokers[broker_id].kill()

    def stop(self, broker_id: int) -> None:
        """Stop a broker in good order: what it leads moves away first."""
        self.brokers[broker_id].end()

    def restart(self, broker_id: int) -> None:
        """Start a broker that was killed or stopped, with the same data on the same port."""
        self.brokers[broker_id].start_again()

    def pause(self, broker_id: int) -> ExitStack:
        """Pause a broker, as SIGSTOP does: connections to it are taken and stay silent.

        Returns:
            What a `with` block resumes it by.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        return self.brokers[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self.brokers[broker_id].resume()

    def expire(self, broker_id: int) -> None:
        """End a broker's session with the metadata store, which it has not heard of yet."""
        self.brokers[broker_id].expire()

    def cut(self, broker_id: int, other: int, *, one_way: bool = False) -> None:
        """Let nothing through between two brokers: what is asked gets no answer.

        Args:
            broker_id, other: their ids.
            one_way: only what `broker_id` asks of `other` is lost.
        """
        self._cuts.add((broker_id, other))
        if not one_way:
            self._cuts.add((other, broker_id))

    def refuse(self, broker_id: int, other: int) -> None:
        """Refuse a broker the connections of another one, as a packet filter does. Those open now break.

        Args:
            broker_id: who wants to connect.
            other: who refuses, or whose packet filter does; it lives, and may connect to `broker_id`.
        """
        self._refusing.add((broker_id, other))
        self.brokers[broker_id].break_off(other)

    def refusals(self, broker_id: int, other: int) -> int:
        """Return how often `broker_id` has been refused since `refuse`."""
        return self._refusals[broker_id, other]

    def isolate(self, broker_id: int) -> None:
        """Cut a broker off from all others, and from the metadata store: its session ends after a while."""
        for other in range(len(self.brokers)):
            if other != broker_id:
                self.cut(broker_id, other)
        self.brokers[broker_id].cut_off()

    def heal(self) -> None:
        """Take all cuts back."""
        self._cuts.clear()
        self._refusing.clear()
        self._refusals.clear()
        for member in self.brokers:
            member.cut_off(False)

    def is_cut(self, broker_id: int, other: int) -> bool:
        """Return whether what `broker_id` asks of `other` is lost now."""
        return (broker_id, other) in self._cuts

    def is_refused(self, broker_id: int, other: int) -> bool:
        """Return whether `other` refuses what `broker_id` asks now; it is counted."""
        if (broker_id, other) not in self._refusing:
            return False
        self._refusals[broker_id, other] += 1
        return True


class _Member(Broker):
    """One broker of a cluster."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(port=cluster._port and cluster._port + number, **cluster._keywords)
        self.number = number
        self._cluster = cluster
        self._defaults = {**TEST_DEFAULTS, **cluster._config}
        self._sessions: list[MemoryStore] = []
        """All that the broker has opened since they were ended last: it opens another after each expiry."""
        self._cut_off = False
        """Whether the metadata store is out of reach: no session can be opened."""
        self._ends: list[tuple[TimerHandle, Callable[[], None]]] = []
        """They end sessions of brokers that are dead or cut off, as a store does after a while."""
        self._transport: FaultyTransport | None = None
        """Of the present life; None before the first."""

    @property
    def is_running(self) -> bool:
        return self.broker is not None

    @property
    def address(self) -> str:
        return host_and_port(self.host, self._port)

    def _make(self, properties: dict[str, str]) -> AppBroker:
        own = {
            **properties,
            "broker.id": str(self.number),
        }
        if self._cluster._folders > 1:
            assert self.data is not None
            own["log.dirs"] = ",".join(
                str(self.data / f"{folder}") for folder in range(self._cluster._folders)
            )
        if self._cluster._racks:
            own["broker.rack"] = self._cluster._racks[self.number]
        config = BrokerConfig(own)
        inner = between_brokers(asyncio.get_running_loop(), lambda: config)
        self._transport = FaultyTransport(inner, self._cluster, self.number)
        return AppBroker(
            config,
            files=self._disk,
            cluster=ClusterAccess(self._open_store, self._transport),
            clock=self.clock,
            timers=self._life,
        )

    def _open_store(self) -> MetadataStore:
        if self._cut_off:
            raise StoreUnavailable("/", "the metadata store is out of reach")
        session = MemoryStore(self._cluster.server)
        self._sessions.append(session)
        return session

    def start_again(self) -> None:
        # Its old registration would be in the way until the session's timeout.
        self.expire()
        self.start()

    def end(self) -> None:
        # A loop that stands still would never hear of it.
        self.resume()
        self._end()
        self.expire()

    def kill(self) -> None:
        super().kill()
        self._expire_later()

    def _expire_later(self) -> None:
        sessions, self._sessions = self._sessions, []

        def expire() -> None:
            for session in sessions:
                session.expire()

        timeout_ms = self._cluster._session_timeout_ms
        if self.clock is not None:
            self._ends.append((self.clock.call_later(timeout_ms, expire), expire))
            return
        timer = threading.Timer(timeout_ms / 1000, expire)
        timer.daemon = True
        timer.start()
        self._ends.append((timer, expire))

    def expire(self) -> None:
        ends, self._ends = self._ends, []
        # What they would do later is done now; those that have fired do no harm twice.
        for timer, end in ends:
            timer.cancel()
            end()
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.expire()

    def break_off(self, other: int) -> None:
        transport = self._transport
        if self.is_running and transport is not None:
            self.call(lambda _: transport.break_off(other))

    def cut_off(self, cut: bool = True) -> None:
        if cut and not self._cut_off:
            self._expire_later()
        self._cut_off = cut
