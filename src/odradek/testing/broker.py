"""A broker in this process, with a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.broker.apis.registry import Handlers
from odradek.broker.app import Broker as AppBroker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.keywords import check_keywords, properties_from_keywords
from odradek.broker.metadata.controller_thread import ControllerThread
from odradek.broker.process.main import loop_factory
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.errors import BrokerNotAvailableError
from odradek.testing.between_tests import Baseline, clean_up
from odradek.testing.by_hand import abort_connections, expire_session, fence_producer
from odradek.testing.disk import Disk
from odradek.testing.faults.keeper import FaultKeeper
from odradek.testing.faults.sentences import FaultSentences
from odradek.testing.in_block import InBlock
from odradek.testing.looking.events import BrokerEvents
from odradek.testing.looking.inside import LookInside
from odradek.testing.ports import lasting_port
from odradek.testing.security import Security, configs_of_client
from odradek.util.futures import error_of
from odradek.util.hosts import host_and_port
from odradek.util.interruptible import wait_until
from odradek.util.stack_dumps import tell_of
from odradek.util.stand_still import StandStill

if TYPE_CHECKING:
    from types import TracebackType

    from odradek.broker.requests.peer import Peer
    from odradek.testing.clock.life import Life
    from odradek.testing.clock.manual_clock import ManualClock
    from odradek.testing.faults.calls import Calls
    from odradek.testing.faults.fault import Fault
    from odradek.testing.faults.injector import FaultInjector
    from odradek.testing.faults.set_fault import Cut, SetFault
    from odradek.testing.looking.events import OnEvent, OnRequest
    from odradek.testing.unready.handlers import UnreadyHandlers
    from odradek.testing.unready.unready import Unready

T = TypeVar("T")

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_PAUSED = "the broker is paused: nothing can be asked of it until `resume`"
_ABSENT = "the broker does not run: nothing can be asked of it until `restart`"

TEST_DEFAULTS = {
    # Nobody in a test wants to wait three seconds for a second consumer that may come.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    # Each is made before the first transaction, and taken away by a clean-up.
    "transaction.state.log.num.partitions": "1",
}
"""Where a broker in a test differs from Kafka's defaults."""


LOOPBACK = "127.0.0.1"
_ALL_HOSTS = ("0.0.0.0", "::")
_SAID_OTHERWISE = {
    "log_dirs": "data=",
    "log_dir": "data=",
    "listeners": "host= and port=",
    "host_name": "host=",
}


