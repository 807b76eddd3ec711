"""The controller of a cluster: makes the parts, and begins and ends their terms.

A broker that is not the active controller knows, by the store, its configs and who the controller is; all
else comes to it by UpdateMetadata. The active one has the whole image, and tells it to its control listeners,
which send it to the brokers. docs/controller.md has the parts, and who calls whom.

Invariants:

- control listeners hear `start` once per term, before anything else of it, and `stop` when it ends, whatever
  ended it;
- nothing that only a term knows is known after it.

Kafka: `KafkaController`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from odradek.cluster import loading, paths
from odradek.cluster.controller.config_changes import ConfigChanges, may_allow_unclean
from odradek.cluster.controller.controller_context import ControllerConfig, ControllerContext
from odradek.cluster.controller.controller_election import ControllerElection
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.event_queue import EventQueue
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.isr_changes import IsrChanges
from odradek.cluster.controller.log_dir_events import LogDirEvents
from odradek.cluster.controller.metadata_reader import MetadataReader
from odradek.cluster.controller.metadata_writer import MetadataWriter, create_missing, set_feature_status
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.controller.partition_reassignment import PartitionReassignment
from odradek.cluster.controller.partition_state_machine import PartitionStateMachine
from odradek.cluster.controller.preferred_leaders import PreferredLeaders
from odradek.cluster.controller.producer_id_manager import ProducerIdManager
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.controller.topic_changes import TopicChanges
from odradek.cluster.controller.topic_deletion_manager import TopicDeletionManager
from odradek.cluster.controller.topic_manager import TopicManager
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.nodes import BrokerRegistration
from odradek.cluster.store.store import MetadataStore
from odradek.errors import NotControllerError
from odradek.util.clock import Clock
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class KafkaController:
    """One broker's view of the cluster's metadata, and the controller when it is the active one.

    Its event queue runs one piece of work after the other; every method that is not said to be safe anywhere
    is to be run in it. What brokers and handlers call of the parts is an attribute here.

    Args: see `ControllerContext`. The controller does not close the session.

    Attributes:
        context: what it knows.
        writer: the one way to change it.
    """

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
        *,
        alone: bool = False,
    ) -> None:
        context = self.context = ControllerContext(store, broker_id, config, clock, rng, alone=alone)
        self.broker_id = broker_id
        images = self._images = ImagePublisher(context, self._on_changed)
        watchers = self._watchers = NodeWatchers(context, self._end_term)
        reader = self._reader = MetadataReader(context)
        writer = self.writer = MetadataWriter(context, images, watchers, reader, self._end_term)
        election = self._election = ControllerElection(context)
        partitions = self._partitions = PartitionStateMachine(context, watchers, reader, writer, self._resume)
        reassignments = PartitionReassignment(context, writer, partitions)
        preferred_leaders = PreferredLeaders(context, writer, partitions)
        deletions = self._deletions = TopicDeletionManager(context, images, writer)
        topics = TopicManager(context, writer, deletions.finish)
        changes = self._topic_changes = TopicChanges(
            context, images, watchers, reader, writer, partitions.settle
        )
        isr_changes = IsrChanges(context, images, writer, reassignments.on_isr_changed)
        configs = self._configs = ConfigChanges(context, images, reader, writer)
        log_dirs = LogDirEvents(context, images, watchers, writer)
        self._in_term = False
        """Whether the table is watched and the parts hold a term's knowledge; `is_active` ends earlier, with
        a write that is refused."""
        self._table: Mapping[str, Callable[[], None]] = {
            paths.BROKER_IDS: partitions.settle,
            paths.TOPICS: changes.follow_names_and_nodes,
            paths.DELETE_TOPICS: deletions.follow_marks,
            paths.REASSIGN_PARTITIONS: reassignments.follow_asked,
            paths.LOG_DIR_EVENTS: log_dirs.follow_notices,
            paths.ISR_CHANGES: isr_changes.follow_notices,
            paths.PREFERRED_REPLICA_ELECTION: preferred_leaders.elections_asked,
        }
        """What is watched in a term, and what is done when it changes. Kafka: the handlers that
        `onControllerFailover` registers."""
        self._resumed = (
            deletions.finish,
            changes.resume,
            deletions.follow_marks,
            reassignments.resume,
            preferred_leaders.elections_asked,
        )
        """What is done when a term has begun, and again when leaders fit the live brokers."""
        self._ended = (
            context.end_term,
            writer.end_term,
            changes.end_term,
            deletions.end_term,
            reassignments.end_term,
            log_dirs.end_term,
        )
        """Forgets what only a term knows."""
        self.add_listener = images.add_listener
        self.add_control_listener = images.add_control_listener
        self.add_config_listener = images.add_config_listener
        self.check_active = context.check_active
        self.may_elect_unclean = context.may_elect_unclean
        self.look_again = watchers.look_again
        self.remove_dead_controller = election.remove_dead
        self.note_refused_controller = election.note_refused
        self.stand_back = election.stand_back
        self.create_topic = topics.create_topic
        self.create_topics = topics.create_topics
        self.create_partitions = topics.create_partitions
        self.delete_topics = topics.delete_topics
        self.adopt_topics = topics.adopt_topics
        self.elect_leader = partitions.elect_leader
        self.on_broker_refused = partitions.on_broker_refused
        self.on_broker_reachable = partitions.on_broker_reachable
        self.controlled_shutdown = partitions.controlled_shutdown
        self.rebalance_leaders = preferred_leaders.rebalance
        self.note_deleted = deletions.note_deleted
        self.reassign = reassignments.reassign
        self.alter_partition = isr_changes.alter_partition
        self.alter_partitions = isr_changes.alter_partitions
        self.config_of = configs.config_of
        self.alter_config = configs.alter_config
        self.allocate_producer_ids = ProducerIdManager(context).allocate
        self.note_offline = log_dirs.note_offline
        self.notify_log_dir_failure = log_dirs.notify_failure

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.context.image

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before `open`."""
        return self.context.image.cluster_id

    @property
    def is_active(self) -> bool:
        """Return whether this broker is the active controller."""
        return self.context.is_active

    @property
    def epoch(self) -> int:
        """The controller epoch of its last term."""
        return self.context.epoch

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 while it is not registered."""
        return self.context.broker_epoch

    @property
    def store(self) -> MetadataStore:
        """The session with the metadata store; the controller does not close it."""
        return self.context.store

    @store.setter
    def store(self, store: MetadataStore) -> None:
        self.context.store = store

    @property
    def event_queue(self) -> EventQueue:
        """Runs the work and changes the image."""
        return self.context.event_queue

    @event_queue.setter
    def event_queue(self, event_queue: EventQueue) -> None:
        self.context.event_queue = event_queue

    @property
    def offline_replicas(self) -> frozenset[tuple[int, str, int]]:
        """(broker, topic, partition) of replicas that live brokers cannot use."""
        return self.context.offline_replicas

    @property
    def refused(self) -> Mapping[int, int]:
        """Epochs of registered brokers at whose address nobody listens: they count as dead."""
        return self.context.refused

    @property
    def shutting_down(self) -> Mapping[int, int]:
        """Epochs of live brokers that have asked to leave: they are not to lead."""
        return self.context.shutting_down

    # --- this broker comes and goes -----------------------------------------------------------------------

    def open(self) -> ClusterImage:
        """Create what every cluster has, and load what each broker knows by the store: the id and configs.

        Raises:
            StoreError: the store cannot be read or written, or holds what Kafka would not write.
        """
        create_missing(self.context)
        self.context.image = self._reader.outside(strict=True)
        return self.image

    def start(self, registration: BrokerRegistration) -> None:
        """Register this broker, tell the config listeners all configs, and try to become the controller.

        Also after the end of a session, on a new one in `store`. Run it in the event queue.

        Args:
            registration: the advertised endpoints; the sockets are open by now.

        Raises:
            StoreError: another broker has this id, or the store cannot be written.
        """
        self._election.register(registration)
        self._watchers.watch(paths.CONTROLLER, self._controller_changed)
        self._watchers.watch(paths.CONFIG_CHANGES, self._configs.follow_notices)
        self._watchers.during(self._start)

    def _start(self) -> None:
        image = self._reader.outside()
        # What was removed while there was no session has to be told as well.
        gone: dict[str, Mapping[str, str]] = {e: {} for e in self.image.configs if e not in image.configs}
        self._images.replace(image, ClusterDelta(configs={**image.configs, **gone}))
        self._controller_changed()

    def session_ended(self) -> None:
        """Resign, as the session is over, until the next `start`. Run it in the event queue."""
        # Nothing is removed in the store: the ephemeral nodes have gone with the session.
        self.context.broker_epoch = -1
        self._watchers.forget_events()
        self._end_term()

    def stop(self) -> None:
        """Resign and unregister. The store stays open."""
        registered, self.context.broker_epoch = self.broker_epoch >= 0, -1
        was_active = self.is_active
        # First: else this broker would stand for election when it removes its own `/controller`.
        for path in (paths.CONTROLLER, paths.CONFIG_CHANGES):
            self._watchers.unwatch(path)
        self._end_term()
        if was_active:
            self._election.resign()
        if registered:
            self._election.forget(paths.broker_id(self.broker_id))

    def give_way(self, broker_id: int, epoch: int) -> None:
        """Let another be the controller; see `ControllerElection.gives_way`. Run it in the event queue."""
        if self._election.gives_way(broker_id, epoch):
            self._end_term()
            self._election.resign()

    # --- a term -------------------------------------------------------------------------------------------

    def _controller_changed(self) -> None:
        context = self.context
        holder = loading.load_controller(context.store)
        if context.is_active:
            # The event is that of its own election.
            if holder == (context.broker_id, context.epoch):
                return
            self._end_term()
        holder = self._election.elect_in_turn(holder)
        if holder != (context.image.controller_id, context.image.controller_epoch):
            context.image = context.image.apply(ClusterDelta(controller=holder))
        if context.is_active:
            logger.info("broker %d is the controller, epoch %d", context.broker_id, context.epoch)
            self._take_over()

    def _take_over(self) -> None:
        try:
            self._begin_term()
        except NotControllerError:
            return
        except BaseException:
            # Another broker shall try; an active controller that does nothing would be the worst.
            self._end_term()
            self._election.resign()
            raise
        # The term has begun, whatever comes of what is left of the term before.
        self._watchers.guard(self._resume, paths.BROKER_IDS)

    def _begin_term(self) -> None:
        """Read everything, make leaders fit, and only then tell anybody."""
        context = self.context
        self._in_term = True
        set_feature_status(context, self.writer)
        # Watches before reads: what changes in between is looked at once more, and nothing is missed.
        for path, handler in self._table.items():
            self._watchers.watch(path, handler)
        # Before everything is read, which has what these notices tell of (as in `onControllerFailover`).
        stale: list[Write] = []
        for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
            stale += [Remove(f"{parent}/{name}") for name in context.store.children(parent)]
        self.writer.commit_batched(Decision(tuple(stale)))
        written: dict[TopicPartition, int] = {}
        context.image = self._reader.everything(written)
        self._topic_changes.begin_term()
        self._deletions.begin_term()
        self._partitions.let_newer_go(written)
        refused = self._election.leave_out_refused()
        self._partitions.settle_known()
        self._images.start(context.image, refused)

    def _resume(self) -> None:
        """Do what the controller before has left undone, and what had to wait for brokers."""
        for resume in self._resumed:
            resume()

    def _end_term(self) -> None:
        """End the term, if there is one, and tell those who listen."""
        self.context.is_active = False
        if not self._in_term:
            return
        self._in_term = False
        for path in self._table:
            self._watchers.unwatch(path)
        for end_term in self._ended:
            end_term()
        # As before the term: all else comes by UpdateMetadata again.
        image = self.image
        self._images.stop(
            ClusterImage(image.cluster_id, image.controller_id, image.controller_epoch, configs=image.configs)
        )

    def _on_changed(self, delta: ClusterDelta) -> None:
        if self.is_active and self._images.is_told and may_allow_unclean(delta, self.broker_id):
            # Whoever is left may lead now. Kafka: `TopicUncleanLeaderElectionEnable`.
            self._watchers.post(paths.BROKER_IDS)
