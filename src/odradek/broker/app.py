"""The broker: what it is made of, in which order it starts, and how it stops.

Start: ports are taken (nothing listens yet), the data folders locked and looked at, the metadata store
opened, the image loaded, the broker registered, partitions and coordinators taken up from the image; then the
listeners accept. Whatever fails on the way is raised as a `StartError` with the remedy, and everything is let
go again.

Stop: nothing more is accepted, what waits is ended, logs are flushed and closed, the store is closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import TELEMETRY, Handlers
from odradek.broker.assembly.coordinators import Coordinators
from odradek.broker.assembly.dynamic_client_quota_publisher import DynamicClientQuotaPublisher
from odradek.broker.assembly.dynamic_config_publisher import DynamicConfigPublisher
from odradek.broker.assembly.gauges import (
    count_copied,
    register_controller_gauges,
    register_fetcher_gauges,
    register_log_gauges,
    register_replica_gauges,
    register_request_gauges,
)
from odradek.broker.assembly.metadata_access import open_metadata
from odradek.broker.assembly.metadata_publisher import MetadataPublisher
from odradek.broker.assembly.registration import broker_registration
from odradek.broker.assembly.security import keep_up_security, open_security
from odradek.broker.assembly.start_errors import StartError, start_errors
from odradek.broker.assembly.store_choice import is_shared, open_store
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.protection import check_promises
from odradek.broker.conversion.conversions import Conversions
from odradek.broker.conversion.unpacking import Unpacking
from odradek.broker.event_loop.loop_timers import LoopTimers
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.fetch.sessions import FetchSessionCache
from odradek.broker.folders.adoption import report_strangers
from odradek.broker.folders.failures import FolderFailures
from odradek.broker.folders.log_configs import TopicLogConfigs
from odradek.broker.folders.opening import open_logs
from odradek.broker.membership.lone_membership import LoneMembership
from odradek.broker.membership.membership import ClusterAccess, Membership
from odradek.broker.metadata.controller_thread import ControllerThread, UntilTold
from odradek.broker.metadata.features import TRANSACTION_VERSION, Features
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.metadata.waits import check_cluster, check_topics
from odradek.broker.metrics.metrics import Metrics
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.listening import Listening
from odradek.broker.network.server import Listener
from odradek.broker.quotas.producer_id_throttle import ProducerIdThrottle
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.quotas.throttling import RequestThrottle
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.requests.authorizer import Authorizer
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.upkeep.housekeeping import Housekeeping
from odradek.cluster.features import read_features
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.nodes import BrokerRegistration
from odradek.cluster.producer_ids import BELIEVED_BELOW
from odradek.errors import OdradekError
from odradek.log.folders.log_manager import LogManager
from odradek.log.storage.real_files import RealFileSystem
from odradek.replication.delayed import DelayedOperation, Purgatory
from odradek.replication.replica_selector import replica_selector
from odradek.replication.replication_quota import replication_quotas
from odradek.util import repeats
from odradek.util.clock import Stopwatch, SystemClock
from odradek.util.futures import to_the_end
from odradek.util.hosts import host_and_port
from odradek.util.undo import Undo

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import AclKeeper
    from odradek.broker.groups.runtime import GroupRuntime
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.membership.state_changes import StateChanges
    from odradek.broker.metadata.topic_descriptions import TopicDescriptions
    from odradek.broker.metrics.telemetry import ClientTelemetry
    from odradek.broker.monitoring.monitoring_server import MonitoringServer
    from odradek.broker.network.request_log import RequestLog
    from odradek.broker.requests.login_gate import GateKeeper
    from odradek.broker.sasl.token_keeper import TokenKeeper
    from odradek.broker.transactions.runtime import TransactionRuntime
    from odradek.broker.upkeep.log_starts import LogStarts
    from odradek.broker.upkeep.moving import Moving
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.storage.files import FileSystem
    from odradek.sasl.scram_words import NewUser
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers

__all__ = ["Broker", "StartError"]

logger = logging.getLogger(__name__)


class Broker:
    """One broker.

    Attributes: those of `BrokerServices`, and
        handlers: who answers which request.
        store: where the metadata is; of a cluster of several the session in which it was loaded.
        listeners: in the order of the configs.
        monitoring: the port for metrics and health; None where there is none, or the broker does not run.
        housekeeping: the broker's work by the clock: retention, flushes, checkpoints.
        on_fatal: told why the broker cannot go on: all of its data folders have failed, or another broker has
            its id.
        all_stop: returns, at a stop, whether all brokers of the cluster stop: nobody takes over then.
    """

    # Made by a start: nothing of this is there before, and handlers are not called before all of it is.
    loop: asyncio.AbstractEventLoop
    timers: Timers
    pauses: Timers
    purgatory: Purgatory
    logs: LogManager
    store: MetadataStore
    controller: KafkaController
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    features: Features
    housekeeping: Housekeeping
    _folder_failures: FolderFailures
    _listening: Listening
    _coordinators: Coordinators
    _metadata: MetadataCache
    _membership: Membership | LoneMembership
    _dynamic_configs: DynamicConfigPublisher

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        clock: Clock | None = None,
        files: FileSystem | None = None,
        store: MetadataStore | None = None,
        cluster: ClusterAccess | None = None,
        timers: Timers | None = None,
        pauses: Timers | None = None,
        request_log: Path | None = None,
        rng: random.Random | None = None,
        scram_users: Sequence[NewUser] = (),
    ) -> None:
        """
        Args:
            config: the broker's configs; Kafka's defaults without.
            clock: the broker's time; the machine's when None.
            files: the real file system when None.
            store: where the metadata is; SQLite in the first data folder when None. A store that is handed
                in is not closed.
            cluster: how to get to the cluster of several; when None the configs say whether there is one.
            timers: of a `clock` that is in a test's hand; the event loop's when None.
            pauses: for how long a request says that it waits, and for what is tried again after a while; the
                event loop's when None, also where `timers` are not.
            request_log: a file that gets a line per request.
            rng: for fetch session ids.
            scram_users: users that a start makes unless they exist; for a broker that is alone.
        """
        # Replaced when the folders and the store have said which id the broker has (`_open_folders`);
        # dynamic configs change it in place from then on. So who is made before that asks for it anew.
        self.config = config if config is not None else BrokerConfig()
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.files: FileSystem = files if files is not None else RealFileSystem()
        self.metrics = Metrics()
        self.handlers = Handlers.of_release(self.config.odradek_kafka_version)
        if self.config.odradek_metrics_port >= 0:
            self.handlers.also_listed = TELEMETRY
        self.all_stop: Callable[[], bool] = lambda: False
        # None for good where no `authorizer.class.name` is set: everybody may do everything then.
        self.authorizer: Authorizer | None = None
        self.acls: AclKeeper | None = None
        self.delegation_tokens: TokenKeeper | None = None
        # The same at all brokers, from the store: an unknown user is told the same salt by each of them.
        self.scram_decoy_key = b""
        self.request_log: RequestLog | None = None
        self.listeners: list[Listener] = []
        self._request_log_path = request_log
        self._given_store = store
        # A store that is handed in is this broker's own: a cluster over one comes as `cluster`.
        if cluster is None and store is None and is_shared(self.config):
            cluster = ClusterAccess(self._open_shared_store)
        self._cluster = cluster
        self._given_timers, self._given_pauses = timers, pauses
        self.stopwatch: Clock = self.clock if timers is None else Stopwatch(self.clock)
        self._rng = rng
        self._scram_users = scram_users
        self.on_fatal: Callable[[str], None] | None = None
        self.conversions = Conversions()
        self.slicer = Slicer()
        # Both stay None at a broker that is alone, and handlers tell by `channels` that it is: it takes no
        # control requests, and waits for no other broker (docs/decisions/a-controller-of-parts.md).
        self.state_changes: StateChanges | None = None
        self.channels: InterBrokerChannels | None = None
        self.producer_id_throttle = ProducerIdThrottle(self.config.odradek_producer_id_creation_rate)
        self.quotas = QuotaManagers(self.config, self.clock)
        # Also the dispatcher's; None while no quota is set, so that a request pays for none.
        self.request_throttle: RequestThrottle | None = None
        self._controller_thread: ControllerThread | None = None
        # Holds what lets go of all that a start has taken so far; empty before a start, and after a stop.
        self._undo = Undo()
        # Whether a stop has somebody to tell and something to finish: from the end of a start to its stop.
        self._started = False
        self.monitoring: MonitoringServer | None = None
        self._telemetry: ClientTelemetry | None = None
        self._topic_descriptions: TopicDescriptions | None = None

    # ------------------------------------------------------------------ what handlers ask for

    @property
    def broker_id(self) -> int:
        """This broker's id."""
        return self.config.broker_id

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._metadata.image

    @property
    def knows_cluster(self) -> bool:
        """Return whether this broker has been told of its cluster since it started."""
        return self._membership.is_told

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.controller.cluster_id

    @property
    def host(self) -> str:
        """The first listener's address, as a client on this machine can use it."""
        return self._listening.host

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self._listening.port

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the first listener."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def moving(self) -> Moving | None:
        """Moves replicas between data folders; None while the broker does not run."""
        return self.housekeeping.moving

    @property
    def log_starts(self) -> LogStarts:
        """Writes down what DeleteRecords has done."""
        return self.housekeeping.log_starts

    @property
    def groups(self) -> GroupRuntime:
        """The group coordinator's binding; made when groups are first spoken of."""
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionRuntime:
        """The transaction coordinator's binding; made when transactions are first spoken of."""
        return self._coordinators.transactions

    @property
    def telemetry(self) -> ClientTelemetry:
        """The answers to clients that ask about their metrics; made when the first asks."""
        telemetry = self._telemetry
        if telemetry is None:
            from odradek.broker.metrics.telemetry import ClientTelemetry

            telemetry = self._telemetry = ClientTelemetry(
                self.config.telemetry_max_bytes, lambda: self.image.configs
            )
            self.metrics.source(telemetry.samples)
        return telemetry

    @property
    def topic_descriptions(self) -> TopicDescriptions:
        """The partitions as Metadata describes them; made when the first asks."""
        descriptions = self._topic_descriptions
        if descriptions is None:
            from odradek.broker.metadata.topic_descriptions import TopicDescriptions

            descriptions = self._topic_descriptions = TopicDescriptions(self._metadata)
        return descriptions

    # ------------------------------------------------------------------ start

    async def start(self) -> None:
        """Start, and accept connections.

        Raises:
            StartError: the folder is in use or damaged, the port is taken, a config is wrong. Everything is
                as it was before.
        """
        self.loop = asyncio.get_running_loop()
        self.pauses = self._given_pauses if self._given_pauses is not None else LoopTimers(self.loop)
        self.timers = self._given_timers if self._given_timers is not None else self.pauses
        self.unpacking = Unpacking(self.stopwatch, self.pauses, self.config.odradek_unpacked_bytes_per_second)
        self.purgatory = Purgatory(self.pauses, on_error=_log_broken_operation)
        try:
            with start_errors():
                await self._start()
        except BaseException:
            # Also where a signal has cancelled a start that waits for the store: no port or lock stays taken.
            await self._give_up()
            raise

    async def _start(self) -> None:
        await self._prepare()
        membership = self._membership
        self._check_is_wanted(membership)
        if isinstance(membership, Membership):
            await self._join(membership)
        else:
            await self._take_charge(membership)
        self._finish_start()

    async def _prepare(self) -> None:
        """Take the ports, open the folders and the metadata; the broker is not registered yet."""
        # What a broker before this one in this process has logged must not silence this one's first lines.
        repeats.forget()
        for name, instead in check_promises(self.config):
            logger.warning("config asks for what is not there name=%s instead=%s", name, instead)
        self._open_request_log()
        listening = self._listening = Listening(
            self.loop,
            lambda: self.config,
            self.quotas.connections,
            self._undo,
            self.timers,
            self.loop.time if self._given_timers is None else lambda: self.clock.monotonic_ms() / 1000,
        )
        self.listeners = listening.listeners
        self._dispatcher = Dispatcher(self, self.handlers, self.slicer)
        # First, because of all that stops a start a port in use is the commonest, and nothing is touched yet.
        self._bind(listening)
        self._open_monitoring()
        log_configs = await self._open_folders()
        controller = self.controller
        self._metadata = MetadataCache(controller.cluster_id, controller.image.configs)
        housekeeping = self.housekeeping = Housekeeping(
            self.loop, self.logs, self.files, self.clock, self.timers, self.config
        )
        self._undo.push("housekeeping", housekeeping.stop)
        self.replicas = self._make_replicas(log_configs)
        coordinators = self._coordinators = Coordinators(
            self.loop, self._metadata, self._make_groups, self._make_transactions
        )
        self._undo.push("loading of coordinators", coordinators.cancel_loading)
        membership = self._membership = self._make_membership(coordinators)
        self.acls, self.delegation_tokens, self.scram_decoy_key = await open_security(
            self.config, controller, self.clock, self._undo, membership
        )
        self.authorizer = None if self.acls is None else self.acls.authorizer
        client_quotas = DynamicClientQuotaPublisher(
            self.quotas, self.clock, self.handlers.release, self._use_throttle
        )
        configs = self._dynamic_configs = DynamicConfigPublisher(
            self.config, log_configs, self.replicas, listening, membership.fetchers
        )
        metadata = MetadataPublisher(self.replicas, self.metrics.topics, coordinators)
        # In this order: logs take their configs by the broker's defaults, which `configs` has changed, and
        # who waits for a topic (`DelayedCreatePartitions`) looks when all others have followed.
        for publish in (client_quotas.publish, configs.publish, metadata.publish, self._check_topics):
            self._metadata.add_listener(publish)
        # Deletions end in the controller's own image.
        controller.add_listener(self._check_topics)
        configs.set_replication_quotas()
        client_quotas.follow(self.image.configs)
        self._undo.push("unpacking", self.unpacking.stop)
        self.fetch_sessions = FetchSessionCache(
            max_sessions=self.config.max_incremental_fetch_session_cache_slots, rng=self._rng
        )
        # Above what the logs know as well: a restored store would give ids out a second time
        # (docs/cluster.md, "A restored store").
        self.producer_ids = ProducerIds(controller, partial(self.logs.largest_producer_id, BELIEVED_BELOW))
        stored = await membership.ask_until_answered(read_features)
        self.features = Features(controller, self.handlers, stored)

    async def _open_folders(self) -> TopicLogConfigs:
        """Open the data folders and the metadata; one of them may know the broker's id. Returns the configs
        of logs."""
        log_configs = TopicLogConfigs(self.config)
        self.logs, self.config = open_logs(
            self.config,
            log_configs,
            self.files,
            self.clock,
            self._undo,
            # Its cluster id is compared before a log is touched; other stores are asked when they are open.
            has_store_file=self._given_store is None and self._cluster is None,
        )
        metadata = await open_metadata(
            self.config,
            self.logs,
            self.stopwatch,
            self._undo,
            given_store=self._given_store,
            cluster=self._cluster,
        )
        self.store, self.controller, self.config = metadata.store, metadata.controller, metadata.config
        return log_configs

    def _make_membership(self, coordinators: Coordinators) -> Membership | LoneMembership:
        """Make what the broker has for its cluster, and give the controller its thread."""
        make: type[LoneMembership] | partial[Membership] = LoneMembership
        if self._cluster is not None:
            make = partial(
                Membership,
                self._cluster,
                on_copied=partial(count_copied, self.metrics.replication, self.replicas, self.broker_id),
                on_told=partial(check_cluster, self.purgatory),
                on_replaced=self._be_fatal,
            )
        membership = make(
            config=self.config,
            controller=self.controller,
            metadata=self._metadata,
            replicas=self.replicas,
            logs=self.logs,
            clock=self.stopwatch,
            timers=self.timers,
            pauses=self.pauses,
            slicer=self.slicer,
            registration=self._registration,
            on_leadership=coordinators.follow_leaders,
        )
        # Only a broker that is alone waits until a change has been followed. In a cluster of several one slow
        # broker would hold the controller up; Kafka's `ControllerChannelManager` waits for none either.
        self._use_controller_thread(membership.until_told if isinstance(membership, LoneMembership) else None)
        self._undo.push("membership", membership.let_go)
        return membership

    def _use_controller_thread(self, until_told: UntilTold | None) -> None:
        thread = self._controller_thread = self.controller.event_queue = ControllerThread(
            self.loop, until_told
        )
        self._undo.push("controller's thread", thread.let_go)

    def _make_replicas(self, log_configs: TopicLogConfigs) -> ReplicaManager:
        is_alone = self._cluster is None
        return ReplicaManager(
            broker_id=self.broker_id,
            logs=self.logs,
            purgatory=self.purgatory,
            clock=self.stopwatch,
            log_config=log_configs.of,
            image=self.image,
            replica_lag_time_max_ms=self.config.replica_lag_time_max_ms,
            quotas=replication_quotas(
                self.clock,
                samples=self.config.replication_quota_window_num,
                sample_ms=1000 * self.config.replication_quota_window_size_seconds,
            ),
            tries_again=is_alone,
            may_elect_unclean=self.controller.may_elect_unclean,
            replica_selector=None if is_alone else replica_selector(self.config.replica_selector_class),
            knows_cluster=lambda: self.knows_cluster,
        )

    def _use_throttle(self, throttle: RequestThrottle | None) -> None:
        self.request_throttle = self._dispatcher.throttle = throttle

    def _check_topics(self, image: ClusterImage, delta: ClusterDelta) -> None:  # noqa: ARG002
        check_topics(self.purgatory, delta)

    def _make_groups(self) -> GroupRuntime:
        # Imported on first use, as a start would pay for it (docs/decisions/handlers-on-first-use.md).
        from odradek.broker.groups.runtime import GroupRuntime

        groups = GroupRuntime(
            broker_id=self.broker_id,
            replicas=self.replicas,
            purgatory=self.purgatory,
            controller=self.controller,
            clock=self.clock,
            timers=self.timers,
            pauses=self.pauses,
            config=self.config,
        )
        groups.register_metrics(self.metrics)
        return groups

    def _make_transactions(self) -> TransactionRuntime:
        from odradek.broker.transactions.markers import MarkerWriter
        from odradek.broker.transactions.runtime import TransactionRuntime

        writer = MarkerWriter(
            self.replicas,
            self.purgatory,
            # Not before a marker goes into the offsets topic: most transactions commit no offsets.
            lambda: self.groups,
            self.clock,
            self.config.request_timeout_ms,
            self.slicer,
        )
        transactions = TransactionRuntime(
            broker_id=self.broker_id,
            replicas=self.replicas,
            purgatory=self.purgatory,
            controller=self.controller,
            producer_ids=self.producer_ids,
            writer=writer,
            clock=self.clock,
            timers=self.timers,
            stopwatch=self.stopwatch,
            pauses=self.pauses,
            loop=self.loop,
            config=self.config,
            transaction_version=self.features.level(TRANSACTION_VERSION),
            channels=self.channels,
        )
        transactions.register_gauges(self.metrics)
        return transactions

    async def _take_charge(self, membership: LoneMembership) -> None:
        """Be the controller of a cluster of one, take up its partitions, and only then listen."""
        if self._scram_users:
            from odradek.broker.sasl.new_users import add_scram_users

            # Before the listeners accept: nobody is refused who is to be let in.
            add_scram_users(self.controller, self._scram_users)
        self._follow_folder_failures()
        self._dynamic_configs.follow(self.image)
        self._undo.push("controller", self.controller.stop)
        await membership.join()
        self._check_is_wanted(membership)
        report_strangers(self.logs, self.image)
        self._start_housekeeping()
        self._register_gauges()
        self._listening.start()

    async def _join(self, membership: Membership) -> None:
        """Listen, register, and follow the controller's requests."""
        if self._scram_users:
            raise StartError(
                "--add-scram is for a broker that is alone: in a cluster of several, kafka-configs makes "
                "users over ZooKeeper, and odradek configs over a listener that takes another login. "
                "Nothing was started."
            )
        self.state_changes, self.channels = membership.state_changes, membership.channels
        self._follow_folder_failures()
        self._start_housekeeping()
        self._register_gauges()
        register_fetcher_gauges(self.metrics, membership.fetchers)
        # Before anybody knows of this broker: one that refuses connections is taken for dead.
        self._listening.start()
        self._dynamic_configs.follow(self.image)
        self._undo.push("controller", self.controller.stop)
        await membership.join()
        self._check_is_wanted(membership)

    @staticmethod
    def _check_is_wanted(membership: Membership | LoneMembership) -> None:
        if membership.is_stopped:
            raise StartError("the broker was stopped while it started.")

    def _follow_folder_failures(self) -> None:
        failures = self._folder_failures = FolderFailures(
            self.loop,
            self.pauses,
            self.logs,
            self.replicas,
            self.controller,
            self._be_fatal,
            is_alone=self.channels is None,
            shares_disk=bool(self.config.odradek_store_socket),
        )
        self._undo.push("notes of failed folders", failures.stop)
        failures.follow()

    def _start_housekeeping(self) -> None:
        self.housekeeping.start()
        keep_up_security(self.housekeeping, self.config, self.controller, self.acls, self.delegation_tokens)

    def _register_gauges(self) -> None:
        metrics = self.metrics
        register_replica_gauges(metrics, self.replicas, self.clock, self.config)
        register_log_gauges(metrics, self.logs, self.housekeeping, self.clock)
        register_request_gauges(metrics, self.fetch_sessions, self.purgatory, self.listeners)
        register_controller_gauges(metrics, self.controller)
        metrics.source(self.quotas.metrics)

    def _finish_start(self) -> None:
        self._started = True
        self.handlers.log_missing()
        # Not waited for: a group that is being loaded answers COORDINATOR_LOAD_IN_PROGRESS, upon which
        # clients ask again.
        self._coordinators.load()
        logger.info(
            "broker started broker_id=%d cluster_id=%s listeners=%s advertised=%s partitions=%d",
            self.broker_id,
            self.cluster_id,
            ",".join(f"{listener.name}://{listener.host}:{listener.port}" for listener in self.listeners),
            ",".join(endpoint.connection_string for endpoint in self._registration().endpoints),
            len(self.replicas),
        )

    def _bind(self, listening: Listening) -> None:
        listening.open(self._dispatcher, partial(self._start_logins, self._dispatcher))

    def _open_monitoring(self) -> None:
        """Serve metrics and health from here on, so that somebody who waits for the broker sees it start."""
        port, host = self.config.odradek_metrics_port, self.config.odradek_metrics_host
        if port < 0:
            return
        from odradek.broker.monitoring.monitoring_server import MonitoringServer

        try:
            monitoring = MonitoringServer(self, host, port, is_running=lambda: self._started)
        except OSError as error:
            raise StartError(
                f"metrics cannot be served at {host_and_port(host, port)}: {error.strerror or error}. Choose "
                "another port with --metrics-port (odradek.metrics.port); 0 takes a free one. Nothing was "
                "started."
            ) from error
        self.monitoring = monitoring
        self._undo.push("monitoring", self._close_monitoring)
        logger.info("metrics served url=%s/metrics", monitoring.url)

    def _close_monitoring(self) -> None:
        monitoring, self.monitoring = self.monitoring, None
        if monitoring is not None:
            monitoring.close()

    def _open_request_log(self) -> None:
        if self._request_log_path is None:
            return
        from odradek.broker.network.request_log import open_request_log

        self.request_log = open_request_log(self._request_log_path)
        self._undo.push("request log", self.request_log.close)

    def _start_logins(self, dispatcher: Dispatcher, listener_name: str) -> GateKeeper:
        from odradek.broker.sasl.starting import start_logins

        logins = start_logins(self, dispatcher, listener_name)
        self._undo.push(f"logins {listener_name}", logins.close)
        return logins

    def _open_shared_store(self) -> MetadataStore:
        return open_store(self.config, self.logs.data_dirs[0], self.clock)

    def _registration(self) -> BrokerRegistration:
        return broker_registration(self.config, self.listeners, self.clock)

    def _be_fatal(self, reason: str) -> None:
        if self.on_fatal is not None:
            self.on_fatal(reason)

    def check_listener_configs(self, config: BrokerConfig) -> None:
        """Check that the listeners could go on with these configs.

        Raises:
            ConfigError: a listener could not; the message names it and the config.
        """
        self._listening.check(config)

    # ------------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Stop in good order. Harmless when it is not running."""
        if not self._started:
            await self._give_up()
            return
        self._started = False
        thread = self._controller_thread
        assert thread is not None
        self._coordinators.cancel_loading()
        logger.info("broker stopping broker_id=%d", self.broker_id)
        membership = self._membership
        if self.channels is not None:
            # Kafka's controlled shutdown: others take over before this broker refuses connections.
            await membership.leave(self.all_stop)
            try:
                # Its session ends, and with it `/brokers/ids/N`: from now on clients are sent to the others.
                await thread.run(self.controller.stop)
            except OdradekError as error:
                logger.warning("the end of the session tells the others that this broker has gone: %s", error)
        self._listening.stop_accepting()
        self._folder_failures.stop()
        self.housekeeping.stop()
        if self.channels is None:
            # This broker still follows what is under way.
            await thread.stop()
        # Before the logs are closed: no replica is made or removed after that.
        await membership.state_changes.stop()
        membership.let_go()
        await thread.stop()
        # Whoever waits gets what there is; consumers and producers then find the connection closed.
        self._coordinators.stop()
        self.purgatory.expire_all()
        # Fetches are answered in the loop's next turn (docs/decisions/answers-leave-together.md).
        await asyncio.sleep(0)
        await self._listening.drain()
        # Both have their place here: `logs.close` unlocks the folders, and the controller of a broker that is
        # alone is asked for as long as there are connections. (Of a cluster's it is the second stop.)
        self._undo.drop("data folders", "controller")
        self._undo.do("controller", self.controller.stop)
        clean = self.logs.close()
        self._let_go()
        logger.info("broker stopped broker_id=%d clean=%s", self.broker_id, str(clean).lower())

    def abandon(self) -> None:
        """Let go of sockets, folders and threads as they are, as the end of a process does: for tests.

        Nothing is flushed, nobody is told, and the session with the metadata store stays open.
        """
        self._started = False
        self._membership.let_go()
        self._folder_failures.stop()
        self.housekeeping.stop()
        if self.listeners:
            self._listening.abort()
        # These would tell the others. A process that is killed leaves its ephemeral nodes behind, until its
        # session ends.
        self._undo.drop("controller", "session with the metadata store", "metadata store")
        self._let_go()

    async def _give_up(self) -> None:
        """Let go of a start that has come to nothing."""
        try:
            if self._cluster is None and self._controller_thread is not None:
                # The metadata is in the data folder: whoever starts there next is not to meet a writer.
                self._membership.let_go()
                # To the end, however often this is cancelled: `_let_go` unlocks the folder.
                await to_the_end(self._controller_thread.give_up())
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Undo what the start has done, the last first."""
        self._started = False
        self._undo.all()


def _log_broken_operation(operation: DelayedOperation, error: Exception) -> None:
    logger.error("something that waited broke and was dropped: %r", operation, exc_info=error)
