"""The orders of a controller to a broker: LeaderAndIsr, StopReplica, UpdateMetadata.

One request is worked on at a time, in the order in which they came (Kafka's `replicaStateChangeLock`):
folders are made and deletions synced beside the event loop, leaderships change in it, some partitions at a
turn.

- A request that comes before this broker is registered waits until it is.
- A request of an older controller epoch is STALE_CONTROLLER_EPOCH, one to an earlier life of this broker
  STALE_BROKER_EPOCH; nothing of it is done.
- A partition whose leader epoch is older than the replica's is STALE_CONTROLLER_EPOCH, as in Kafka. So is one
  that this broker is to lead in an older epoch than its log knows: it could not tell followers where their
  logs leave its own. The metadata store is told (`restored_store`). One that
  is not assigned to this broker UNKNOWN_TOPIC_OR_PARTITION; of a topic of another id INCONSISTENT_TOPIC_ID.
- After the stop everything is STALE_BROKER_EPOCH: this life of the broker is over.
- A replica that UpdateMetadata gives to others alone, in a newer leader epoch, is led and followed no more;
  its log stays, as only StopReplica deletes, until it is set aside (`strays`). It was taken from this broker
  while that was away: StopReplica never came, and a broker that has registered anew is told of what it still
  holds. (Kafka's goes on leading.)
- A replica whose log cannot be used is KAFKA_STORAGE_ERROR. So is one that is to be deleted, until its folder
  is there to be deleted: it would come back otherwise. Given back before that, it waits for the folder.

Kafka: `ReplicaManager.becomeLeaderOrFollower`, `ReplicaManager.stopReplicas`,
`ReplicaManager.maybeUpdateMetadataCache`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from odradek.broker.interbroker.replica_fetcher_manager import Assignment
from odradek.broker.membership.control_messages import leader_and_isr_response, replicas_to_stop, topic_states
from odradek.broker.replicas.replica_manager import PARTITIONS_AT_ONCE
from odradek.cluster import loading
from odradek.cluster.controller.topics import why_invalid
from odradek.cluster.image import PartitionImage, TopicImage
from odradek.cluster.store.store import StoreError
from odradek.errors import KafkaStorageError
from odradek.errors.codes import ErrorCode
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse

if TYPE_CHECKING:
    from odradek.broker.metadata.metadata_cache import MetadataCache
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.image import ClusterDelta, ClusterImage
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.topic_partition import TopicPartition
    from odradek.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
    from odradek.wire.messages.stop_replica import StopReplicaRequest
    from odradek.wire.messages.update_metadata import UpdateMetadataRequest

logger = logging.getLogger(__name__)

R = TypeVar("R")

EPOCH_DURING_DELETION = -2
"""In the place of a leader epoch in StopReplica, where the topic is being deleted, which raises no epoch
(KIP-570; Kafka's `LeaderAndIsr.EPOCH_DURING_DELETE`)."""
_UNKNOWN_BROKER_EPOCH = -1
"""Of a request in a version from before broker epochs (KIP-380): it cannot be told for which life it is."""
_LOOK_AGAIN_S = 0.005


class Fetchers(Protocol):
    """The part that follows leaders: `interbroker.replica_fetcher_manager.ReplicaFetcherManager`."""

    def add(self, assignments: Iterable[Assignment]) -> None:
        """Fetch these partitions from their leaders, instead of what was fetched of them until now."""
        ...

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        """Fetch nothing of these partitions any more; harmless for those that are not followed."""
        ...

    def shutdown_idle_fetchers(self) -> None:
        """Stop the fetchers that have nothing to follow."""
        ...


class StateChanges:
    """Does what the controller says. Used in the event loop's thread.

    Attributes:
        controller_epoch: the highest that a request has come with.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        logs: LogManager,
        metadata: MetadataCache,
        store: Callable[[], MetadataStore],
        fetchers: Fetchers,
        broker_epoch: Callable[[], int],
        on_leadership: Callable[[set[str]], object],
        on_old_epochs: Callable[[], object] = lambda: None,
        topic_id: Callable[[str], bytes | None] = lambda topic: None,
    ) -> None:
        """
        Args:
            broker_id: this broker.
            replicas, logs: what changes.
            metadata: takes what UpdateMetadata says.
            store: where configs of new topics stand; read in another thread.
            fetchers: what follows leaders.
            broker_epoch: of this broker's registration; -1 while it has none.
            on_leadership: called when this broker has begun or ceased to lead or follow some partitions, with
                their topics.
            on_old_epochs: called when the controller speaks of older leader epochs than logs know.
            topic_id: of a topic that is being deleted, which StopReplica does not say; None where it is not
                known.
        """
        # The highest of those that were heeded: it only grows, which fences older controllers.
        self.controller_epoch = 0
        self._broker_id = broker_id
        self._replicas = replicas
        self._logs = logs
        self._metadata = metadata
        self._store = store
        self._fetchers = fetchers
        self._broker_epoch = broker_epoch
        self._on_leadership = on_leadership
        self._on_old_epochs = on_old_epochs
        self._topic_id = topic_id
        self._one_at_a_time = asyncio.Lock()
        """Held by one LeaderAndIsr or StopReplica, like Kafka's `replicaStateChangeLock`: both pause."""
        self._running: set[asyncio.Task[Any]] = set()
        """What `stop` waits for; the loop itself has only weak references to its tasks."""
        self._stopped = False
        """Set for good: after it no folder is made or removed, so that the logs may be closed."""
        self._has_old_epochs = False
        """Whether an epoch older than the log's was refused since `_on_old_epochs` was called."""
        metadata.add_listener(self._stop_what_others_hold)

    def check_sender(
        self, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
    ) -> ErrorCode:
        """Return why a request is not to be heeded, NONE if it is."""
        if self._stopped:
            return ErrorCode.STALE_BROKER_EPOCH
        # Only an older one: the controller may have seen this broker's registration before the broker itself
        # has heard how that ended (Kafka's `ZkBrokerEpochManager.isBrokerEpochStale`).
        if request.broker_epoch != _UNKNOWN_BROKER_EPOCH and request.broker_epoch < self._broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        return ErrorCode.NONE

    async def _registration(self) -> None:
        """Wait until this broker is registered.

        Before that nobody can tell whether a request is for this life of the broker or for the one before, in
        which it may have had more records (KIP-380).
        """
        while self._broker_epoch() < 0 and not self._stopped:
            await asyncio.sleep(_LOOK_AGAIN_S)

    # ------------------------------------------------------------------ UpdateMetadata

    def update_metadata(
        self, request: UpdateMetadataRequest, version: int
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Take note of the cluster as the controller sees it: at once, if this broker is registered."""
        # Without the lock, which Kafka's `maybeUpdateMetadataCache` takes: clients are told of new leaders
        # while a large LeaderAndIsr still opens logs.
        if self._broker_epoch() < 0 and not self._stopped:
            return self._run(self._update_once_registered(request, version))
        return self._update_metadata(request, version)

    async def _update_once_registered(self, request: UpdateMetadataRequest, version: int) -> ErrorCode:
        await self._registration()
        return self._update_metadata(request, version)

    def _update_metadata(self, request: UpdateMetadataRequest, version: int) -> ErrorCode:
        error = self.check_sender(request)
        if error is ErrorCode.NONE:
            self._metadata.update(request, version)
        return error

    def _stop_what_others_hold(self, _image: ClusterImage, delta: ClusterDelta) -> None:
        stopped: set[str] = set()
        for name, topic in delta.topics.items():
            for index, replica in self._replicas.by_topic.get(name, {}).items():
                state = topic.partitions.get(index)
                # A partition that is merely not named has not changed; one without a leader is idle already.
                if state is None or self._broker_id in state.replicas or replica.leader_id < 0:
                    continue
                own_id = replica.log.topic_id
                is_another = own_id is not None and any(topic.topic_id) and own_id != topic.topic_id
                # Of an older epoch it may be news from before this replica came here. Epochs of a topic that
                # was made again begin anew, and say nothing beside those of the topic before it.
                if is_another or state.leader_epoch > replica.leader_epoch:
                    logger.warning("%s-%d is held by brokers %s alone", name, index, list(state.replicas))
                    self._fetchers.remove([(name, index)])
                    self._replicas.stop(name, index)
                    stopped.add(name)
        self._tell(stopped)

    # ------------------------------------------------------------------ LeaderAndIsr

    def lead_or_follow(
        self, request: LeaderAndIsrRequest, version: int
    ) -> asyncio.Future[LeaderAndIsrResponse]:
        """Lead and follow partitions as the request says; a future of the response."""
        return self._run(self._lead_or_follow(request, version))

    async def _lead_or_follow(self, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        topics = topic_states(request, version)
        async with self._one_at_a_time:
            # Within the lock, or requests that wait for the registration could go on in another order.
            await self._registration()
            error = self.check_sender(request)
            errors: dict[TopicPartition, ErrorCode] = {}
            if error is ErrorCode.NONE:
                await self._prepare(topics)
                errors = await self._take_up(topics, lambda: self.check_sender(request))
        return leader_and_isr_response(
            topics, version, error, lambda topic, index: errors[topic.topic_name, index]
        )

    async def _prepare(self, topics: Sequence[LeaderAndIsrTopicState]) -> None:
        """Make the folders of new replicas, and read the configs of their topics, beside the loop."""
        fresh = [
            (topic.topic_name, state.partition_index, topic.topic_id if any(topic.topic_id) else None)
            for topic in topics
            for state in topic.partition_states
            if self._broker_id in state.replicas
            and self._replicas.find(topic.topic_name, state.partition_index) is None
            and _is_partition(topic.topic_name, state.partition_index)
        ]
        if not fresh:
            return
        names = dict.fromkeys(name for name, _, _ in fresh)

        def work() -> dict[str, dict[str, str]]:
            # A replica that is answered as taken up has its folder on the disk
            # (docs/decisions/disk-beside-the-loop.md).
            self._logs.prepare(fresh)
            # From the store, as the notice of a config may come later than the replica, and retention by
            # defaults could delete records. Kafka's `LogManager.getOrCreateLog` fetches them there as well.
            return {f"topics/{name}": loading.load_config(self._store(), f"topics/{name}") for name in names}

        try:
            configs = await asyncio.get_running_loop().run_in_executor(None, work)
        except StoreError as error:
            # The notice of a change, or the next start, says them again.
            logger.warning("configs of new topics cannot be read, the broker's defaults hold: %s", error)
            return
        image = self._metadata.image
        changed = {entity: config for entity, config in configs.items() if image.config(entity) != config}
        if changed:
            self._metadata.update_configs(changed)

    async def _take_up(
        self, topics: Sequence[LeaderAndIsrTopicState], check: Callable[[], ErrorCode]
    ) -> dict[TopicPartition, ErrorCode]:
        """Take partitions up, as long as `check` has nothing against the sender.

        In each pause a newer controller may have given them to others, by UpdateMetadata, which waits for
        nobody; and of what it has given away it says nothing more.
        """
        errors: dict[TopicPartition, ErrorCode] = {}
        stale = check()
        followed: list[Assignment] = []
        changed: set[str] = set()
        count = 0
        for topic in topics:
            image = TopicImage(topic.topic_name, topic.topic_id, {})
            for state in topic.partition_states:
                key = (topic.topic_name, state.partition_index)
                if stale is not ErrorCode.NONE:
                    errors[key] = stale
                    continue
                try:
                    errors[key] = self._take_up_one(image, state, followed)
                except Exception:
                    # What the others follow has to be fetched all the same.
                    logger.exception("%s-%d could not be taken up", *key)
                    errors[key] = ErrorCode.UNKNOWN_SERVER_ERROR
                if errors[key] in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
                    # Also of a replica whose log cannot be used: it is led no more, and its coordinator ends.
                    changed.add(topic.topic_name)
                count += 1
                if count % PARTITIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                    stale = check()
        # What was given to others in a pause, or lost with its folder, is followed no more.
        self._fetchers.add([assignment for assignment in followed if self._follows(assignment)])
        self._fetchers.shutdown_idle_fetchers()
        self._tell(changed)
        if self._has_old_epochs:
            self._has_old_epochs = False
            self._on_old_epochs()
        return errors

    def _follows(self, assignment: Assignment) -> bool:
        replica = self._replicas.find(*assignment.replica.key)
        return replica is not None and replica.leader_id == assignment.leader_id

    def _tell(self, topics: set[str]) -> None:
        """Call the listener. An error of its own must not hide from the controller what has been done."""
        if topics:
            try:
                self._on_leadership(topics)
            except Exception:
                logger.exception("leaderships of %s could not be followed", ", ".join(sorted(topics)))

    def _take_up_one(
        self, topic: TopicImage, state: LeaderAndIsrPartitionState, followed: list[Assignment]
    ) -> ErrorCode:
        key = (topic.name, state.partition_index)
        if self._broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not _is_partition(*key):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        partition = self._replicas.find(*key)
        before = None
        if partition is not None:
            own_id = partition.log.topic_id
            if own_id is not None and any(topic.topic_id) and own_id != topic.topic_id:
                return ErrorCode.INCONSISTENT_TOPIC_ID  # KIP-516
            if state.leader_epoch < partition.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            # The same leader epoch may bring another ISR, or other replicas of a reassignment. Kafka's broker
            # refuses it with STALE_CONTROLLER_EPOCH, unless a KRaft controller sends it during a migration.
            before = (partition.leader_id, partition.leader_epoch)
            if state.leader_epoch == partition.leader_epoch and (
                state.partition_epoch < partition.partition_epoch
            ):
                return ErrorCode.NONE  # what it says of the ISR is known to be over
        leads = state.leader == self._broker_id
        if leads and self._is_older_than_log(topic, state):
            self._has_old_epochs = True
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if leads:
            # Before it may append: nothing that a fetch brings may come in between.
            self._fetchers.remove([key])
        image = PartitionImage(
            tuple(state.replicas),
            tuple(state.isr),
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.controller_epoch,
            tuple(state.adding_replicas),
            tuple(state.removing_replicas),
            state.leader_recovery_state,
        )
        error = self._replicas.take_up(topic, state.partition_index, image, is_new=state.is_new)
        if error is not ErrorCode.NONE:
            self._fetchers.remove([key])
        # A fetcher that goes on in the same epoch keeps its place: to begin anew would cost its session, and
        # the question where its log and the leader's part.
        elif not leads and before != (state.leader, state.leader_epoch):
            self._fetchers.remove([key])
            taken_up = self._replicas.find(*key)
            if state.leader >= 0 and taken_up is not None:
                followed.append(Assignment(taken_up, state.leader, state.leader_epoch, topic.topic_id))
        return error

    def _is_older_than_log(self, topic: TopicImage, state: LeaderAndIsrPartitionState) -> bool:
        """Return whether the log knows a newer epoch than the controller; its store may be a restored one."""
        partition_log = self._logs.get(topic.name, state.partition_index)
        return (
            partition_log is not None
            and state.leader_epoch < partition_log.epochs.latest
            and partition_log.topic_id in (None, topic.topic_id)
        )

    # ------------------------------------------------------------------ StopReplica

    def stop_replicas(self, request: StopReplicaRequest, version: int) -> asyncio.Future[StopReplicaResponse]:
        """Stop replicas, and delete those that the request says; a future of the response."""
        return self._run(self._stop_replicas(request, version))

    async def _stop_replicas(self, request: StopReplicaRequest, version: int) -> StopReplicaResponse:
        response = StopReplicaResponse(partition_errors=[])
        async with self._one_at_a_time:
            await self._registration()
            error = self.check_sender(request)
            response.error_code = int(error)
            if error is not ErrorCode.NONE:
                return response
            stopped: set[str] = set()
            deleted = False
            for count, (topic, index, epoch, delete) in enumerate(replicas_to_stop(request, version), 1):
                # The sender is not looked at again after a pause, unlike in `_take_up`: a newer controller
                # gives a partition back by LeaderAndIsr alone, which waits for the lock.
                error = self._stop_one(topic, index, epoch, delete)
                response.partition_errors.append(
                    StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=int(error))
                )
                stopped.add(topic)
                deleted |= delete
                if count % PARTITIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            self._tell(stopped)
            if deleted:
                # The controller forgets the topic upon this answer: nothing may come back after it.
                failed = await asyncio.get_running_loop().run_in_executor(None, self._logs.taken_out.sync)
                for path, failure in failed.items():
                    self._logs.directories.note_error(path, failure)
                if failed:
                    for partition_error in response.partition_errors:
                        partition_error.error_code = partition_error.error_code or int(
                            ErrorCode.KAFKA_STORAGE_ERROR
                        )
        return response

    def _stop_one(self, topic: str, index: int, epoch: int, delete: bool) -> ErrorCode:
        partition = self._replicas.find(topic, index)
        # NO_EPOCH is that of requests from before KIP-570. An epoch that is known already is none of an older
        # leader: a reassignment that is cancelled, and the controlled shutdown of a follower, raise none
        # (KAFKA-13972).
        if (
            partition is not None
            and epoch not in (NO_EPOCH, EPOCH_DURING_DELETION)
            and epoch < partition.leader_epoch
        ):
            return ErrorCode.FENCED_LEADER_EPOCH
        # First, so that no fetch appends to a log that goes.
        self._fetchers.remove([(topic, index)])
        if not delete:
            self._replicas.stop(topic, index)
            return ErrorCode.NONE
        is_gone = self._replicas.delete(topic, index, self._topic_id(topic))
        return ErrorCode.NONE if is_gone else ErrorCode.KAFKA_STORAGE_ERROR

    # ------------------------------------------------------------------ strays

    def set_aside(self, keys: Iterable[TopicPartition]) -> asyncio.Future[None]:
        """Keep logs that are not this broker's any more under `-stray` names.

        A partition that is led or followed again by now stays as it is. Returns a future of the end.
        """
        return self._run(self._set_aside(keys))

    async def _set_aside(self, keys: Iterable[TopicPartition]) -> None:
        async with self._one_at_a_time:
            for count, (topic, index) in enumerate(keys, 1):
                if self._stopped:
                    return
                # Asked again: it was found in the store, and a LeaderAndIsr may have come since.
                if self._logs.get(topic, index) is not None and self._replicas.is_idle(topic, index):
                    try:
                        self._replicas.set_aside(topic, index)
                    except KafkaStorageError as error:
                        logger.error("a stray log stays where it is: %s", error)
                if count % PARTITIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    # ------------------------------------------------------------------ the end

    def _run(self, work: Coroutine[Any, Any, R]) -> asyncio.Future[R]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        # The request's handler has the task, and hears how it ends.
        task.add_done_callback(self._running.discard)
        return task

    async def stop(self) -> None:
        """Take no requests any more, and wait for the one that is under way: the logs may be closed then."""
        # From here on `check_sender` refuses, also what still waits for the lock or is between two pieces.
        self._stopped = True
        while self._running:
            await asyncio.wait(self._running)

    def let_go(self) -> None:
        """Do nothing any more, as the end of a process does. Harmless after `stop`, and twice."""
        self._stopped = True
        for task in list(self._running):
            task.cancel()


def _is_partition(topic: str, index: int) -> bool:
    """Return whether there can be such a partition: its name becomes a folder's, whoever has sent it."""
    return index >= 0 and why_invalid(topic) is None
