"""The transaction coordinator in a broker: its log is the replicas, its shards the partitions led here.

A broker makes one `TransactionRuntime`, calls `follow` with every image once the replicas have followed it
(at the start too), `follow_leaders` when the controller of a cluster has made replicas lead or follow, and
`stop` before it closes its logs. Handlers reach the coordinator as `broker.transactions.coordinator`; a
produce request that has to know whether a partition belongs to the transaction asks `verify`, one that lets
it join (KIP-890) asks `add`: whichever broker coordinates the transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from odradek.broker.coordination.replicated_log import ReplicatedLog
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.coordination.shell import CoordinatorShell
from odradek.broker.metrics.metrics import VerificationMetrics
from odradek.broker.transactions.marker_sender import LocalMarkers, MarkerSender, RemoteMarkers
from odradek.broker.transactions.remote_coordinator import RemoteCoordinator
from odradek.cluster import paths
from odradek.cluster.store.store import StoreError
from odradek.coordinators.partitioner import partition_for
from odradek.coordinators.reply import Reply
from odradek.coordinators.runtime import ShardState
from odradek.coordinators.transactions.config import TransactionConfig
from odradek.coordinators.transactions.coordinator import PartitionErrors, TransactionCoordinator
from odradek.coordinators.transactions.markers import TransactionMarkers, by_leader
from odradek.errors import CoordinatorLoadInProgressError, KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.futures import error_of
from odradek.util.promise import Promise, promised
from odradek.wire.internal_topics import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.metrics.metrics import Metrics
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.broker.transactions.markers import MarkerWriter
    from odradek.broker.transactions.producer_ids import ProducerIds
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import ClusterDelta, ClusterImage
    from odradek.cluster.nodes import ProducerIdBlock
    from odradek.replication.delayed import Purgatory
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

R = TypeVar("R")

_NOBODY = -1
"""In the place of a broker's id: a partition without a leader, or one whose leader is not live."""


