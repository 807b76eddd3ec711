"""Membership in a cluster of several: a broker's half of docs/cluster.md.

It puts together what a broker that is alone has no need of: the image that the controller tells
(`metadata`), what the controller says (`state_changes`) and whether it lives (`controller_watch`), the
fetchers that follow other leaders, the leader's wishes for its in-sync sets, and, while this broker is the
controller, the channels to all brokers. `odradek.broker.app` starts and stops it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from odradek.broker.interbroker.alter_partition_manager import AlterPartitionManager
from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.channels import InterBrokerChannels
from odradek.broker.interbroker.controller_channel_manager import ControllerChannelManager
from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
from odradek.broker.interbroker.tls import InterBrokerTls
from odradek.broker.interbroker.transport import AsyncioTransport
from odradek.broker.interbroker.zk_isr_manager import CHECK_INTERVAL_MS, ZkIsrManager
from odradek.broker.membership.controller_watch import ControllerWatch
from odradek.broker.membership.restored_store import Known, known, tell_store
from odradek.broker.membership.start_sessions import AGAIN_S
from odradek.broker.membership.state_changes import StateChanges
from odradek.broker.membership.store_sessions import StoreSessions
from odradek.broker.membership.strays import Strays
from odradek.broker.membership.unclean_return import be_missed
from odradek.broker.sasl.inter_broker import inter_broker_login
from odradek.cluster import paths
from odradek.cluster.inter_broker_versions import writes_isr_itself
from odradek.cluster.store.store import NodeExists, SessionExpired, StoreError, StoreUnavailable
from odradek.errors import OdradekError
from odradek.errors.codes import error_name
from odradek.errors.exceptions import KafkaStorageError
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.event_loop.slices import Slicer
    from odradek.broker.interbroker.channel import InterBrokerTransport
    from odradek.broker.metadata.metadata_cache import MetadataCache
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import ClusterDelta, ClusterImage
    from odradek.cluster.nodes import BrokerRegistration
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.clock import Clock
    from odradek.util.timers import Periodic, Timers
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MISSED_WITHIN_SESSIONS = 3
"""Within so many sessions' length a controller has seen that this broker was gone, or there is none."""

_IN_THE_WAY_SESSIONS = 1.5
"""ZooKeeper ends a session a tick late at most, and each has two ticks at least (`minSessionTimeout`)."""

_REJOIN_S = 0.5
_LOOK_AGAIN_MS = 5_000

_KNOWN_WITHIN_S = 10.0
"""A start returns after that all the same: without a controller nobody would ever tell of this broker."""

_NEWEST_CONTROLLED_SHUTDOWN = 3


class ClusterAccess(NamedTuple):
    """The way of a broker to its cluster.

    Attributes:
        open_store: opens a session with the metadata store; again when one has expired. May wait.
        transport: makes channels to other brokers; real connections when None.
    """

    open_store: Callable[[], MetadataStore]
    transport: InterBrokerTransport | None = None


