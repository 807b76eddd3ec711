"""Topics that other programs make, change or remove in the store: Kafka's tools up to 2.8 do so.

`kafka-topics --zookeeper`, which releases before 3.0 have (KIP-604), adds partitions by writing the topic's
node, and up to 2.7 leaves the topic id out of it, which it does not know; a topic that it creates has none.
The active controller watches the nodes of all topics, gives leaders to what is new, and puts ids where they
are missing. Kafka: its listeners `TopicChange` and `PartitionModifications`, and `processTopicIds`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Write
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.metadata_reader import MetadataReader
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.image import ClusterDelta
from odradek.cluster.nodes import NodeFormatError, TopicNode, encode_topic
from odradek.cluster.store.store import NodeContent, SetData
from odradek.wire.primitives import ZERO_UUID

logger = logging.getLogger(__name__)

WATCHES_AT_ONCE = 200
"""More watches are armed in several pieces of work: each is a round trip, and others wait meanwhile."""


class TopicChanges:
    """Follows what others write into topics' nodes.

    Args:
        context: has the topics that are known.
        images: hears of what is new.
        watchers: watch the nodes of topics.
        reader: reads them.
        writer: writes the ids that they lack.
        settle: called when there are new partitions: they need leaders.
    """

    def __init__(
        self,
        context: ControllerContext,
        images: ImagePublisher,
        watchers: NodeWatchers,
        reader: MetadataReader,
        writer: MetadataWriter,
        settle: Callable[[], None],
    ) -> None:
        self._context = context
        self._images = images
        self._watchers = watchers
        self._reader = reader
        self._writer = writer
        self._settle = settle
        self._watched: set[str] = set()
        """Topics whose nodes are watched; empty outside of a term."""

    def begin_term(self) -> None:
        """Write the topic ids that an older controller has not written."""
        context = self._context
        topics = context.image.topics
        without = [name for name in sorted(topics) if topics[name].topic_id == ZERO_UUID]
        if without and context.has_topic_ids:
            topic_ids = self._give_ids_to(without)
            renamed = {name: topics[name]._replace(topic_id=topic_id) for name, topic_id in topic_ids.items()}
            context.image = context.image.apply(ClusterDelta(topics=renamed))

    def resume(self) -> None:
        """Watch the topics that there are."""
        self._watch_topics()

    def end_term(self) -> None:
        """Watch no topics any more."""
        for name in list(self._watched):
            self._unwatch(name)

    def follow_names(self) -> None:
        """Take up topics that others have made, and forget those that they have removed.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        context = self._context
        names = set(context.store.children(paths.TOPICS))
        unknown = names - context.image.topics.keys()
        lost = {n: t for n, t in context.image.topics.items() if n not in names}
        topics = {n: t for n in sorted(unknown) if (t := self._reader.topic(n)) is not None}
        configs: dict[str, Mapping[str, str]] = {f"topics/{n}": {} for n in lost}
        configs |= self._reader.entities([f"topics/{n}" for n in topics])
        if topics or lost:
            self._images.apply(ClusterDelta(topics=topics, topics_gone=lost, configs=configs))
            if context.is_active:
                self._settle()

    def follow_names_and_nodes(self) -> None:
        """Give ids to topics that have none, take them up, watch their nodes.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        self._give_ids()
        self.follow_names()
        self._watch_topics()

    def _watch_topics(self) -> None:
        if not self._context.is_active:
            return
        topics = self._context.image.topics
        for name in self._watched - topics.keys():
            self._unwatch(name)
        fresh = sorted(topics.keys() - self._watched)
        now, later = fresh[:WATCHES_AT_ONCE], fresh[WATCHES_AT_ONCE:]
        for name in now:
            self._watchers.watch(paths.topic(name), partial(self._nodes_changed, [name]))
            self._watched.add(name)
        if later:
            self._watchers.post(paths.TOPICS)
        # They may have been written since they were read.
        self._nodes_changed(now)

    def _unwatch(self, name: str) -> None:
        self._watched.discard(name)
        self._watchers.unwatch(paths.topic(name))

    def _nodes_changed(self, names: Sequence[str]) -> None:
        """Take over partitions that were added to these topics, and put back ids that were left out."""
        context, grown = self._context, False
        for name, stored in zip(names, self._read(names), strict=True):
            topic = context.image.topics.get(name)
            # A topic that is gone, or being deleted, is followed by the names and the marks.
            if topic is None or stored is None or name in context.image.marked:
                continue
            path = paths.topic(name)
            try:
                node = nodes.decode_topic(path, stored.data)
                if node.topic_id not in {topic.topic_id, ZERO_UUID}:
                    continue  # another topic of that name: who follows the names will see
                added = {
                    index: loading.load_partition(context.store, name, index, assignment)
                    for index, assignment in node.partitions.items()
                    if index not in topic.partitions
                }
            except NodeFormatError as error:
                self._reader.leave_out(error)
                continue
            writes: tuple[Write, ...] = ()
            if node.topic_id != topic.topic_id and context.has_topic_ids:
                whole = TopicNode(node.partitions, topic.topic_id)
                writes = (SetData(path, encode_topic(whole), stored.stat.version),)
            if added or writes:
                after = topic._replace(partitions={**topic.partitions, **added})
                self._writer.commit(Decision(writes, ClusterDelta(topics={name: after} if added else {})))
            if added:
                logger.info("topic %s has new partitions: %s", name, sorted(added))
                grown = True
        if grown:
            self._settle()

    def _give_ids(self) -> None:
        """Write topic ids for topics that nobody has heard of yet and that have none."""
        context = self._context
        if not context.is_active or not context.has_topic_ids:
            return
        names = set(context.store.children(paths.TOPICS))
        self._give_ids_to(sorted(names - context.image.topics.keys()))

    def _read(self, names: Sequence[str]) -> list[NodeContent | None]:
        return self._context.store.get_many([paths.topic(name) for name in names])

    def _give_ids_to(self, names: Sequence[str]) -> dict[str, bytes]:
        """Write ids into the nodes of these topics that have none; returns all that they have now."""
        topic_ids: dict[str, bytes] = {}
        for name, stored in zip(names, self._read(names), strict=True):
            if stored is None:
                continue
            path = paths.topic(name)
            try:
                node = nodes.decode_topic(path, stored.data)
            except NodeFormatError as error:
                self._reader.leave_out(error)
                continue
            topic_ids[name] = node.topic_id
            if node.topic_id == ZERO_UUID:
                topic_ids[name] = self._context.new_topic_id()
                whole = node._replace(topic_id=topic_ids[name])
                self._writer.commit(Decision((SetData(path, encode_topic(whole), stored.stat.version),)))
        return topic_ids