class TransactionRuntime(CoordinatorShell):
    """Keeps the transaction coordinator in step with the cluster.

    Args:
        broker_id: this broker.
        replicas: the partitions on it.
        purgatory: told of their progress.
        controller: creates the topic when it is first needed, and hands out producer ids.
        producer_ids: where ids come from.
        writer: writes markers here.
        clock: the time.
        timers: for timeouts and expiry.
        stopwatch, pauses: for what is tried again.
        loop: for answers that come later.
        config: the broker's configs.
        transaction_version: level of the feature `transaction.version`.
        channels: to the other brokers of a cluster of several; None for a broker that is alone.

    Attributes:
        coordinator: what handlers call.
        writer: what WriteTxnMarkers calls.
        verified: what came of `verify` and `add`; the gate counts.
        leader_of: who leads a partition, -1 for nobody, None for a topic that the image does not have; may
            be replaced.
        send_markers: how markers get to the leaders of their partitions; may be replaced.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        controller: KafkaController,
        producer_ids: ProducerIds,
        writer: MarkerWriter,
        clock: Clock,
        timers: Timers,
        stopwatch: Clock,
        pauses: Timers,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        transaction_version: int,
        channels: InterBrokerChannels | None = None,
    ) -> None:
        super().__init__(TRANSACTION_STATE_TOPIC, broker_id, replicas, controller, config)
        self._producer_ids = producer_ids
        # A restored store would give out ids that transactional ids have (docs/cluster.md).
        producer_ids.known_ids.append(self._known_producer_id)
        self._loop = loop
        self.send_markers: MarkerSender = LocalMarkers(broker_id, writer)
        self._remote: RemoteCoordinator | None = None
        """None for a broker that is alone: it coordinates everything itself."""
        self.writer = writer
        self.leader_of: Callable[[TopicPartition], int | None] = self._leader_in_the_image
        self._without_leader: dict[str, int] = {}
        """By transactional id, how many partitions wait for a leader to take their markers; a gauge alone."""
        self.verified = VerificationMetrics()
        self._claim: asyncio.Future[None] | None = None
        """The claim of a block that no request waits for, one at a time."""
        self.coordinator: TransactionCoordinator = TransactionCoordinator(
            config=transaction_config(config, transaction_version),
            log=ReplicatedLog(replicas, purgatory, clock),
            clock=clock,
            timers=timers,
            stopwatch=stopwatch,
            pauses=pauses,
            new_producer_id=self._new_producer_id,
            send=self._send,
        )
        if channels is not None:
            self._remote = RemoteCoordinator(channels, loop)
            # Around the local ones, which it uses for what this broker leads.
            self.send_markers = RemoteMarkers(
                broker_id,
                self.send_markers,
                channels,
                loop,
                config.inter_broker_protocol_version,
                self.coordinator.owes,
            )

    def follow(self, image: ClusterImage, delta: ClusterDelta | None = None) -> None:
        """Take up the transactional ids of partitions that this broker leads now, give up the others.

        Args:
            image: the cluster; where it leads the replicas, they have followed it already.
            delta: what has changed; `None` at the start.
        """
        self._image = image
        # Also a topic that is marked: what is to be deleted is coordinated no more.
        if delta is None or any(
            TRANSACTION_STATE_TOPIC in names
            for names in (delta.topics, delta.topics_marked, delta.topics_gone)
        ):
            self.follow_leaders()

    def follow_leaders(self, topics: Collection[str] | None = None) -> bool:
        """See `CoordinatorShell.follow_leaders`."""
        given_up = super().follow_leaders(topics)
        if given_up:
            # Whose they were is not kept; those that are still coordinated here are counted when sent again.
            self._without_leader.clear()
        return given_up

    def _load(self, partition: int, leader_epoch: int) -> None:
        self.coordinator.load(partition, leader_epoch)

    def set_version(self, transaction_version: int) -> None:
        """Go on at another level of the feature `transaction.version`."""
        self.coordinator.config = replace(self.coordinator.config, transaction_version=transaction_version)

    def register_gauges(self, metrics: Metrics) -> None:
        """Kafka's metrics of a transaction coordinator; the load times are those since the start."""
        coordinator = self.coordinator
        kind = "kafka.server:transaction-coordinator-metrics"
        metrics.gauge(kind, "partition-load-time-max", lambda: max(coordinator.load_times, default=0.0))
        metrics.gauge(kind, "partition-load-time-avg", lambda: _average(coordinator.load_times))
        kind = "kafka.coordinator.transaction:TransactionMarkerChannelManager"
        metrics.gauge(kind, "UnknownDestinationQueueSize", lambda: sum(self._without_leader.values()))
        metrics.gauge(kind, "LogAppendRetryQueueSize", lambda: coordinator.incomplete)
        kind = "kafka.server:AddPartitionsToTxnManager"
        metrics.gauge(kind, "VerificationFailureRate", lambda: self.verified.failures)
        metrics.gauge(kind, "VerificationTimeMs", lambda: self.verified.total_time_ms)
        metrics.gauge(kind, "VerificationTimeMsMax", lambda: self.verified.max_time_ms)

    # ------------------------------------------------------------------ what the produce path asks

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> PartitionErrors | Promise[PartitionErrors]:
        """Return whether partitions belong to a producer's open transaction; NONE where they do.

        Returns:
            Errors as AddPartitionsToTxn gives them (v4+, verify only), or a promise of them.
        """
        return self._ask(transactional_id, producer_id, producer_epoch, partitions, verify_only=True)

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> PartitionErrors | Promise[PartitionErrors]:
        """Let partitions join a producer's transaction, which begins if there is none; NONE where they have.

        Returns:
            Errors as AddPartitionsToTxn gives them, or a promise of them: done when it is committed.
        """
        return self._ask(transactional_id, producer_id, producer_epoch, partitions, verify_only=False)

    def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> PartitionErrors | Promise[PartitionErrors]:
        # Kafka's `AddPartitionsToTxnManager` asks over the network also where it asks itself.
        if self._remote is not None:
            broker_id = self._coordinator_of(transactional_id)
            if broker_id == _NOBODY:
                return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if broker_id != self._broker_id:
                return promised(
                    self._remote.ask(
                        broker_id,
                        transactional_id,
                        producer_id,
                        producer_epoch,
                        partitions,
                        verify_only=verify_only,
                    )
                )
        answer: ResponseFuture[PartitionErrors] = ResponseFuture()
        self.coordinator.add_partitions(
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            Reply(answer.deliver, lambda error: dict.fromkeys(partitions, error)),
            verify_only=verify_only,
        )
        return answer.result(self._loop)

    def _coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates an id, as far as this one knows; -1 for none."""
        image = self._image
        topic = image.topic(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return _NOBODY
        index = partition_for(transactional_id, len(topic.partitions))
        if self.coordinator.runtime.state(index) is not None:
            # The image may be behind.
            return self._broker_id
        state = topic.partitions.get(index)
        return _NOBODY if state is None or state.leader not in image.brokers else state.leader

    # ------------------------------------------------------------------ producer ids

    def with_producer_ids(self, command: Callable[[], R | Promise[R]]) -> R | Promise[R]:
        """Run a command that may need a producer id, once there is one. A new block waits for the disk."""
        # Mostly there is: a block has 1,000 of them, as Kafka's `ProducerIdsBlock`.
        if not self._producer_ids.is_exhausted:
            return command()
        return promised(asyncio.ensure_future(self._after_claim(command)))

    async def _after_claim(self, command: Callable[[], R | Promise[R]]) -> R:
        # Again, where others who waited for the same block have used it up.
        while self._producer_ids.is_exhausted:
            block: ProducerIdBlock | asyncio.Future[ProducerIdBlock] = self._controller.event_queue.run(
                self._producer_ids.claiming()
            )
            self._producer_ids.use(await block if asyncio.isfuture(block) else block)
        answer = command()
        return await answer if isinstance(answer, Promise) else answer

    def _known_producer_id(self) -> int:
        """The largest producer id of a transactional id that this broker coordinates; -1 for none."""
        runtime = self.coordinator.runtime
        return max(
            (
                transaction.producer_id
                for index in runtime.partitions()
                if runtime.state(index) is ShardState.ACTIVE
                for transaction in runtime.shard(index).transactions.values()
            ),
            default=-1,
        )

    async def _claim_ahead(self) -> None:
        try:
            await self._after_claim(lambda: None)
        except KafkaError as error:
            logger.warning("no producer ids could be claimed: %s", error.message)

    def _new_producer_id(self) -> int:
        if self._producer_ids.is_exhausted:
            if self._claim is None or self._claim.done():
                # A timeout has no request behind it that would have waited for one.
                self._claim = asyncio.ensure_future(self._claim_ahead())
            # Kafka's answer, too, while it waits for a block (`RPCProducerIdManager`): clients ask again.
            raise CoordinatorLoadInProgressError
        return self._producer_ids.next()

    # ------------------------------------------------------------------ markers

    def _send(self, markers: TransactionMarkers) -> None:
        # By the image of now: what is sent again after an error may have another leader.
        sends, gone = by_leader([markers], self.leader_of)
        self._without_leader.pop(markers.transactional_id, None)
        for part in sends.get(_NOBODY, ()):
            self._without_leader[part.transactional_id] = len(part.partitions)
        for part in gone:
            self._settle_gone(part)
        for leader, parts in sends.items():
            for part in parts:
                # Also to `_NOBODY`, whose answer is an error: the coordinator keeps the time until it is sent
                # again.
                self.send_markers(leader, part, partial(self._answered, part))

    def _answered(self, markers: TransactionMarkers, errors: PartitionErrors) -> None:
        # It coordinates nothing any more: another broker sends the markers, and hears the answers.
        if self.coordinator.partition_count:
            self.coordinator.markers_answered(markers, errors)

    def _settle_gone(self, markers: TransactionMarkers) -> None:
        """Settle markers of topics that the image does not have.

        Where a topic is gone they count as written, or the transaction would never end.
        """
        if self._remote is None:
            self._answered(markers, dict.fromkeys(markers.partitions, ErrorCode.NONE))
            return
        # This broker may not have heard of a topic yet, or was not there when it was deleted.
        names = {topic for topic, _ in markers.partitions}
        deleted = self._controller.event_queue.run(lambda: self._deleted(names))
        if asyncio.isfuture(deleted):
            deleted.add_done_callback(partial(self._looked_up, markers))
        else:
            self._drop(markers, deleted)

    def _looked_up(self, markers: TransactionMarkers, deleted: asyncio.Future[set[str]]) -> None:
        error = error_of(deleted)
        if isinstance(error, Exception):
            logger.error("it is not known whether topics of transactions are still there", exc_info=error)
        # Without an answer they are sent again.
        self._drop(markers, deleted.result() if error is None else ())

    def _deleted(self, names: Collection[str]) -> set[str]:
        """Return the topics that are gone or to be deleted. May wait for the store, in another thread."""
        store = self._controller.store
        try:
            return {
                name
                for name in names
                if store.exists(paths.topic(name)) is None
                or store.exists(paths.delete_topic(name)) is not None
            }
        except StoreError as error:
            logger.warning("it is not known whether topics of transactions are still there: %s", error)
            return set()

    def _drop(self, markers: TransactionMarkers, deleted: Collection[str]) -> None:
        errors = {key: ErrorCode.NONE for key in markers.partitions if key[0] in deleted}
        self._answered(markers, errors)

    def _leader_in_the_image(self, partition: TopicPartition) -> int | None:
        image = self._image
        topic = image.topic(partition[0])
        if topic is None:
            return None
        state = topic.partitions.get(partition[1])
        # The image of a broker that is alone is the truth: a partition that is not in it is not there.
        if self._remote is None:
            return None if state is None else state.leader
        return _NOBODY if state is None or state.leader not in image.brokers else state.leader


def _average(values: Collection[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def transaction_config(config: BrokerConfig, transaction_version: int) -> TransactionConfig:
    """Take the configs of transactions out of the broker's."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        transaction_two_phase_commit_enable=config.transaction_two_phase_commit_enable,
        transaction_version=transaction_version,
    )
