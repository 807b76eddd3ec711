"""Changes of in-sync sets, which leaders wish for (KIP-497) or, of old, write themselves and tell by notices.

Kafka: `KafkaController.processAlterPartition`, `KafkaController.processIsrChangeNotification`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from odradek.cluster import nodes, paths
from odradek.cluster.controller.alter_partition import IsrChange, alter_partition
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.image import ClusterDelta, PartitionImage, TopicImage
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.store import StoreError
from odradek.errors import InvalidUpdateVersionError, KafkaError
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

CHANGES_AT_ONCE = 500
"""As many fit into one transaction of ZooKeeper's, whose messages are at most 1 MB."""


class IsrChanges:
    """Changes in-sync sets for leaders, and follows what leaders change.

    Args:
        context: has the sets as they are.
        images: hears of what leaders have changed.
        writer: writes what they wish for.
        on_changed: called with a topic and a partition that others may have waited for: in a turn of its own
            where a leader wished for it, as the leader waits for the answer.
    """

    def __init__(
        self,
        context: ControllerContext,
        images: ImagePublisher,
        writer: MetadataWriter,
        on_changed: Callable[[str, int], None],
    ) -> None:
        self._context = context
        self._images = images
        self._writer = writer
        self._on_changed = on_changed

    # --- as leaders wish ----------------------------------------------------------------------------------

    def alter_partition(self, change: IsrChange) -> int:
        """Change a partition's ISR for its leader, and return the new partition epoch.

        Raises:
            KafkaError: see `alter_partition.alter_partition`; or this broker is not the active controller.
        """
        outcome = self.alter_partitions([change])[0]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome.partition_epoch

    def alter_partitions(self, changes: Sequence[IsrChange]) -> list[PartitionImage | KafkaError]:
        """Change the ISRs of partitions for their leaders, many in one transaction.

        Args:
            changes: in the order in which they are looked at; each sees those before it.

        Returns:
            For each change, in order, the partition as it is now, or why it was not changed: see
            `alter_partition.alter_partition`.

        Raises:
            NotControllerError: this broker is not the active controller.
            KafkaStorageError: the store cannot be written, or nobody knows whether it was.
        """
        self._context.check_active()
        outcomes: list[PartitionImage | KafkaError] = []
        for start in range(0, len(changes), CHANGES_AT_ONCE):
            some = changes[start : start + CHANGES_AT_ONCE]
            try:
                outcomes += self._alter_together(some)
            except StoreError as error:
                # One of the nodes is not as the image says: the others need not suffer for it.
                logger.info("changes of in-sync sets are made one by one: %s", error)
                self._writer.refresh()
                outcomes += [self._alter_one(change) for change in some]
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, PartitionImage) and is_moving(outcome):
                self._context.event_queue.post(partial(self._on_changed, change.topic, change.partition))
        return outcomes

    def _alter_together(self, changes: Sequence[IsrChange]) -> list[PartitionImage | KafkaError]:
        context, image = self._context, self._context.image
        outcomes: list[PartitionImage | KafkaError] = []
        writes: list[Write] = []
        topics: dict[str, TopicImage] = {}
        for change in changes:
            try:
                decision = alter_partition(image, context.epoch, change, context.shutting_down)
            except KafkaError as error:
                outcomes.append(error)
                continue
            writes += decision.writes
            topics.update(decision.delta.topics)
            image = image.apply(decision.delta)
            outcomes.append(image.topics[change.topic].partitions[change.partition])
        if writes:
            self._writer.commit(Decision(tuple(writes), ClusterDelta(topics=topics)))
        return outcomes

    def _alter_one(self, change: IsrChange) -> PartitionImage | KafkaError:
        try:
            return self._alter_together([change])[0]
        except StoreError:
            self._writer.refresh_topic(change.topic)
            return InvalidUpdateVersionError()

    # --- as leaders have written them (inter.broker.protocol.version before 2.7-IV2) -----------------------

    def follow_notices(self) -> None:
        """Read anew what leaders say they have changed, and remove their notices.

        Nothing is done by a controller that is not the active one.

        Raises:
            StoreError: the store cannot be read; the next notice has all of them looked at again.
            NotControllerError: this broker is no longer the active controller.
            KafkaStorageError: the store cannot be written.
        """
        if not self._context.is_active:
            return
        notices = [f"{paths.ISR_CHANGES}/{name}" for name in self._context.store.children(paths.ISR_CHANGES)]
        changed: dict[TopicPartition, None] = {}
        for path, notice in zip(notices, self._context.store.get_many(notices), strict=True):
            try:
                if notice is not None:
                    changed.update(dict.fromkeys(nodes.decode_isr_change(path, notice.data)))
            except NodeFormatError as error:
                logger.warning("a notice of changed in-sync sets is of no use: %s", error)
        topics = self._read_states(list(changed))
        if topics:
            self._images.apply(ClusterDelta(topics=topics))
        if notices:
            self._writer.commit(Decision(tuple(Remove(path) for path in notices)))
        for topic, index in sorted(changed):
            self._on_changed(topic, index)

    def _read_states(self, keys: Sequence[TopicPartition]) -> dict[str, TopicImage]:
        """The topics of these partitions, as far as the nodes say something newer than the image."""
        topics: dict[str, TopicImage] = {}
        states = [paths.partition_state(*key) for key in keys]
        found_states = self._context.store.get_many(states)
        for (name, index), path, node in zip(keys, states, found_states, strict=True):
            topic = topics.get(name) or self._context.image.topic(name)
            before = None if topic is None else topic.partitions.get(index)
            if topic is None or before is None or node is None or node.stat.version <= before.partition_epoch:
                continue
            try:
                state = nodes.decode_partition_state(path, node.data)
            except NodeFormatError as error:
                logger.warning("a changed in-sync set cannot be read: %s", error)
                continue
            after = PartitionImage.of(before.assignment, state, node.stat.version)
            topics[name] = topic._replace(partitions={**topic.partitions, index: after})
        return topics