class Broker(InBlock, FaultSentences, LookInside):
    """A broker for tests.

        with Broker() as broker:
            producer = Producer(bootstrap_servers=broker.bootstrap_servers)

    Configs are keywords: `num_partitions=3` is `num.partitions=3`; a name that is none is refused. With
    `kafka_version="2.2"` it is a Kafka 2.2, as far as a client can tell and our own handlers go. The data
    lives in a temporary folder that goes with the broker, unless `data` names one.

    Faults are sentences: `broker.fail("Produce", NotLeaderOrFollowerError, times=2)`, see `FaultSentences`
    and docs/testing.md. What is in it `LookInside` tells. With `unready=True` it is as unready as a real
    Kafka: who asks early has to ask again.

    Attributes:
        data: the data folder.
        security: as given.
        clock: the time that is in the test's hand; None for that of the machine.
        unready: what is not ready at once, with its seed; None for a broker that is ready.
        broker: the `odradek.broker.app.Broker`; it lives in another thread, see `call`.
    """

    _defaults: Mapping[str, str] = TEST_DEFAULTS

    def __init__(
        self,
        *,
        data: Path | str | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        kafka_version: str | None = None,
        security: Security | str | None = None,
        clock: ManualClock | None = None,
        unready: bool | Unready = False,
        seed: int | None = None,
        **config: Any,
    ) -> None:
        """
        Args:
            data: the data folder; kept when given.
            host: where to listen; 0.0.0.0 for all that the machine has, and then `advertised_listeners` says
                by which address clients come. With `security` it is 127.0.0.1.
            port: 0 takes a free port, the same one in all its lives, another after a `clean_up`.
            kafka_version: the release of Kafka to be, such as "2.2" or "3.9-kraft", see
                `odradek.testing.kafka_versions`; None for all that there is.
            security: who may connect, and how, or a security protocol such as "SSL"; None for everybody.
                Clients get `client_configs`.
            clock: the broker's time, which `advance` lets pass; it may be that of other brokers, too.
            unready: whether topics, leaders, coordinators and so on are there some answers later, as in a
                real Kafka; see docs/testing.md. A cluster's brokers are given what they have in common.
            seed: of how many answers; `ODRADEK_UNREADY_SEED`, or 0, if None.
            config: broker configs.

        Raises:
            TypeError: a keyword that is no config, or one that `data`, `host` and `port` say; a seed of
                nothing.
        """
        for name, instead in _SAID_OTHERWISE.items():
            if name in config:
                raise TypeError(f"{name}: a broker in a test has {instead} instead")
        own = ("data", "host", "port", "kafka_version", "security", "clock", "unready", "seed")
        check_keywords(config, own)
        if kafka_version is not None and not isinstance(kafka_version, str):
            raise TypeError(f'kafka_version={kafka_version!r}: a release is text, as "2.2" and "4.10" are')
        if kafka_version is not None:
            config["odradek_kafka_version"] = kafka_version
        self._temporary: str | None = None
        self.data: Path | None = Path(data) if data is not None else None
        self._host = host
        self._port = port
        self._is_port_given = port != 0
        self.security = Security.of(security)
        self.clock = clock
        self._life: Life | None = None
        """The present one under the clock; None without a clock, and while the broker does not run."""
        self._config = config
        self.broker: AppBroker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._keeper = FaultKeeper()
        self._faults: list[SetFault] = []
        """Those at this broker, a cluster's among them, in the order in which they were set."""
        self._injector: FaultInjector | None = None
        """Of the present life, or of the last one; None while there was no fault in it."""
        self._handlers: Handlers | None = None
        self._stands: StandStill | None = None
        self._paused = False
        """Set by `resume`; None while the loop runs."""
        self._killed = False
        self._disk = Disk()
        self._events = BrokerEvents()
        self.unready = unready_of(unready, seed)
        self._unready_handlers: UnreadyHandlers | None = None
        """Of the present life, or of the last one; None for a broker that is ready."""
        self._baseline: Baseline | None = None
        """Of the first life with this data, or since `keep`."""

    def __repr__(self) -> str:
        """Its address, and the seed of what is not ready."""
        where = "not running" if self.broker is None else self.bootstrap_servers
        return f"<Broker {where}{'' if self.unready is None else f', {self.unready}'}>"

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Start, and return when it accepts connections.

        Raises:
            StartError: it cannot start; the message says why.
        """
        if self._thread is not None:
            raise RuntimeError("the broker runs already")
        if self.data is None:
            self._temporary = tempfile.mkdtemp(prefix="odradek-")
            self.data = Path(self._temporary)
            self._disk.syncs = False
        if self._port == 0:
            self._port = lasting_port()
        ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="odradek-broker", daemon=True)
        self._thread.start()
        if not ready.wait(_START_TIMEOUT_S):
            raise TimeoutError("the broker did not start in time")
        if self._failure is not None:
            failure = self._failure
            self._thread.join()
            self._thread = None
            self._remove_data()
            raise failure
        self._port = self.port

    def stop(self) -> None:
        """Stop in good order, as on SIGTERM. The data stays until `close`; faults end.

        Raises:
            UnmetFaultError: no request has met a fault that was set.
        """
        # A loop that stands still would tell of nothing, and never hear of a stop.
        self.resume()
        problem = self._keeper.end()
        self._end()
        if problem is not None:
            raise problem

    def _end(self) -> None:
        thread, loop, broker = self._thread, self._loop, self.broker
        if thread is None or loop is None or broker is None:
            return
        loop.call_soon_threadsafe(self._finished.set)
        thread.join(_STOP_TIMEOUT_S)
        if thread.is_alive():
            raise TimeoutError("the broker did not stop in time")
        self._thread = None
        self.broker = None

    def restart(self) -> None:
        """Stop in good order, unless it is killed, and start again with the same data on the same port.

        Faults stay.
        """
        self.resume()
        self._end()
        self.start()

    def kill(self) -> None:
        """End as `kill -9` does: nothing is flushed, nobody is told. `restart` starts it again.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        self.resume()
        self._killed = True
        try:
            self.call(_abandon)
            self._end()
        finally:
            self._killed = False

    def pause(self) -> ExitStack:
        """Stand still, as on SIGSTOP: connections are taken and stay silent. Nothing else can be asked.

        Returns:
            What a `with` block resumes it by, so that a test that fails does not leave its clients waiting.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        if self.broker is None or self._stands is None:
            raise BrokerNotAvailableError(_ABSENT)
        if not self._paused:
            self._paused = True
            # Waited for, so that nothing is done any more when `pause` has returned.
            self._stands.begin().wait(_START_TIMEOUT_S)
            if self._life is not None:
                self._life.is_paused = True
        at_end = ExitStack()
        at_end.callback(self.resume)
        return at_end

    @property
    def is_paused(self) -> bool:
        """True while it stands still, by `pause`."""
        return self._paused

    def resume(self) -> None:
        """Go on after `pause`; harmless otherwise."""
        if self._stands is not None:
            self._stands.end()
        paused, self._paused = self._paused, False
        if paused and self._life is not None and self.clock is not None:
            self._life.is_paused = False
            # As a process does that was stopped for so long.
            self.clock.advance()

    def close(self) -> None:
        """Stop, and remove the data unless it was named.

        Raises:
            UnmetFaultError: see `stop`.
        """
        try:
            self.stop()
        finally:
            self._remove_data()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave nothing behind. Where the block has failed, nobody is told of unmet faults."""
        if kind is not None:
            self.resume()
            self._keeper.lift_all()
        super().__exit__(kind, error, trace)

    def _remove_data(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
            self.data = None
            self._baseline = None

    # ------------------------------------------------------------------ the thread

    def _run(self, ready: threading.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory()) as runner:
                runner.run(self._main(ready))
        except BaseException as error:
            self._failure = error
        finally:
            ready.set()

    def _loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        if self.clock is None:
            return loop_factory()
        from odradek.testing.clock.resting_loop import RestingLoop

        return RestingLoop

    async def _main(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        tell_of(self._loop)
        self._stands = StandStill(self._loop)
        self._finished = asyncio.Event()
        given = properties_from_keywords(self._config)
        properties = {
            **self._defaults,
            "listeners": f"PLAINTEXT://{host_and_port(self._host, self._port)}",
            **({} if self.security is None else self.security.broker_configs(self._port)),
            **({} if self.security is None else self.security.between_brokers(given)),
            **given,
            "log.dirs": str(self.data),
        }
        life = self._life = self._begin_life()
        try:
            await self._live(self._make(properties), ready)
        finally:
            self._life = None
            if life is not None:
                life.end()

    def _begin_life(self) -> Life | None:
        if self.clock is None:
            return None
        from odradek.testing.clock.resting_loop import RestingLoop

        assert isinstance(self._loop, RestingLoop), "made by `_loop_factory`"
        return self.clock.begin_life(self._loop)

    async def _live(self, broker: AppBroker, ready: threading.Event) -> None:
        if self.unready is not None:
            self._unready_handlers = self.unready.install(broker, broker.handlers)
        self._injector = None
        for fault in self._faults:
            self._inject(broker, fault)
        self._events.begin(broker.handlers)
        await broker.start()
        if self._life is not None:
            controller = broker.controller.event_queue
            assert isinstance(controller, ControllerThread)
            self._life.started(broker, controller, broker.housekeeping)
        try:
            if not self._disk.syncs and isinstance(broker.store, EmbeddedStore):
                store = broker.store
                await broker.controller.event_queue.run(
                    lambda: store.database.execute("PRAGMA synchronous = OFF")
                )
            if self.security is not None:
                await self.security.add_users(broker)
                await self.security.add_acls(broker)
            if self._baseline is None:
                self._baseline = Baseline.of(broker)
            self._events.started(broker)
            self.broker = broker
            ready.set()
            await self._finished.wait()
        finally:
            self._events.ended()
            await self._stop(broker)

    def _make(self, properties: dict[str, str]) -> AppBroker:
        return AppBroker(BrokerConfig(properties), files=self._disk, clock=self.clock, timers=self._life)

    def take_up(self, make: Callable[..., AppBroker]) -> AppBroker:
        """Make a broker that somebody else starts and stops, in the loop in which this is called.

        Faults that were set before hold from its beginning.

        Args:
            make: called with what `AppBroker` has for a test.
        """
        self._loop = asyncio.get_running_loop()
        broker = make(files=self._disk)
        for fault in self._faults:
            self._inject(broker, fault)
        self.broker = broker
        return broker

    async def _stop(self, broker: AppBroker) -> None:
        if not self._killed:
            await broker.stop()

    # ------------------------------------------------------------------ what tests ask for

    @property
    def host(self) -> str:
        """The host by which this process reaches it."""
        return LOOPBACK if self._host in _ALL_HOSTS else self._host

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        if self.broker is None:
            raise BrokerNotAvailableError(_ABSENT)
        return self.broker.port

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `host:port`.

        Raises:
            BrokerNotAvailableError: it does not run.
        """
        return host_and_port(self.host, self.port)

    def client_configs(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the configs of a client of this broker, under Kafka's names: servers, and how it logs in.

        Args:
            user: one of `security`'s, or of no users, whose certificate it shows; see
                `odradek.testing.security.Security.client_configs`.
            mechanism: of SASL; `security`'s first if None.
        """
        return configs_of_client(self.bootstrap_servers, self.security, user, mechanism)

    def call(self, function: Callable[[AppBroker], T]) -> T:
        """Run `function` with the broker in the broker's thread; what it, or its future, comes to.

        Raises:
            BrokerNotAvailableError: it does not run, or is paused, or is killed or paused meanwhile.
        """
        loop, broker = self._loop, self.broker
        if loop is None or broker is None:
            raise BrokerNotAvailableError(_ABSENT)
        if self._paused:
            raise BrokerNotAvailableError(_PAUSED)
        done = threading.Event()
        outcome: list[Any] = [None, None]

        def finish(future: asyncio.Future[Any]) -> None:
            outcome[1] = error_of(future)
            outcome[0] = future.result() if outcome[1] is None else None
            done.set()

        def run() -> None:
            try:
                outcome[0] = function(broker)
            except BaseException as error:
                outcome[1] = error
            if asyncio.isfuture(outcome[0]):
                outcome[0].add_done_callback(finish)
            else:
                done.set()

        self._run_in(loop, run, done)
        if outcome[1] is not None:
            raise outcome[1]
        result: T = outcome[0]
        return result

    def _run_in(
        self, loop: asyncio.AbstractEventLoop, run: Callable[[], None], done: threading.Event
    ) -> None:
        def is_over(slice_s: float) -> bool:
            return done.wait(slice_s) or self._paused or self.broker is None or loop.is_closed()

        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(run)
        if not wait_until(is_over, _START_TIMEOUT_S):
            raise TimeoutError("the broker's loop did not answer in time")
        if not done.is_set():
            raise BrokerNotAvailableError(_PAUSED if self._paused else "the broker does not run any more")

    def create_topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Create a topic without a client.

        Raises:
            KafkaError: it exists, or its name or configs are not allowed.
        """
        self.call(lambda broker: create_topic(broker, name, partitions, configs or {}))
        self.tell_at_once(name)

    def tell_at_once(self, topic: str) -> None:
        """Let a topic be ready that was made by hand, also where the broker is `unready`."""
        unready = self._unready_handlers
        if unready is not None:
            self.call(lambda _: unready.tell_at_once(topic))

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
        """Let time pass, and return when all that is due by then is done: docs/testing.md, "Time in hand".

        Args:
            by: how much.
            days, hours, minutes, seconds, milliseconds: how much, beside `by`; down to milliseconds.

        Raises:
            RuntimeError: the broker has no `clock`, its time is the machine's.
            TimeoutError: the broker does not come to rest.
            ValueError: it would go back.
        """
        clock_of(self.clock).advance(
            by, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )

    # ------------------------------------------------------------------ between two tests

    def clean_up(self) -> None:
        """Take away what a test has made: topics, groups, transactions, dynamic configs, quotas, ACLs, users,
        tokens, faults, recorded requests. What there was at the start, or at the last `keep`, stays.

        The connections of clients are closed first, nobody is let in meanwhile, and then the broker listens
        on another port: a client that was left open finds nobody, and brings nothing back. (A `port` that was
        given stays, and such a client comes back.) A broker that is paused goes on, one that does not run is
        started, and its disk has room.

        Raises:
            UnmetFaultError: no request has met a fault that was set; all is clean nevertheless.
        """
        self.resume()
        self.free_disk()
        problem = self._keeper.end()
        self.forget_requests()
        if self.broker is None:
            self.start()
        baseline = self._baseline
        assert baseline is not None
        moves = not self._is_port_given
        if not moves:
            self.shut()
        try:
            self.call(lambda broker: clean_up(broker, broker.listeners, baseline, moves=moves))
        finally:
            if not moves:
                self.reopen()
        self._port = self.port
        if problem is not None:
            raise problem

    def keep(self) -> None:
        """Let what there is now stay in later clean-ups. Of a topic's records those that come later stay,
        too."""
        self._baseline = self.call(Baseline.of)

    def shut(self) -> None:
        """Let no client in until `reopen`: each is closed by its next request."""
        self._change_events(BrokerEvents.shut)

    def reopen(self) -> None:
        """Let clients in again."""
        self._change_events(BrokerEvents.reopen)

    # ------------------------------------------------------------------ what is looked at

    @property
    def is_up(self) -> bool:
        """See `odradek.testing.looking.inside.LookedAt`."""
        return self.broker is not None

    def listen(self, on_event: OnEvent) -> None:
        """See `odradek.testing.looking.waiting.Told`."""
        self._change_events(lambda events: events.listen(on_event))

    def listen_to_requests(self, on_request: OnRequest) -> None:
        """See `odradek.testing.looking.inside.LookedAt`."""
        self._change_events(lambda events: events.listen_to_requests(on_request))

    def leave(self, on_event: OnEvent | OnRequest) -> None:
        """See `odradek.testing.looking.waiting.Told`."""
        self._change_events(lambda events: events.leave(on_event))

    leave_requests = leave

    def _change_events(self, change: Callable[[BrokerEvents], None]) -> None:
        done = threading.Event()

        def run() -> None:
            if not done.is_set():
                change(self._events)
                done.set()

        if self.broker is not None and self._loop is not None:
            with suppress(BrokerNotAvailableError):
                self._run_in(self._loop, run, done)
            if self._paused:
                return  # it is done when the broker goes on
        run()

    def _looked_at(self) -> list[Broker]:
        return [self]

    # ------------------------------------------------------------------ faults

    def set_fault(self, fault: Fault, *, broker: int | None = None, calls: Calls | None = None) -> SetFault:
        """See `FaultSentences.set_fault`."""
        if broker is not None:
            raise TypeError(f"broker={broker}: it is for a cluster; this is one broker")
        return self._keeper.set(fault, [self], calls)

    def cut_client(self, client_id: str, *, calls: Calls | None = None) -> SetFault:
        """See `FaultSentences.cut_client`."""
        return self._keeper.cut(client_id, [self], calls)

    def fill_disk(self) -> None:
        """Leave no room on the disk for logs and checkpoints, until `free_disk`. (The metadata store, which
        is not the broker's to write in a cluster either, has room.)"""
        self._disk.is_full = True

    def free_disk(self) -> None:
        """Make room on the disk again."""
        self._disk.is_full = False

    def expire_session(self, group: str, member: str | None = None) -> None:
        """Let a group member's session run out now, as if it had been silent for so long.

        Args:
            group: whose member.
            member: its member id, group instance id or client id; None for the only one.

        Raises:
            KafkaError: this broker does not coordinate the group, or does not yet.
            ValueError: there is no such member, or more than one.
        """
        self.call(lambda broker: expire_session(broker.groups.coordinator, group, member))

    def fence_producer(self, transactional_id: str) -> None:
        """Take a transactional id away from its producer, whose open transaction is aborted.

        It is done as another producer of that id does it when it begins (InitProducerId).

        Raises:
            KafkaError: it is refused.
        """
        fence_producer(self._administrator(), transactional_id)

    def _administrator(self) -> dict[str, Any]:
        return self.client_configs(None if self.security is None else self.security.administrator)

    @property
    def handlers(self) -> Handlers:
        """Return what the broker answers, also while it does not run."""
        if self.broker is not None:
            return self.broker.handlers
        if self._handlers is None:
            self._handlers = Handlers.of_release(self._config.get("odradek_kafka_version"))
        return self._handlers

    @property
    def listener_names(self) -> list[str]:
        """Return the names of its listeners; none while it does not run."""
        if self.broker is None:
            return []
        return self.call(lambda broker: [listener.name for listener in broker.listeners])

    def add_fault(self, fault: SetFault) -> None:
        """See `odradek.testing.faults.keeper.Faulty`; tests say `fail`, `delay` …"""
        self._faults.append(fault)
        if self.broker is not None:
            self.call(lambda broker: self._inject(broker, fault))

    def _inject(self, broker: AppBroker, fault: SetFault) -> None:
        if self._injector is None:
            from odradek.testing.faults.injector import FaultInjector

            self._injector = FaultInjector(broker, broker.handlers)
        self._injector.add(fault)

    def remove_fault(self, fault: SetFault) -> None:
        """See `odradek.testing.faults.keeper.Faulty`."""
        if fault in self._faults:
            self._faults.remove(fault)
        injector = self._injector
        if self.broker is not None and injector is not None:
            self.call(lambda _: injector.remove(fault))

    def abort_connections(self, client_id: str, calls: Calls) -> list[Peer]:
        """See `odradek.testing.faults.keeper.Faulty`; tests say `cut_client`."""
        if self.broker is None:
            return []
        return self.call(lambda broker: abort_connections(broker.listeners, client_id, calls))

    def keep_cutting(self, cut: Cut) -> None:
        """See `odradek.testing.faults.keeper.Faulty`: the cut that was added says so itself."""

    def requests_by_api(self) -> Counter[str]:
        """Return how many requests of each API have come in this life of the broker."""
        if self.broker is None:
            return Counter()
        return self.call(
            lambda broker: Counter(
                {api: metrics.requests for api, metrics in broker.metrics.requests.items()}
            )
        )

    def metrics(self) -> dict[Any, float]:
        """All metrics now, see `odradek.broker.metrics.metrics.Metrics.snapshot`."""
        return self.call(lambda broker: broker.metrics.snapshot())


def clock_of(clock: ManualClock | None) -> ManualClock:
    """Return the clock that is in the test's hand.

    Raises:
        RuntimeError: there is none.
    """
    if clock is None:
        raise RuntimeError("its time is the machine's: give it clock=odradek.testing.ManualClock()")
    return clock


def unready_of(unready: bool | Unready, seed: int | None) -> Unready | None:
    """Return what the keywords `unready` and `seed` say; None for brokers that are ready at once.

    Raises:
        TypeError: a seed of nothing.
    """
    if seed is not None and unready is not True:
        raise TypeError(f"seed={seed}: it is for unready=True")
    if unready is not True:
        return unready or None
    from odradek.testing.unready.unready import Unready

    return Unready(seed)


def _abandon(broker: AppBroker) -> None:
    broker.abandon()
    if broker.channels is None:
        # The end of its process would let go of it, and what was written to it is there by then.
        broker.store.close()


def create_topic(
    broker: AppBroker, name: str, partitions: int, configs: dict[str, str], replication_factor: int = 1
) -> Any:
    """Create a topic on a broker that is the controller; a future of it."""
    wanted = NewTopic(name, partitions, replication_factor, configs=configs)
    return broker.controller.event_queue.run(lambda: broker.controller.create_topic(wanted))
