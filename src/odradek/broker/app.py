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
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import SERVED, Handlers
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.listeners import ALL_ADDRESSES
from odradek.broker.config.protection import check_promises
from odradek.broker.conversion.conversions import Conversions
from odradek.broker.event_loop.loop_timers import LoopTimers
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.fetch.sessions import FetchSessionCache
from odradek.broker.folders.adoption import adopt_cluster_id, adopt_topics, report_strangers
from odradek.broker.folders.failures import FolderFailures
from odradek.broker.folders.store_file import STORE_FILE, check_store_file
from odradek.broker.membership.membership import ClusterAccess, Membership
from odradek.broker.metadata.auto_creation import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from odradek.broker.metadata.controller_thread import ControllerThread
from odradek.broker.metadata.features import Features
from odradek.broker.metadata.waits import check_cluster, check_topics
from odradek.broker.metrics.metrics import Metrics
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.listening import Listening
from odradek.broker.network.server import AddressInUse, Listener
from odradek.broker.quotas.producer_id_throttle import ProducerIdThrottle
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.quotas.throttling import RequestThrottle
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.broker.requests.authorization import Authorizer
from odradek.broker.startup.gauges import register_fetcher_gauges, register_gauges
from odradek.broker.startup.store_choice import is_shared, open_store
from odradek.broker.transactions.producer_ids import ProducerIds
from odradek.broker.upkeep.housekeeping import Housekeeping
from odradek.cluster import nodes, paths
from odradek.cluster.cluster_controller import ClusterController
from odradek.cluster.config_def import ConfigError
from odradek.cluster.controller import Controller
from odradek.cluster.embedded import peek
from odradek.cluster.image import ClusterDelta, ClusterImage, EntityPath
from odradek.cluster.inter_broker_versions import registration_version
from odradek.cluster.nodes import BrokerRegistration
from odradek.cluster.store import StoreError, ensure_path
from odradek.errors import OdradekError
from odradek.log.config import LogConfig
from odradek.log.errors import DataDirectoryError
from odradek.log.folders.log_manager import LogManager
from odradek.log.storage.real_files import RealFileSystem
from odradek.replication.delayed import DelayedOperation, Purgatory
from odradek.replication.replica_selector import SELECTORS
from odradek.replication.replication_quota import replication_quotas
from odradek.util import repeats
from odradek.util.clock import SystemClock

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import AclKeeper
    from odradek.broker.groups.runtime import GroupRuntime
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.kafka_versions.release import Release
    from odradek.broker.membership.state_changes import StateChanges
    from odradek.broker.metadata.topic_descriptions import TopicDescriptions
    from odradek.broker.metrics.telemetry import ClientTelemetry
    from odradek.broker.network.request_log import RequestLog
    from odradek.broker.requests.login_gate import GateKeeper
    from odradek.broker.sasl.token_keeper import TokenKeeper
    from odradek.broker.transactions.runtime import TransactionRuntime
    from odradek.broker.upkeep.log_starts import LogStarts
    from odradek.broker.upkeep.moving import Moving
    from odradek.cluster.store import MetadataStore
    from odradek.log.storage.files import FileSystem
    from odradek.replication.replica_selector import ReplicaSelector
    from odradek.sasl.scram_words import NewUser
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers
    from odradek.util.topic_partition import TopicPartition

log = logging.getLogger(__name__)

_DRAIN_MS = 2_000


class StartError(OdradekError):
    """The broker cannot start; the message says why and what to do. Nothing was changed."""


