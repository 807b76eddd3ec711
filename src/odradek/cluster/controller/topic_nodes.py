"""Topics' nodes that other programs write: Kafka's tools of before KIP-500 ask in this way.

`kafka-topics --zookeeper` adds partitions by writing the topic's node, and up to 2.7 leaves the topic id out
of it, which it does not know; a topic that it creates has none. The active controller watches the nodes of
all topics, gives leaders to what is new, and puts ids where they are missing. Kafka: its listener
`PartitionModifications`, and `processTopicIds`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller.contested_controller import ContestedController
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.decisions import Decision, Write
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.image import ClusterDelta
from odradek.cluster.nodes import NO_TOPIC_ID, NodeFormatError, TopicNode, encode_topic
from odradek.cluster.store.store import MetadataStore, SetData
from odradek.util.clock import Clock

log = logging.getLogger(__name__)

WATCHES_AT_ONCE = 200
"""More watches are armed in several pieces of work: each is a round trip, and others wait meanwhile."""


class TopicNodes(ContestedController):
    """The part of `ClusterController` that follows what others write into topics' nodes."""

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
    ) -> None:
        super().__init__(store, broker_id, config, clock, rng)
        self._watched: set[str] = set()

    def _topics_changed(self) -> None:
        self._give_ids()
        super()._topics_changed()
        self._watch_topics()

    def _resume(self) -> None:
        super()._resume()
        self._watch_topics()

    def _clear_term(self) -> None:
        super()._clear_term()
        for name in list(self._watched):
            self._unwatch(name)

    def _handler(self, path: str) -> Callable[[], None] | None:
        parent, _, name = path.rpartition("/")
        if parent == paths.TOPICS:
            return partial(self._nodes_changed, [name]) if name in self._watched else None
        return super()._handler(path)

    def _watch_topics(self) -> None:
        if not self.is_active:
            return
        topics = self._image.topics
        for name in self._watched - topics.keys():
            self._unwatch(name)
        fresh = sorted(topics.keys() - self._watched)
        now, later = fresh[:WATCHES_AT_ONCE], fresh[WATCHES_AT_ONCE:]
        for name in now:
            self.store.watch_persistent(paths.topic(name), self._on_event)
            self._watched.add(name)
        if later:
            self.event_queue.post(partial(self._event, paths.TOPICS))
        # They may have been written since they were read.
        self._nodes_changed(now)

    def _unwatch(self, name: str) -> None:
        path = paths.topic(name)
        self._watched.discard(name)
        self.store.unwatch(path, self._on_event)
        self._pending.pop(path, None)
        self._unseen.pop(path, None)

    def _nodes_changed(self, names: Sequence[str]) -> None:
        """Take over partitions that were added to these topics, and put back ids that were left out."""
        grown = False
        for name, found in zip(names, self.store.get_many([paths.topic(n) for n in names]), strict=True):
            topic = self._image.topics.get(name)
            if topic is None or found is None or name in self._image.marked:
                continue
            path = paths.topic(name)
            try:
                node = nodes.decode_topic(path, found.data)
                if node.topic_id not in {topic.topic_id, NO_TOPIC_ID}:
                    continue  # another topic of that name: who follows the names will see
                added = {
                    index: loading.load_partition(self.store, name, index, assignment)
                    for index, assignment in node.partitions.items()
                    if index not in topic.partitions
                }
            except NodeFormatError as error:
                self._leave_out(error)
                continue
            writes: tuple[Write, ...] = ()
            if node.topic_id != topic.topic_id and self._has_topic_ids:
                whole = TopicNode(node.partitions, topic.topic_id)
                writes = (SetData(path, encode_topic(whole), found.stat.version),)
            if added or writes:
                after = topic._replace(partitions={**topic.partitions, **added})
                self._commit(Decision(writes, ClusterDelta(topics={name: after} if added else {})))
            if added:
                log.info("topic %s has new partitions: %s", name, sorted(added))
                grown = True
        if grown:
            self._settle()

    def _give_ids(self) -> None:
        """Write topic ids for topics that nobody has heard of yet and that have none."""
        if not self.is_active or not self._has_topic_ids:
            return
        self._give_ids_to(sorted(set(self.store.children(paths.TOPICS)) - self._image.topics.keys()))

    def _complete_topics(self) -> None:
        super()._complete_topics()
        topics = self._image.topics
        without = [name for name in sorted(topics) if topics[name].topic_id == NO_TOPIC_ID]
        if without and self._has_topic_ids:
            given = self._give_ids_to(without)
            renamed = {name: topics[name]._replace(topic_id=topic_id) for name, topic_id in given.items()}
            self._image = self._image.apply(ClusterDelta(topics=renamed))

    def _give_ids_to(self, names: Sequence[str]) -> dict[str, bytes]:
        """Write ids into the nodes of these topics that have none; returns all that they have now."""
        given: dict[str, bytes] = {}
        for name, found in zip(names, self.store.get_many([paths.topic(n) for n in names]), strict=True):
            if found is None:
                continue
            path = paths.topic(name)
            try:
                node = nodes.decode_topic(path, found.data)
            except NodeFormatError as error:
                self._leave_out(error)
                continue
            given[name] = node.topic_id
            if node.topic_id == NO_TOPIC_ID:
                given[name] = self._new_topic_id()
                whole = node._replace(topic_id=given[name])
                self._commit(Decision((SetData(path, encode_topic(whole), found.stat.version),)))
        return given
