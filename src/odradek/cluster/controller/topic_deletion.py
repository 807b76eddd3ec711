"""Deleting topics of several brokers: the nodes go when every replica is known to be gone.

A marked topic's replicas are told to go (StopReplica). A broker that is not there is told when it comes back;
until then the topic stays marked. Which replicas are gone a controller learns from answers alone, so that a
new controller asks all of them again. Where topics may not be deleted, marks, which tools write as well, are
taken back. Kafka: `TopicDeletionManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.cluster import paths
from odradek.cluster.controller import decisions
from odradek.cluster.controller.control_requests import Replica
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.decisions import Decision, Remove
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.controller.topic_nodes import TopicNodes
from odradek.cluster.image import ClusterImage
from odradek.cluster.store.store import MetadataStore
from odradek.util.clock import Clock
from odradek.util.topic_partition import TopicPartition

log = logging.getLogger(__name__)

_TOPIC_AND_MARK = 4
"""The last nodes of a topic: its partitions' parent, itself, its config, its mark. They go at once, so that a
mark is never without its topic, nor a topic that is half gone without its mark."""


class TopicDeletion(TopicNodes):
    """The part of `ClusterController` that deletes topics."""

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
    ) -> None:
        super().__init__(store, broker_id, config, clock, rng)
        self._deleted: set[Replica] = set()

    def note_deleted(self, broker_id: int, partitions: Iterable[tuple[str, int]]) -> None:
        """A broker has deleted its replicas of these partitions. Run it in the event queue.

        Raises:
            NotControllerError: this broker is not the active controller.
        """
        self.check_active()
        fresh = {(broker_id, topic, index) for topic, index in partitions if topic in self.image.marked}
        if fresh - self._deleted:
            self._deleted |= fresh
            self._finish_deletions()

    def _finish_deletions(self) -> None:
        if not self.is_active:
            return
        for name in sorted(self._image.marked):
            topic = self._image.topics[name]
            replicas = {(b, name, i) for i, one in topic.partitions.items() for b in one.replicas}
            if replicas <= self._deleted:
                self._commit_batched(decisions.finish_deletion(self._image, [name]), _TOPIC_AND_MARK)
                self._deleted -= replicas
                self.offline_replicas = frozenset(one for one in self.offline_replicas if one[1] != name)

    def _complete_topics(self) -> None:
        super()._complete_topics()
        if not self.config.delete_topic_enable:
            self._take_marks_back()

    def _load(self, written: dict[TopicPartition, int] | None = None) -> ClusterImage:
        image = super()._load(written)
        # A mark that has not been taken back yet must not have anything deleted.
        return image if self.config.delete_topic_enable else image._replace(marked=frozenset())

    def _take_marks_back(self) -> None:
        """Remove what asks for deletions, which this cluster does not allow (`delete.topic.enable`)."""
        names = self.store.children(paths.DELETE_TOPICS)
        if names:
            log.warning("topics are not deleted, as delete.topic.enable is false: %s", ", ".join(names))
            self._commit_batched(Decision(tuple(Remove(paths.delete_topic(name)) for name in names)))

    def _deletions_changed(self) -> None:
        if not self.config.delete_topic_enable:
            self._take_marks_back()
            return
        super()._deletions_changed()
        names = set(self.store.children(paths.DELETE_TOPICS)) - self._image.topics.keys()
        # A topic that another program has just made, and marked, is not in the image yet.
        stray = sorted(names.difference(self.store.children(paths.TOPICS)))
        self._commit_batched(Decision(tuple(Remove(paths.delete_topic(name)) for name in stray)))

    def _resume(self) -> None:
        super()._resume()
        self._deletions_changed()

    def _clear_term(self) -> None:
        super()._clear_term()
        self._deleted.clear()
