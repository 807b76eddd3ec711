"""Deleting topics of several brokers: the nodes go when every replica is known to be gone.

A marked topic's replicas are told to go (StopReplica). A broker that is not there is told when it comes back;
until then the topic stays marked. Which replicas are gone a controller learns from answers alone, so that a
new controller asks all of them again. Many topics go in one transaction, each as a whole. Where topics may
not be deleted, marks, which tools write as well, are taken back. Kafka: `TopicDeletionManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from odradek.cluster import paths
from odradek.cluster.controller import decisions, metadata_writer
from odradek.cluster.controller.control_requests import Replica
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Remove
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.image import ClusterDelta
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_TOPIC_AND_MARK = 4
"""The last nodes of a topic: its partitions' parent, itself, its config, its mark. They go at once, so that a
mark is never without its topic, nor a topic that is half gone without its mark."""


class TopicDeletionManager:
    """Ends deletions when replicas are gone.

    Args:
        context: has the topics that are marked.
        images: hears of marks that tools have written.
        writer: removes the nodes.
    """

    def __init__(self, context: ControllerContext, images: ImagePublisher, writer: MetadataWriter) -> None:
        self._context = context
        self._images = images
        self._writer = writer
        self._deleted: set[Replica] = set()
        """Replicas of marked topics that their brokers have said are gone; of no other topics."""

    def begin_term(self) -> None:
        """Take marks back where topics may not be deleted."""
        if not self._context.config.delete_topic_enable:
            self._take_marks_back()

    def end_term(self) -> None:
        """Forget which replicas are gone."""
        self._deleted.clear()

    def note_deleted(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Take note that a broker has deleted its replicas of these partitions. Run it in the event queue.

        Raises:
            NotControllerError: this broker is not the active controller.
            KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        self._context.check_active()
        marked = self._context.image.marked
        fresh = {(broker_id, topic, index) for topic, index in partitions if topic in marked}
        if fresh - self._deleted:
            self._deleted |= fresh
            self.finish()

    def finish(self) -> None:
        """Remove the nodes of marked topics all of whose replicas are gone.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        context = self._context
        if not context.is_active:
            return
        gone = [name for name in sorted(context.image.marked) if self._replicas(name) <= self._deleted]
        for names in self._together(gone):
            replicas = {replica for name in names for replica in self._replicas(name)}
            decision = decisions.finish_deletion(context.image, names)
            self._writer.commit_batched(decision, _TOPIC_AND_MARK)
            self._deleted -= replicas
            # A topic that is made anew under this name begins with replicas that can all be used.
            offline = frozenset(replica for replica in context.offline_replicas if replica[1] not in names)
            context.offline_replicas = offline

    def _replicas(self, name: str) -> set[Replica]:
        partitions = self._context.image.topics[name].partitions
        return {(b, name, index) for index, partition in partitions.items() for b in partition.replicas}

    def _together(self, names: Iterable[str]) -> Iterator[list[str]]:
        """Divide topics into those whose nodes go in one transaction. One that has too many is alone."""
        together: list[str] = []
        writes = 0
        for name in names:
            own = 2 * len(self._context.image.topics[name].partitions) + _TOPIC_AND_MARK
            if together and writes + own > metadata_writer.WRITES_PER_TRANSACTION:
                yield together
                together, writes = [], 0
            together.append(name)
            writes += own
        if together:
            yield together

    def follow_marks(self) -> None:
        """Delete topics that tools have marked.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        context = self._context
        if not context.config.delete_topic_enable:
            self._take_marks_back()
            return
        marked = frozenset(context.store.children(paths.DELETE_TOPICS))
        fresh = (marked & context.image.topics.keys()) - context.image.marked
        if fresh:
            self._images.apply(ClusterDelta(topics_marked=fresh))
        self.finish()
        names = set(context.store.children(paths.DELETE_TOPICS)) - context.image.topics.keys()
        # A topic that another program has just made, and marked, is not in the image yet.
        stray = sorted(names.difference(context.store.children(paths.TOPICS)))
        self._writer.commit_batched(Decision(tuple(Remove(paths.delete_topic(name)) for name in stray)))

    def _take_marks_back(self) -> None:
        """Remove what asks for deletions, which this cluster does not allow (`delete.topic.enable`)."""
        names = self._context.store.children(paths.DELETE_TOPICS)
        if names:
            logger.warning("topics are not deleted, as delete.topic.enable is false: %s", ", ".join(names))
            marks = tuple(Remove(paths.delete_topic(name)) for name in names)
            self._writer.commit_batched(Decision(marks))
