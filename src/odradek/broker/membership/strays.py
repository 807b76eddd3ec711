"""Replicas whose folders are here, and which the cluster does not have at this broker any more.

A replica's removal is told by StopReplica, once. Where that is lost, because the controller died between
writing the end of a reassignment and telling it, or because this broker was away, nobody speaks of the
replica again. (Kafka's controllers over ZooKeeper have this gap. Its brokers in KRaft mode find such folders
at their start, and those that are told everything by LeaderAndIsr when they are: KAFKA-16234, KIP-866.)

So a broker looks itself from time to time. A log is set aside under a `-stray` name, which nobody removes, as
in Kafka, when

- it is neither led nor followed here, and was not when one looked before: StopReplica, which follows close
  behind UpdateMetadata and deletes, has had its time;
- and the metadata store, not what this broker remembers, says that there is no such topic, that the topic of
  that name is another one, or that the partition is at other brokers alone.

What cannot be read in the store is no reason for anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING

from odradek.cluster import nodes, paths
from odradek.errors import OdradekError
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.image import ClusterImage
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

TopicIds = dict["TopicPartition", bytes | None]
Look = Callable[["MetadataStore"], "set[TopicPartition]"]


def strays(store: MetadataStore, broker_id: int, logs: TopicIds) -> set[TopicPartition]:
    """Find the logs of which the store says that they are not a broker's.

    Args:
        store: is read, in another thread than the event loop's.
        broker_id: the broker that has them.
        logs: which, with the topic ids that they have, if any.

    Raises:
        StoreError: it cannot be read.
    """
    names = sorted({topic for topic, _ in logs})
    topic_nodes = dict(zip(names, store.get_many([paths.topic(name) for name in names]), strict=True))
    stray: set[TopicPartition] = set()
    for (topic, index), topic_id in logs.items():
        read = topic_nodes[topic]
        if read is None or _is_elsewhere(topic, index, topic_id, read[0], broker_id):
            stray.add((topic, index))
    return stray


def _is_elsewhere(topic: str, index: int, topic_id: bytes | None, data: bytes | None, broker_id: int) -> bool:
    try:
        node = nodes.decode_topic(paths.topic(topic), data)
    except nodes.NodeFormatError:
        return False
    if topic_id is not None and node.topic_id not in (ZERO_UUID, topic_id):
        return True
    assignment = node.partitions.get(index)
    return assignment is not None and broker_id not in assignment.replicas


class Strays:
    """Looks for them, and has them set aside. Used in the event loop's thread."""

    def __init__(
        self,
        *,
        broker_id: int,
        logs: LogManager,
        replicas: ReplicaManager,
        image: Callable[[], ClusterImage],
        run_in_store: Callable[[Look], Awaitable[set[TopicPartition]]],
        set_aside: Callable[[Iterable[TopicPartition]], Awaitable[None]],
    ) -> None:
        """
        Args:
            broker_id: this broker.
            logs, replicas: what is here, and what of it is led or followed.
            image: the cluster as this broker knows it: what that has here need not be looked for.
            run_in_store: reads the metadata store in another thread.
            set_aside: see `StateChanges.set_aside`.
        """
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._image = image
        self._run_in_store = run_in_store
        self._set_aside = set_aside
        self._idle: Collection[TopicPartition] = ()
        self._looking: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Look, unless one is still at it."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self.look())

    def stop(self) -> None:
        """Look no more. Harmless twice."""
        if self._looking is not None:
            self._looking.cancel()

    async def look(self) -> None:
        """Set aside what has been stray since the last time."""
        before, idle = self._idle, self._find_idle()
        self._idle = idle.keys()
        due = {key: topic_id for key, topic_id in idle.items() if key in before}
        if not due:
            return
        try:
            stray = await self._run_in_store(lambda store: strays(store, self._broker_id, due))
        except OdradekError as error:
            logger.info("whether there are stray logs cannot be seen now: %s", error)
            return
        if stray:
            await self._set_aside(sorted(stray))

    def _find_idle(self) -> TopicIds:
        """The logs that are neither led nor followed, and that the cluster is not known to have here."""
        return {
            key: log.topic_id
            for log in self._logs.all()
            if self._replicas.is_idle(*(key := (log.topic, log.partition))) and not self._is_known(*key)
        }

    def _is_known(self, topic: str, index: int) -> bool:
        state = self._image().partition(topic, index)
        return state is not None and self._broker_id in state.replicas