class Membership:
    """One broker's membership. Made and used in the event loop's thread.

    Attributes:
        channels: to the other brokers.
        fetchers: follow the leaders of other partitions.
        state_changes: does what the controller says.
        is_told: whether the controller has told of this broker, and of the topics that there were.
        on_session: called in the controller's turn when there is a new session with the store, after the
            first.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        config: BrokerConfig,
        controller: KafkaController,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        logs: LogManager,
        clock: Clock,
        timers: Timers,
        pauses: Timers,
        slicer: Slicer,
        registration: Callable[[], BrokerRegistration],
        on_leadership: Callable[[set[str]], object],
        on_copied: Callable[[TopicPartition, int], object],
        on_told: Callable[[], object],
        on_replaced: Callable[[str], object],
    ) -> None:
        """
        Args:
            access: how to get to the cluster.
            config: of this broker.
            controller: this broker's; it has opened the metadata store.
            metadata: the cluster as the controller will tell it.
            replicas, logs: what the controller's requests will be about.
            clock: time.
            timers: for what is done again and again.
            pauses: for what is tried again after a while.
            slicer: takes long answers of leaders in slices.
            registration: this broker as others are to know it; asked whenever it registers.
            on_leadership: told of topics of which this broker has begun or ceased to lead partitions.
            on_copied: told how many bytes of a partition have come from its leader.
            on_told: called when the controller has told of this broker and its topics (`is_told`).
            on_replaced: told why, when another broker has taken this one's id after the end of its session.

        Raises:
            ConfigError: as `between_brokers`.
        """
        self._config = config
        self._controller = controller
        self._replicas = replicas
        self._logs = logs
        self._clock = clock
        self._timers = timers
        self._pauses = pauses
        self._registration = registration
        self._on_told = on_told
        self._on_replaced = on_replaced
        self._loop = asyncio.get_running_loop()
        self._metadata = metadata
        # Never taken back: until then no topic is said to be unknown (`requests.untold`).
        self.is_told = False
        # Topics that the store has. Read before this broker registers, and it takes nothing that it is told
        # before that: that there are none yet is not taken for "all is told".
        self._expected: set[str] = set()
        # A look for `_expected` anew, one at a time, and only while `is_told` is not.
        self._expecting: asyncio.Task[None] | None = None
        # Empty until this broker has registered.
        self._periodic: list[Periodic] = []
        # Registers in another session; there is never a second one.
        self._rejoining: asyncio.Task[None] | None = None
        # From the first registration until this broker leaves, is let go of or replaced: so long it registers
        # anew when its session ends.
        self._is_member = False
        # Set by all that may end the pause in `leave`; only `_rest` clears it.
        self._changed = asyncio.Event()
        self._sessions = StoreSessions(access.open_store, controller, self._on_expired)
        self.on_session = self._sessions.on_session
        self.ask_until_answered = self._sessions.ask_until_answered
        listener, ibp = config.inter_broker_listener, config.inter_broker_protocol_version
        transport = access.transport or between_brokers(self._loop, lambda: config)
        # A circle: the watch looks over the channels, and they tell it who refuses. Nobody uses them before
        # it is there.
        self.channels = InterBrokerChannels(
            transport,
            config,
            listener,
            lambda: metadata.image,
            lambda controller_id: self._controller_watch.refused(controller_id),
        )
        self._controller_watch = ControllerWatch(
            config.broker_id, metadata, self.channels, controller, pauses
        )
        self._to_brokers = ControllerChannelManager(
            transport,
            ibp,
            pauses,
            listener,
            controller,
            request_timeout_ms=config.controller_socket_timeout_ms,
            control_listener_name=config.control_plane_listener_name,
            # Who refuses this broker alone is not dead (docs/cluster.md, "A leader that dies").
            is_connected=self.channels.presence.is_connected,
            ask=self.channels.witnesses.ask,
        )
        controller.add_control_listener(self._to_brokers)
        controller.add_config_listener(metadata.update_configs)
        self.fetchers = ReplicaFetcherManager(
            transport,
            config,
            clock,
            pauses,
            slicer,
            broker_id=config.broker_id,
            ibp=ibp,
            endpoint_of=self.channels.endpoint,
            # As all that asks for it: each registration has another one (KIP-380).
            broker_epoch=self._broker_epoch,
            quota=replicas.quotas.follower,
            on_copied=on_copied,
        )
        self.state_changes = StateChanges(
            broker_id=config.broker_id,
            replicas=replicas,
            logs=logs,
            metadata=metadata,
            store=lambda: controller.store,
            fetchers=self.fetchers,
            broker_epoch=self._broker_epoch,
            on_leadership=on_leadership,
            on_old_epochs=self._tell_store_later,
        )
        self._strays = Strays(
            broker_id=config.broker_id,
            logs=logs,
            replicas=replicas,
            image=lambda: metadata.image,
            run_in_store=self._sessions.run,
            set_aside=self.state_changes.set_aside,
        )
        self._isr_changes = self._make_isr_changes()
        # The one step after a constructor: who brings an ISR to the controller hands the answer to the
        # replica, which has to know whom to ask. (Kafka's `AlterPartitionManager.submit` returns a future.)
        replicas.on_isr_wanted = self._isr_changes.want
        replicas.is_eligible = self._is_live
        metadata.add_listener(self._on_metadata)

    def _make_isr_changes(self) -> AlterPartitionManager | ZkIsrManager:
        """Return what asks for other in-sync replicas: the controller, or in old clusters the store."""
        if writes_isr_itself(self._config.inter_broker_protocol_version):
            return ZkIsrManager(
                broker_id=self._config.broker_id,
                run_in_store=self._sessions.run,
                replicas=self._replicas,
                clock=self._clock,
                controller_epoch=lambda: self.state_changes.controller_epoch,
                is_eligible=self._is_live,
            )
        return AlterPartitionManager(
            broker_id=self._config.broker_id,
            channels=self.channels,
            replicas=self._replicas,
            clock=self._clock,
            broker_epoch=self._broker_epoch,
            is_eligible=self._is_live,
        )

    @property
    def is_stopped(self) -> bool:
        """Return whether `let_go` was called, perhaps while `join` has not returned yet."""
        return self._sessions.is_stopped

    async def join(self) -> None:
        """Register, and return when the controller has told of this broker, or has not in a while.

        Returns early once `let_go` was called.

        Raises:
            NodeExists: another broker has this id, and keeps it for longer than a session lasts.
            StoreError: the store holds what Kafka would not write, or refuses this broker. One that cannot
                be reached any more is waited for, as by Kafka's brokers: it has been reached before.
        """
        try:
            await self._be_missed()
        except (SessionExpired, StoreUnavailable):
            if not self.is_stopped:
                raise
        if not self.is_stopped:
            # Others know by now, by the ISRs, what this broker may have lost.
            self._logs.directories.note_boot()
        await self._register()
        if self.is_stopped:
            return
        self._is_member = True
        # The session may have ended meanwhile, of which `_on_expired` made nothing.
        self._on_expired()
        self._periodic = [
            # Kafka's `isr-expiration`: a follower that lags leaves after 1.5 times that at most.
            self._timers.every(
                "in-sync replicas", self._config.replica_lag_time_max_ms / 2, self._shrink_isrs
            ),
            # What could not be followed, as the metadata store was out of reach.
            self._pauses.every("controller", _LOOK_AGAIN_MS, self._look_again),
            self._timers.every("strays", self._config.log_retention_check_interval_ms, self._strays.check),
        ]
        if isinstance(self._isr_changes, ZkIsrManager):
            propagate = self._isr_changes.maybe_propagate_isr_changes
            self._periodic.append(self._pauses.every("notices of ISRs", CHECK_INTERVAL_MS, propagate))
        if self._config.auto_leader_rebalance_enable:
            # At each broker, as any may become the controller. Kafka: `auto-leader-rebalance-task`.
            interval_ms = 1000 * self._config.leader_imbalance_check_interval_seconds
            self._periodic.append(self._timers.every("preferred leaders", interval_ms, self._rebalance))
        deadline = self._loop.time() + _KNOWN_WITHIN_S
        while not self._is_ready() and self._loop.time() < deadline and not self.is_stopped:
            await asyncio.sleep(0.05 if self.is_told else 0.005)

    async def _be_missed(self) -> None:
        """Look which topics there are, and wait until this broker may register."""
        # First: who is elected from now on leads in an epoch above those of the logs (docs/cluster.md, "A
        # restored store").
        await self._tell_store()
        self._expected = await self.ask_until_answered(_topics)
        session_s = self._config.zookeeper_session_timeout_ms / 1000
        lost = await be_missed(
            self.ask_until_answered,
            self._config.broker_id,
            self._logs.stopped_cleanly,
            self._logs.unlost,
            self._logs.offline.lacks,
            patience_s=_MISSED_WITHIN_SESSIONS * session_s,
            alone_s=session_s,
            is_stopped=lambda: self.is_stopped,
        )
        if not self.is_stopped:
            self._logs.offline.note_lost(lost)

    async def _tell_store(self) -> None:
        """Tell the metadata store what this broker knows and the store does not; it may be a restored one."""
        tell = partial(tell_store, broker_id=self._config.broker_id, known=self._known())
        await self.ask_until_answered(tell)

    def _tell_store_later(self) -> None:
        def tell(store: MetadataStore) -> None:
            try:
                tell_store(store, self._config.broker_id, now_known)
            except StoreError as error:
                logger.warning("the metadata store cannot be told of newer leader epochs yet: %s", error)

        # Read here: logs and replicas belong to the loop, and the store is written beside it.
        now_known = self._known()
        self._controller.event_queue.post(lambda: tell(self._controller.store))

    def _known(self) -> Known:
        return known(self._logs, self._replicas, self.state_changes.controller_epoch)

    async def _register(self) -> None:
        """Register; the session of this broker's life before may have to end first, or the new one ends."""
        earlier = _EarlierSession(self._config)
        is_told = False
        register = self._start_controller
        while not self.is_stopped:
            try:
                await self._controller.event_queue.run(register)
                return
            except (NodeExists, SessionExpired, StoreUnavailable, KafkaStorageError) as error:
                if earlier.note_failure(error):
                    raise
                if not isinstance(error, NodeExists):
                    # It was done perhaps, or was and this broker could not begin its term as the controller:
                    # that session is in the way of the next until it is closed.
                    register = self._open_and_rejoin
                if not is_told:
                    logger.warning("%s It is waited for", error)
                is_told = True
                await asyncio.sleep(AGAIN_S)

    def _start_controller(self) -> None:
        self._controller.start(self._registration())

    def _broker_epoch(self) -> int:
        return self._controller.broker_epoch

    def _is_live(self, broker_id: int) -> bool:
        return broker_id in self._metadata.image.brokers

    # ------------------------------------------------------------------ following the cluster

    def _on_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self._changed.set()
        for gone in delta.brokers_gone:
            self.channels.forget(gone)
            self._controller_watch.forget(gone)
        if delta.controller is not None or delta.brokers:
            self._controller_watch.follow(image.controller_id)
        if self._says_all(image):
            self._be_told()

    def _be_told(self) -> None:
        if not self.is_told:
            self.is_told = True
            self._on_told()

    def _is_ready(self) -> bool:
        """It has been told of all topics, and has taken up what it holds of them."""
        replicas = self._replicas
        return self.is_told and all(
            replicas.find(topic.name, index) is not None or (topic.name, index) in replicas.offline
            for topic, index, _ in self._metadata.image.partitions_of(self._config.broker_id)
        )

    async def _expect_anew(self) -> None:
        """Look again which topics there are: what was deleted meanwhile nobody will ever tell of."""
        with suppress(StoreError):
            self._expected = await self._sessions.run(_topics)
            if self._says_all(self._metadata.image):
                self._be_told()

    def _says_all(self, image: ClusterImage) -> bool:
        """All topics may come in several parts."""
        return self._config.broker_id in image.brokers and self._expected <= image.topics.keys()

    def _shrink_isrs(self) -> None:
        now_ms = self._clock.now_ms()
        for partition in self._replicas:
            partition.shrink_isr(now_ms)

    def _look_again(self) -> None:
        if not self.is_told and (self._expecting is None or self._expecting.done()):
            self._expecting = self._loop.create_task(self._expect_anew())
        self._controller.event_queue.post(self._controller.look_again)

    def _rebalance(self) -> None:
        if self._controller.is_active:
            percentage = self._config.leader_imbalance_per_broker_percentage
            self._controller.event_queue.post(partial(self._controller.rebalance_leaders, percentage))

    # ------------------------------------------------------------------ the session with the store

    def _on_expired(self) -> None:
        self._changed.set()
        if not self._is_member or self._rejoining is not None or not self._sessions.has_expired:
            return
        logger.warning("the session with the metadata store has expired, registering anew")
        self._rejoining = self._loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        """Register anew in another session, as often as it takes; not beside another broker of this id."""
        earlier = _EarlierSession(self._config)
        try:
            while self._is_member:
                try:
                    await self._controller.event_queue.run(self._open_and_rejoin)
                except Exception as error:
                    if earlier.note_failure(error):
                        self._be_replaced(str(error))
                        return
                    # Whatever it is: nobody else would try again.
                    is_bug = not isinstance(error, OdradekError)
                    logger.warning("cannot register anew yet: %s", error, exc_info=is_bug)
                    await asyncio.sleep(_REJOIN_S)
                    continue
                with suppress(StoreError):
                    # The session has ended, perhaps, as the store is another one now.
                    tell = partial(tell_store, broker_id=self._config.broker_id, known=self._known())
                    await self._sessions.run(tell)
                if not self._sessions.has_expired:
                    logger.info("registered anew broker_epoch=%d", self._controller.broker_epoch)
                    return
        finally:
            self._rejoining = None

    def _be_replaced(self, reason: str) -> None:
        """Lead and follow nothing any more: another broker of this id may append to the same partitions."""
        self._is_member = False
        # Of itself, as no controller tells it: to the cluster this id is the other broker.
        for partition in list(self._replicas):
            self._replicas.stop(*partition.key)
        self.fetchers.stop()
        logger.critical("the broker cannot go on: %s", reason)
        self._on_replaced(reason)

    def _open_and_rejoin(self) -> None:
        self._sessions.open_and(self._start_controller)

    # ------------------------------------------------------------------ the end

    async def leave(self, all_stop: Callable[[], bool] = lambda: False) -> None:
        """Move the leadership of this broker's partitions away, as far as somebody else can lead them.

        From here on a session that ends is not replaced: others take over by that.

        Args:
            all_stop: whether all brokers of the cluster stop: then it is asked for once, and nobody waits for
                another that waits likewise.
        """
        self._is_member = False
        if self._rejoining is not None:
            self._rejoining.cancel()
        if not self._config.controlled_shutdown_enable:
            return
        tries = max(1, self._config.controlled_shutdown_max_retries)
        for left in reversed(range(tries)):
            broker_epoch = self._controller.broker_epoch
            # Without an epoch, between two tries to register anew, it could not be told from another broker
            # that has taken its id: that one's leaderships would be moved away.
            if broker_epoch == NO_EPOCH or not self._has_to_move():
                return
            controller_id = self._metadata.image.controller_id
            try:
                response = await self.channels.to_controller(
                    # Of this life: the controller refuses an earlier one's (KIP-380).
                    ControlledShutdownRequest(broker_id=self._config.broker_id, broker_epoch=broker_epoch),
                    _NEWEST_CONTROLLED_SHUTDOWN,
                )
            except (ChannelBroken, OdradekError) as error:
                logger.info("leaderships are not moved away yet: %s", error)
            else:
                remaining = len(response.remaining_partitions)
                if not response.error_code and not remaining:
                    return
                logger.info(
                    "leaderships are not moved away yet error=%s partitions=%d",
                    error_name(response.error_code),
                    remaining,
                )
            if all_stop():
                return
            if left:
                await self._rest(controller_id, self._config.controlled_shutdown_retry_backoff_ms / 1000)

    async def _rest(self, controller_id: int, seconds: float) -> None:
        """Wait to ask again; no longer when nobody else is left, or there is another controller to ask."""
        deadline = self._loop.time() + seconds
        while self._has_to_move():
            if self._metadata.image.controller_id != controller_id:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _has_to_move(self) -> bool:
        # Without a session it is gone already for all others, and leads nothing.
        return (
            not self._sessions.has_expired
            and any(broker_id != self._config.broker_id for broker_id in self._metadata.image.brokers)
            and self._replicas.leader_count > 0
        )

    def let_go(self) -> None:
        """End all that goes on with other brokers; nothing is unregistered. Harmless twice."""
        # First: `join`, and who waits for the store, look at it when they go on.
        self._sessions.is_stopped = True
        self._controller_watch.stop()
        self._is_member = False
        if self._rejoining is not None:
            self._rejoining.cancel()
        if self._expecting is not None:
            self._expecting.cancel()
        for periodic in self._periodic:
            periodic.stop()
        self._periodic.clear()
        self.fetchers.stop()
        self._isr_changes.stop()
        self._strays.stop()
        self.state_changes.let_go()
        self._to_brokers.stop()
        self.channels.close()


