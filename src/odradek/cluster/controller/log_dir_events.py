"""Replicas that live brokers cannot use, as a data folder of theirs has failed (KIP-112).

A broker leaves a notice; the controller asks it for the state of all of its replicas, and the answer says
which are offline. Others lead them then, or nobody. Kafka: `LogDirEventNotificationHandler`,
`KafkaController.onReplicasBecomeOffline`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.cluster import nodes, paths
from odradek.cluster.controller import decisions
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.metadata_writer import WRITES_OVER, MetadataWriter
from odradek.cluster.controller.node_watchers import NodeWatchers
from odradek.cluster.image import ClusterDelta
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.store import NoNode
from odradek.errors import KafkaStorageError, OdradekError
from odradek.util.topic_partition import TopicPartition
from odradek.wire.epochs import NO_EPOCH

logger = logging.getLogger(__name__)


class LogDirEvents:
    """Leaves notices for the controller, and follows those of others."""

    def __init__(
        self,
        context: ControllerContext,
        images: ImagePublisher,
        watchers: NodeWatchers,
        writer: MetadataWriter,
    ) -> None:
        self._context = context
        self._images = images
        self._watchers = watchers
        self._writer = writer
        self._unheard: set[int] = set()
        """Brokers of whose failed folders something could not be written down."""

    def end_term(self) -> None:
        """Forget whom to ask."""
        self._unheard.clear()

    def notify_failure(self) -> None:
        """Leave a notice, upon which the active controller asks this broker which replicas it can still use.

        Safe in any thread that may use the store.

        Raises:
            StoreError: the store cannot be written.
        """
        data = nodes.encode_log_dir_event(self._context.broker_id)
        self._context.store.create(paths.LOG_DIR_EVENT_PREFIX, data, sequence=True)

    def follow_notices(self) -> None:
        """Ask the brokers that have left notices, and remove the notices.

        Raises:
            NotControllerError, KafkaStorageError, StoreError: as `MetadataWriter.commit`.
        """
        store = self._context.store
        brokers = set(self._unheard)
        done: list[Write] = []
        for name in store.children(paths.LOG_DIR_EVENTS):
            path = f"{paths.LOG_DIR_EVENTS}/{name}"
            try:
                data, _ = store.get(path)
                brokers.add(nodes.decode_log_dir_event(path, data))
            except NoNode:
                continue
            except NodeFormatError as error:
                logger.warning("%s", error)
            done.append(Remove(path))
        if brokers or done:
            self._unheard.clear()
            self._images.resend(sorted(brokers))
            self._writer.commit_batched(Decision(tuple(done)))

    def note_offline(
        self, broker_id: int, partitions: Iterable[TopicPartition], broker_epoch: int = NO_EPOCH
    ) -> None:
        """Give the leads of a live broker's replicas that it cannot use to others, or to nobody.

        Args:
            broker_id: the broker.
            partitions: of which it has said so.
            broker_epoch: in which of its lives; of another than the present one it says nothing. -1: in this.

        Raises:
            NotControllerError: this broker is not the active controller.
            KafkaStorageError, StoreError: the store cannot be written, or is not as the image says.
        """
        context = self._context
        context.check_active()
        broker = context.image.brokers.get(broker_id)
        if broker is None or broker_epoch not in (NO_EPOCH, broker.epoch):
            return
        fresh = {(broker_id, topic, index) for topic, index in partitions} - context.offline_replicas
        if not fresh:
            return
        context.offline_replicas |= fresh
        try:
            self._writer.write_over(self._write_offline, WRITES_OVER)
        except OdradekError:
            # It must not be taken for one that has been heard, and is asked again.
            context.offline_replicas -= fresh
            if context.is_active:
                self._unheard.add(broker_id)
                self._watchers.note_unseen(paths.LOG_DIR_EVENTS)
            raise

    def _write_offline(self) -> None:
        context = self._context
        decision = decisions.replicas_offline(
            context.image, context.epoch, context.offline_replicas, context.may_elect_unclean
        )
        if decision:
            try:
                self._writer.commit_batched(decision)
            except KafkaStorageError:
                if not context.is_alone:
                    raise
                # The folder that has failed may be the store's: clients are to see it all the same.
                self._images.apply(decision.delta)
        else:
            # Nobody leads or is in sync by it, but clients are to see that it is offline.
            self._images.replace(context.image, ClusterDelta())