class Broker:
    """One broker.

    Attributes:
        config: its configs, dynamic ones included.
        broker_id, cluster_id: who it is; the cluster id is known once it has started.
        clock, timers, loop: time, for everything in it.
        controller: writes the cluster's metadata; `image` is what it says.
        state_changes: does what the controller of a cluster of several says; None while it is alone.
        channels: to the other brokers of a cluster of several; None while it is alone.
        logs: the logs on disk; `replicas` the partitions over them.
        purgatory: whatever waits.
        handlers: who answers which request.
        producer_id_throttle: how fast clients may have producer ids made.
        producer_ids, features, fetch_sessions, metrics: what the names say.
        quotas: what clients may take; `request_throttle` counts what requests take, while one asks for that.
        authorizer: who may do what; None allows everything.
        delegation_tokens: the tokens that one can log in by; None where there are none.
        acls: the ACLs that the authorizer asks; None where there are none.
        housekeeping: what it does by the clock.
        slicer: runs work that takes long in slices.
        request_log: one line per request, when it is on.
        on_fatal: told why it cannot go on: all of its data folders have failed, or another broker has its id.
    """

    loop: asyncio.AbstractEventLoop
    timers: Timers
    purgatory: Purgatory
    logs: LogManager
    store: MetadataStore
    controller: Controller
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    features: Features
    _listening: Listening

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        clock: Clock | None = None,
        files: FileSystem | None = None,
        store: MetadataStore | None = None,
        cluster: ClusterAccess | None = None,
        timers: Timers | None = None,
        request_log: Path | None = None,
        rng: random.Random | None = None,
        scram_users: Sequence[NewUser] = (),
    ) -> None:
        """
        Args:
            config: the broker's configs; Kafka's defaults without.
            clock: the machine's clock when None.
            files: the real file system when None.
            store: where the metadata is; SQLite in the first data folder when None. A store that is handed
                in is not closed.
            cluster: how to get to the cluster of several; when None the configs say whether there is one.
            timers: the event loop's when None.
            request_log: a file that gets a line per request.
            rng: for fetch session ids.
            scram_users: are there from the start, unless they are already; of a broker that is alone.
        """
        self.config = config if config is not None else BrokerConfig()
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.files: FileSystem = files if files is not None else RealFileSystem()
        self.metrics = Metrics()
        self.handlers = Handlers(release=_release(self.config.odradek_kafka_version))
        self.authorizer: Authorizer | None = None
        self.acls: AclKeeper | None = None
        self.delegation_tokens: TokenKeeper | None = None
        self.request_log: RequestLog | None = None
        self.listeners: list[Listener] = []
        self._request_log_path = request_log
        self._given_store = store
        if cluster is None and store is None and is_shared(self.config):
            cluster = ClusterAccess(self._open_shared_store)
        self._cluster = cluster
        self._membership: Membership | None = None
        self._given_timers = timers
        self._rng = rng
        self._scram_users = scram_users
        self.housekeeping = Housekeeping(self)
        self.on_fatal: Callable[[str], None] | None = None
        self.conversions = Conversions()
        self.slicer = Slicer()
        self.state_changes: StateChanges | None = None
        self.channels: InterBrokerChannels | None = None
        self.producer_id_throttle = ProducerIdThrottle(self.config.odradek_producer_id_creation_rate)
        self.quotas = QuotaManagers(self.config, self.clock)
        self.request_throttle: RequestThrottle | None = None
        self._undo: list[tuple[str, Callable[[], object]]] = []
        self._started = False
        self._groups: GroupRuntime | None = None
        self._transactions: TransactionRuntime | None = None
        self._telemetry: ClientTelemetry | None = None
        self._topic_descriptions: TopicDescriptions | None = None
        self._log_defaults = LogConfig()

    # ------------------------------------------------------------------ what handlers ask for

    @property
    def broker_id(self) -> int:
        """This broker's id."""
        return self.config.broker_id

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.controller.image if self._membership is None else self._membership.metadata.image

    @property
    def knows_cluster(self) -> bool:
        """Return whether a broker of a cluster of several has been told of it since it started."""
        return self._membership is None or self._membership.is_told

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.controller.cluster_id

    @property
    def host(self) -> str:
        """The first listener's address, as a client on this machine can use it."""
        host = self.listeners[0].host
        if host in ALL_ADDRESSES:
            return "::1" if ":" in host else "127.0.0.1"
        return host or "127.0.0.1"

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].port

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
        groups = self._groups
        if groups is None:
            from odradek.broker.groups.runtime import GroupRuntime

            groups = self._groups = GroupRuntime(
                broker_id=self.broker_id,
                replicas=self.replicas,
                purgatory=self.purgatory,
                controller=self.controller,
                clock=self.clock,
                timers=self.timers,
                config=self.config,
            )
            groups.follow(self.image)
        return groups

    @property
    def transactions(self) -> TransactionRuntime:
        """The transaction coordinator's binding; made when transactions are first spoken of."""
        transactions = self._transactions
        if transactions is None:
            from odradek.broker.transactions.starting import start_transactions

            transactions = self._transactions = start_transactions(self)
        return transactions

    @property
    def telemetry(self) -> ClientTelemetry:
        """The answers to clients that ask about their metrics; made when the first asks."""
        telemetry = self._telemetry
        if telemetry is None:
            from odradek.broker.metrics.telemetry import ClientTelemetry

            telemetry = self._telemetry = ClientTelemetry(self.config.telemetry_max_bytes)
        return telemetry

    @property
    def topic_descriptions(self) -> TopicDescriptions:
        """What Metadata says of partitions; made when the first asks."""
        descriptions = self._topic_descriptions
        if descriptions is None:
            from odradek.broker.metadata.topic_descriptions import TopicDescriptions

            metadata = self.controller if self._membership is None else self._membership.metadata
            descriptions = self._topic_descriptions = TopicDescriptions(metadata)
        return descriptions

    def _load_groups(self) -> None:
        if self._started:
            _ = self.groups

    def _load_transactions(self) -> None:
        if self._started:
            _ = self.transactions

    # ------------------------------------------------------------------ start

    async def start(self) -> None:
        """Start, and accept connections.

        Raises:
            StartError: the folder is in use or damaged, the port is taken, a config is wrong. Everything is
                as it was before.
        """
        self.loop = asyncio.get_running_loop()
        self.timers = self._given_timers if self._given_timers is not None else LoopTimers(self.loop)
        self.purgatory = Purgatory(self.timers, on_error=_log_broken_operation)
        try:
            self._prepare()
            if self._membership is None:
                self._take_charge()
            elif self._scram_users:
                raise StartError(
                    "--add-scram is for a broker that is alone: in a cluster of several, kafka-configs makes "
                    "users over ZooKeeper, and odradek configs over a listener that takes another login. "
                    "Nothing was started."
                )
            else:
                await self._join(self._membership)
            self._finish_start()
        except (DataDirectoryError, StoreError, AddressInUse, ConfigError) as error:
            self._let_go()
            raise StartError(str(error)) from error
        except OSError as error:
            self._let_go()
            what = error.filename or "a file or folder"
            raise StartError(
                f"{what} cannot be used: {error.strerror or error}. Nothing was started."
            ) from error
        except BaseException:
            self._let_go()
            raise

    def _prepare(self) -> None:
        """Take the ports, open the folders and the metadata; nobody knows of this broker yet."""
        repeats.forget()
        for name, instead in check_promises(self.config):
            log.warning("config asks for what is not there name=%s instead=%s", name, instead)
        self._open_request_log()
        listening = self._listening = Listening(
            self.loop, lambda: self.config, self.quotas.connections, self._undo
        )
        self.listeners = listening.listeners
        self._dispatcher = Dispatcher(self, self.handlers, self.slicer)
        self._bind(listening)
        self._open_logs()
        self._open_metadata()
        self.replicas = ReplicaManager(
            broker_id=self.broker_id,
            logs=self.logs,
            purgatory=self.purgatory,
            clock=self.clock,
            log_config=self._log_config,
            image=self.image,
            replica_lag_time_max_ms=self.config.replica_lag_time_max_ms,
            quotas=replication_quotas(
                self.clock,
                samples=self.config.replication_quota_window_num,
                sample_ms=1000 * self.config.replication_quota_window_size_seconds,
            ),
        )
        self._set_quota_rates()
        self._follow_quotas(self.image.configs)
        self._undo.append(("conversions", self.conversions.stop))
        self.fetch_sessions = FetchSessionCache(
            max_sessions=self.config.max_incremental_fetch_session_cache_slots, rng=self._rng
        )
        self.producer_ids = ProducerIds(self.controller)
        self.features = Features(self.controller, self.handlers)

    def _take_charge(self) -> None:
        """Be the controller of a cluster of one, and take up the partitions of its image."""
        self.controller.add_listener(self._on_image)
        self.controller.start(self._registration())
        self._undo.append(("controller", self.controller.stop))
        if self._scram_users:
            from odradek.broker.sasl.new_users import add_scram_users

            add_scram_users(self.controller, self._scram_users)
        adopt_topics(self.logs, self.controller, self.config)
        FolderFailures(self).follow()
        self._use_controller_thread(self.replicas)
        report_strangers(self.logs, self.image)
        self.housekeeping.start()
        register_gauges(self, self.listeners)
        for listener in self.listeners:
            listener.start()

    def _use_controller_thread(self, replicas: ReplicaManager | None) -> None:
        self._controller_thread = ControllerThread(self.loop, replicas, self.logs)
        self.controller.event_queue = self._controller_thread
        self._undo.append(("controller's thread", self._controller_thread.let_go))

    async def _join(self, membership: Membership) -> None:
        """Listen, register, and follow the controller's requests."""
        membership.begin(self.replicas, self.logs, self._on_leadership, self._on_copied)
        self.state_changes, self.channels = membership.state_changes, membership.channels
        membership.metadata.add_listener(self._on_metadata)
        membership.on_told = partial(check_cluster, self.purgatory)
        membership.on_replaced = self._be_fatal
        # Deletions end in the controller's own image.
        self.controller.add_listener(lambda image, delta: check_topics(self.purgatory, delta))
        self.replicas.replica_selector = _replica_selector(self.config.replica_selector_class)
        self._use_controller_thread(None)
        self._undo.append(("membership", membership.let_go))
        FolderFailures(self).follow_in_cluster()
        self.housekeeping.start()
        register_gauges(self, self.listeners)
        register_fetcher_gauges(self.metrics, membership.fetchers)
        # Before anybody knows of this broker: one that refuses connections is taken for dead.
        for listener in self.listeners:
            listener.start()
        self._take_over_dynamic_configs(self.image)
        self._undo.append(("controller", self.controller.stop))
        await membership.join(self._registration)
        if membership.is_stopped:
            raise StartError("the broker was stopped while it joined its cluster.")

    def _finish_start(self) -> None:
        self._started = True
        if self.handlers.release is not None:
            _say_what_is_missing(self.handlers.release)
        if self.image.topic(GROUP_METADATA_TOPIC) is not None:
            # After the first connections, which need not wait until all groups have been read.
            self.loop.call_soon(self._load_groups)
        if self.image.topic(TRANSACTION_STATE_TOPIC) is not None:
            # What was decided before the last stop is completed, also if nobody asks.
            self.loop.call_soon(self._load_transactions)
        log.info(
            "broker started broker_id=%d cluster_id=%s listeners=%s advertised=%s partitions=%d",
            self.broker_id,
            self.cluster_id,
            ",".join(f"{one.name}://{one.host}:{one.port}" for one in self.listeners),
            ",".join(one.connection_string for one in self._registration().endpoints),
            len(self.replicas),
        )

    def _bind(self, listening: Listening) -> None:
        listening.open(self._dispatcher, partial(self._start_logins, self._dispatcher))

    def _open_request_log(self) -> None:
        if self._request_log_path is None:
            return
        from odradek.broker.network.request_log import RequestLog

        try:
            self.request_log = RequestLog(self._request_log_path)
        except OSError as error:
            raise ConfigError(
                f"the request log {self._request_log_path} cannot be written: {error}"
            ) from error
        self._undo.append(("request log", self.request_log.close))

    def _start_logins(self, dispatcher: Dispatcher, listener_name: str) -> GateKeeper:
        from odradek.broker.sasl.starting import start_logins

        logins = start_logins(self, dispatcher, listener_name)
        self._undo.append((f"logins {listener_name}", logins.close))
        return logins

    def _open_logs(self) -> None:
        self._log_defaults = self._make_log_defaults()
        self.logs = LogManager(
            [path.absolute() for path in self.config.data_dirs],
            self.files,
            self.clock,
            self._log_defaults,
            refuses_damage=self.config.odradek_refuse_damaged_logs,
        )
        bounds = self.logs.producer_bounds
        bounds.per_partition = self.config.odradek_producer_ids_per_partition_max
        bounds.in_all = self.config.odradek_producer_ids_max
        self.logs.checkpoints.exclusive = threading.Lock()
        self._undo.append(("data folders", self.logs.unlock))
        stored = self.logs.stored_broker_id()
        if stored is not None and stored != self.broker_id and not self._broker_id_is_given():
            # The folder knows better than a default.
            self.config = BrokerConfig({**self.config.given, "broker.id": str(stored)})
        if stored is not None:
            self.logs.check_identity(self.broker_id, None)
        if self._given_store is None and self._cluster is None:
            store_file = self.logs.data_dirs[0] / STORE_FILE
            check_store_file(store_file)
            cluster_id = peek(store_file, paths.CLUSTER_ID)
            if stored is not None and cluster_id is not None and self.logs.stored_cluster_id() is not None:
                # Looked at again when the store is open; by then the logs have been touched.
                self.logs.check_identity(self.broker_id, nodes.decode_cluster_id(store_file.name, cluster_id))
        self.logs.load()

    def _open_shared_store(self) -> MetadataStore:
        return open_store(self.config, self.logs.data_dirs[0], self.clock)[0]

    def _generate_broker_id(self, store: MetadataStore) -> None:
        """Have the metadata store give an id to a broker that has none (`broker.id.generation.enable`)."""
        if self._broker_id_is_given() or self.logs.stored_broker_id() is not None:
            return
        if not self.config.broker_id_generation_enable:
            raise ConfigError(
                "broker.id is not given and broker.id.generation.enable is false. Give each broker of the "
                "cluster a broker.id of its own."
            )
        ensure_path(store, paths.BROKER_SEQUENCE)
        number = store.set(paths.BROKER_SEQUENCE, b"").version + self.config.reserved_broker_max_id
        self.config = BrokerConfig({**self.config.given, "broker.id": str(number)})

    def _broker_id_is_given(self) -> bool:
        return self.config.is_given("broker.id") or self.config.is_given("node.id")

    def _open_metadata(self) -> None:
        store = self._given_store
        if self._cluster is not None:
            store = self.store = self._cluster.open_store()
            self._undo.append(("session with the metadata store", self._close_session))
            self._generate_broker_id(store)
        elif store is None:
            store, _ = open_store(self.config, self.logs.data_dirs[0], self.clock)
            self._undo.append(("metadata store", store.close))
        self.store = store
        adopt_cluster_id(self.logs, store)
        if self._cluster is None:
            self.controller = Controller(store, self.broker_id, self.config, self.clock)
            self.controller.open()
        else:
            self.controller = one_of_several = ClusterController(
                store, self.broker_id, self.config, self.clock
            )
            self.controller.open()
            self._membership = Membership(
                self._cluster, self.config, one_of_several, self.clock, self.timers, self.slicer
            )
        self.logs.check_identity(self.broker_id, self.cluster_id)
        self._open_authorizer()
        self._open_delegation_tokens()

    def _open_authorizer(self) -> None:
        """Load the ACLs, if the configs name an authorizer: before anybody can ask anything."""
        if not self.config.authorizer_class_name:
            return
        from odradek.broker.authorizer.opening import open_authorizer

        acls = self.acls = open_authorizer(self.config, self.controller, self.clock)
        if acls is None:
            return
        self.authorizer = acls.authorizer
        self._undo.append(("ACLs", acls.stop))
        if self._membership is not None:
            self._membership.on_session.append(acls.load)

    def _open_delegation_tokens(self) -> None:
        """Load the delegation tokens, if the configs give the key that they are made with."""
        key = self.config.delegation_token_secret_key or self.config.delegation_token_master_key
        if not key:
            return
        from odradek.broker.sasl.token_keeper import TokenKeeper

        self.delegation_tokens = keeper = TokenKeeper(
            key,
            self.controller,
            self.clock,
            expiry_ms=self.config.delegation_token_expiry_time_ms,
            max_lifetime_ms=self.config.delegation_token_max_lifetime_ms,
        )
        keeper.load()
        self._undo.append(("delegation tokens", keeper.stop))
        if self._membership is not None:
            self._membership.on_session.append(keeper.load)

    def _close_session(self) -> None:
        # Another one may have taken the place of the first by now.
        store = self.store if self._membership is None else self.controller.store
        store.close()

    def _registration(self) -> BrokerRegistration:
        ports = {listener.name: listener.port for listener in self.listeners}
        # Looking the machine's name up may take its time: only where no host is given.
        unnamed = any(not endpoint.host for endpoint in self.config.advertised_endpoints)
        return BrokerRegistration(
            endpoints=self.config.registration_endpoints(ports, _default_host() if unnamed else ""),
            rack=self.config.broker_rack,
            timestamp_ms=self.clock.now_ms(),
            version=registration_version(self.config.inter_broker_protocol_version),
        )

    # ------------------------------------------------------------------ following the cluster

    def _on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self._follow_configs(image, delta)
        self.replicas.apply(image, delta)
        self._follow_topics(image, delta)

    def _on_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow what a controller of several has told; leaderships come by themselves."""
        self._follow_configs(image, delta)
        self.replicas.follow_configs(image, delta)
        self._follow_topics(image, delta)
        check_topics(self.purgatory, delta)

    def _be_fatal(self, reason: str) -> None:
        if self.on_fatal is not None:
            self.on_fatal(reason)

    def _on_leadership(self, topics: set[str]) -> None:
        """This broker has begun or ceased to lead partitions of these topics."""
        # A coordinator is made when it is first needed, and completes what it finds decided.
        if GROUP_METADATA_TOPIC in topics:
            self.groups.follow_leaders(topics)
        if TRANSACTION_STATE_TOPIC in topics:
            self.transactions.follow_leaders(topics)

    def _on_copied(self, key: TopicPartition, size: int) -> None:
        """Bytes of a partition have come from its leader."""
        replication, replica = self.metrics.replication, self.replicas.find(*key)
        replication.bytes_in += size
        if replica is not None and self.broker_id in replica.adding:
            replication.reassignment_bytes_in += size

    def _follow_configs(self, image: ClusterImage, delta: ClusterDelta) -> None:
        if delta.configs:
            self._follow_quotas(delta.configs)
        if f"brokers/{self.broker_id}" in delta.configs or "brokers/<default>" in delta.configs:
            self._take_over_dynamic_configs(image)

    def _take_over_dynamic_configs(self, image: ClusterImage) -> None:
        changed = self.config.update_dynamic(
            image.config("brokers/<default>"), image.config(f"brokers/{self.broker_id}")
        )
        if changed:
            log.info("configs changed names=%s", ",".join(sorted(changed)))
            self._log_defaults = self._make_log_defaults()
            self.replicas.reconfigure()
            self._listening.reconfigure()
            if self._membership is not None:
                self._membership.fetchers.resize(self.config.num_replica_fetchers)
            self._set_quota_rates()
        # Also when nothing has changed but the files: so Kafka is told to look at them.
        self._listening.reload_certificates()

    def check_listener_configs(self, config: BrokerConfig) -> None:
        """Check that the listeners could go on with these configs. Raises `ConfigError`."""
        self._listening.check(config)

    def _follow_quotas(self, configs: Mapping[EntityPath, Mapping[str, str]]) -> None:
        self.quotas.follow(configs)
        if not self.quotas.count_requests:
            self.request_throttle = None
        elif self.request_throttle is None:
            release = self.handlers.release
            # KIP-219
            delays_answers = release is not None and not release.at_least("2.0")
            self.request_throttle = RequestThrottle(self.quotas, self.clock, delays_answers=delays_answers)
        self._dispatcher.throttle = self.request_throttle

    def _set_quota_rates(self) -> None:
        quotas = self.replicas.quotas
        quotas.leader.bytes_per_second = self.config.leader_replication_throttled_rate
        quotas.follower.bytes_per_second = self.config.follower_replication_throttled_rate

    def _follow_topics(self, image: ClusterImage, delta: ClusterDelta) -> None:
        for topic in delta.topics_gone:
            self.metrics.topics.forget(topic)
        if self._groups is not None:
            self._groups.follow(image, delta)
        if self._transactions is not None:
            self._transactions.follow(image, delta)

    def _make_log_defaults(self) -> LogConfig:
        defaults = LogConfig.from_topic(self.config.topic_default_texts())
        return replace(
            defaults,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            inter_broker_protocol_version=self.config.inter_broker_protocol_version,
        )

    def _log_config(self, topic: str, image: ClusterImage) -> LogConfig:
        overrides: Mapping[str, str] = image.topic_config(topic)
        return LogConfig.from_topic(overrides, self._log_defaults)

    # ------------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Stop in good order. Harmless when it is not running."""
        if not self._started:
            self._let_go()
            return
        self._started = False
        log.info("broker stopping broker_id=%d", self.broker_id)
        if self._membership is not None:
            await self._membership.leave()
            # Others take over before this broker refuses connections.
            try:
                await self._controller_thread.run(self.controller.stop)
            except OdradekError as error:
                log.warning("the end of the session tells the others that this broker has gone: %s", error)
        for listener in self.listeners:
            listener.stop_accepting()
        self.housekeeping.stop()
        if self._membership is not None:
            # Before the logs are closed: no replica is made or removed after that.
            await self._membership.state_changes.stop()
            self._membership.let_go()
        await self._controller_thread.stop()
        # Whoever waits gets what there is; consumers and producers then find the connection closed.
        if self._transactions is not None:
            self._transactions.stop()
            self._transactions = None
        if self._groups is not None:
            self._groups.stop()
            self._groups = None
        self.purgatory.expire_all()
        await asyncio.sleep(0)
        for listener in self.listeners:
            listener.close_connections()
        await self._drain()
        self._undo = [entry for entry in self._undo if entry[0] not in ("data folders", "controller")]
        self._do("controller", self.controller.stop)
        clean = self.logs.close()
        self._let_go()
        log.info("broker stopped broker_id=%d clean=%s", self.broker_id, str(clean).lower())

    def abandon(self) -> None:
        """Let go of sockets, folders and threads as they are, as the end of a process does: for tests.

        Nothing is flushed, nobody is told, and the session with the metadata store stays open.
        """
        self._started = False
        if self._membership is not None:
            self._membership.let_go()
        self.housekeeping.stop()
        for listener in self.listeners:
            listener.stop_accepting()
            listener.abort_connections()
        keep = ("controller", "session with the metadata store", "metadata store")
        self._undo = [entry for entry in self._undo if entry[0] not in keep]
        self._let_go()

    async def _drain(self) -> None:
        """Let what has been answered leave, for a while; then cut off whoever does not read."""
        deadline = self.loop.time() + _DRAIN_MS / 1000
        while any(listener.connections for listener in self.listeners):
            if self.loop.time() > deadline:
                for listener in self.listeners:
                    listener.abort_connections()
                await asyncio.sleep(0)
                return
            await asyncio.sleep(0.002)

    def _let_go(self) -> None:
        """Undo what the start has done, the last first."""
        self._started = False
        while self._undo:
            self._do(*self._undo.pop())
        self.housekeeping.stop()

    def _do(self, name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            log.exception("could not be stopped in good order: %s", name)


def _say_what_is_missing(release: Release) -> None:
    from odradek.broker.kafka_versions.report import missing_text

    served = {key: entry.versions for key, entry in SERVED.items()}
    log.info("being another release kafka=%s missing=%s", release, missing_text(release, served) or "-")


def _release(name: str | None) -> Release | None:
    if name is None:
        return None
    from odradek.broker.kafka_versions.release import find

    return find(name)


def _default_host() -> str:
    import socket

    return socket.getfqdn()


def _replica_selector(name: str | None) -> ReplicaSelector | None:
    if not name:
        return None
    if name not in SELECTORS:
        log.warning("no such class, consumers read from leaders replica.selector.class=%s", name)
    return SELECTORS.get(name)


def _log_broken_operation(operation: DelayedOperation, error: Exception) -> None:
    log.error("something that waited broke and was dropped: %r", operation, exc_info=error)