class _EarlierSession:
    """A session of this broker's that has not ended yet: its node is in the way of the next registration."""

    def __init__(self, config: BrokerConfig) -> None:
        self._patience_s = _IN_THE_WAY_SESSIONS * config.zookeeper_session_timeout_ms / 1000
        # When it was found in the way first; None while the last failure was another one.
        self._since: float | None = None

    def note_failure(self, error: Exception) -> bool:
        """Note why a registration failed; return whether it is that another broker has this id.

        No session of this broker's own lasts that long. One that it has opened itself since begins anew.
        """
        now = asyncio.get_running_loop().time()
        if not isinstance(error, NodeExists):
            self._since = None
        elif self._since is None:
            self._since = now
        else:
            return now > self._since + self._patience_s
        return False


def _topics(store: MetadataStore) -> set[str]:
    return set(store.children(paths.TOPICS)).difference(store.children(paths.DELETE_TOPICS))


def between_brokers(loop: asyncio.AbstractEventLoop, config: Callable[[], BrokerConfig]) -> AsyncioTransport:
    """Real connections to other brokers: they log in, and are encrypted, as the configs say.

    Args:
        loop: of the connections.
        config: of this broker, as it is now.

    Raises:
        ConfigError: see `inter_broker_login`.
    """
    now = config()
    login = inter_broker_login(now, now.inter_broker_listener)
    return AsyncioTransport(loop, login, InterBrokerTls(config).context_for)
