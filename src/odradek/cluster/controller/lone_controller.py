"""The controller of a broker that is alone: of the same parts, told to its own broker alone.

A broker with the embedded store is a cluster of one: it always becomes the controller, and what a cluster's
controller sends to brokers are calls of its image listeners. They follow each change inside it, so a
deletion is done when its mark has been told of, and what comes from the store is handled in the thread that
brings it.

Over a store that others write to it is right as well: it follows what they do, and takes over when they have
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller import decisions
from odradek.cluster.controller.config_changes import ConfigChanges
from odradek.cluster.controller.controller import Controller
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.controller_election import ControllerElection
from odradek.cluster.controller.decisions import Decision, Remove
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.isr_changes import IsrChanges
from odradek.cluster.controller.lone_reassignment import LoneReassignment
from odradek.cluster.controller.metadata_reader import MetadataReader
from odradek.cluster.controller.metadata_writer import MetadataWriter, create_missing
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.controller.partition_state_machine import PartitionStateMachine
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.controller.topic_changes import TopicChanges
from odradek.cluster.controller.topic_manager import TopicManager
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.nodes import BrokerRegistration
from odradek.cluster.store.store import Create, MetadataStore
from odradek.errors import KafkaStorageError
from odradek.util.clock import Clock

_NO_FEATURES = {"features": {}, "version": 2, "status": 1}


class LoneController(Controller):
    """See the module. Arguments as of `KafkaController`."""

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
    ) -> None:
        context = ControllerContext(store, broker_id, config, clock, rng, alone=True)
        images = self._images = ImagePublisher(context, _nothing)
        watchers = self._watchers = NodeWatchers(context, self._on_deposed, at_once=True)
        reader = MetadataReader(context)
        # One transaction for a change: there is no limit, and each is a sync of the disk.
        writer = MetadataWriter(context, images, watchers, self._read_again, self._on_deposed, in_one=True)
        self._election = ControllerElection(context)
        partitions = self._partitions = PartitionStateMachine(context, reader, writer, self._finish_deletions)
        topics = TopicManager(context, writer, self._finish_deletions)
        changes = TopicChanges(context, images, watchers, reader, writer, partitions.settle)
        isr_changes = IsrChanges(context, images, writer, _nothing)
        configs = ConfigChanges(context, images, reader, writer)
        reassignments = LoneReassignment(context, writer)
        super().__init__(context, images, writer, topics, partitions, reassignments, isr_changes, configs)
        self._table: Mapping[str, Callable[[], None]] = {
            paths.CONTROLLER: self._controller_changed,
            paths.BROKER_IDS: self._brokers_changed,
            paths.TOPICS: changes.follow_names,
            paths.DELETE_TOPICS: self._marks_changed,
            paths.CONFIG_CHANGES: configs.follow_notices,
            paths.ISR_CHANGES: isr_changes.follow_notices,
        }

    def open(self) -> ClusterImage:
        """See `Controller.open`: all that there is, so that logs can be loaded before `start`."""
        create_missing(self.context)
        self.context.image = self._read_again()
        return self.image

    def _read_again(self) -> ClusterImage:
        return loading.load_image(self.store)

    def start(self, registration: BrokerRegistration) -> None:
        """See `Controller.start`."""
        self._election.register(registration)
        self._election.elect()
        self._images.start(self._read_again())
        for path, handler in self._table.items():
            self._watchers.watch(path, handler)
        if self.is_active:
            self._take_over()

    def stop(self) -> None:
        """See `Controller.stop`."""
        registered, self.context.broker_epoch = self.broker_epoch >= 0, -1
        was_active, self.context.is_active = self.is_active, False
        for path in self._table:
            self._watchers.unwatch(path)
        if was_active:
            self._election.forget(paths.CONTROLLER)
        if registered:
            self._election.forget(paths.broker_id(self.broker_id))

    def _take_over(self) -> None:
        """Do what a new controller finds undone: old notices, half-done deletions, missing leaders."""
        if self.store.exists(paths.FEATURE) is None:
            self.writer.commit(Decision((Create(paths.FEATURE, nodes.dump(_NO_FEATURES)),)))
        for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
            stale = tuple(Remove(f"{parent}/{name}") for name in self.store.children(parent))
            if stale:
                self.writer.commit(Decision(stale))
        self._partitions.settle()

    def _on_deposed(self) -> None:
        self.context.is_active = False

    # --- what others do to the nodes ----------------------------------------------------------------------

    def _controller_changed(self) -> None:
        if self.is_active and self.store.exists(paths.CONTROLLER) is not None:
            return
        self.context.is_active = False
        self._election.elect()
        controller = loading.load_controller(self.store)
        if controller != (self.image.controller_id, self.image.controller_epoch):
            self._images.apply(ClusterDelta(controller=controller))
        if self.is_active:
            self.writer.refresh()
            self._take_over()

    def _brokers_changed(self) -> None:
        if self.is_active:
            self._partitions.settle()
        else:
            self.writer.refresh()

    def _marks_changed(self) -> None:
        marked = frozenset(self.store.children(paths.DELETE_TOPICS))
        fresh = (marked & self.image.topics.keys()) - self.image.marked
        if fresh:
            self._images.apply(ClusterDelta(topics_marked=fresh))
        self._finish_deletions()

    def _finish_deletions(self) -> None:
        if self.is_active:
            ready = decisions.deletable(self.image, self.offline_replicas)
            if ready:
                self.writer.commit(decisions.finish_deletion(self.image, ready))

    # --- folders that fail --------------------------------------------------------------------------------

    def note_offline(self, broker_id: int, partitions: Iterable[tuple[str, int]]) -> None:
        """See `Controller.note_offline`. Where the store cannot be written either, the image alone says so.

        Raises:
            NotControllerError: this broker is not the active controller.
            StoreError: a node is not as the image says.
        """
        context = self.context
        context.offline_replicas |= {(broker_id, topic, index) for topic, index in partitions}
        decision = decisions.replicas_offline(
            context.image, context.epoch, context.offline_replicas, context.may_elect_unclean
        )
        if decision:
            try:
                self.writer.commit(decision)
            except KafkaStorageError:
                self._images.apply(decision.delta)


def _nothing(*_: object) -> None:
    """Follow nothing: no brokers hear of it."""
