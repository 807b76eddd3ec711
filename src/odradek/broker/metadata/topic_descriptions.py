"""The partitions of topics as Metadata describes them, kept while the cluster is as it was.

Clients ask for the same few topics again and again, thousands of them for the same one. What is asked of each
request (who may see a topic, what is to be created) is not kept, only what is the same for all: who leads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from odradek.broker.event_loop.slices import AT_ONCE, Steps
from odradek.cluster.nodes import NO_LEADER
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.metadata import MetadataResponsePartition

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage, PartitionImage, TopicImage

MAX_PARTITIONS = 20_000
"""So many partitions are kept, of 0.5 KiB each."""

Partitions = tuple[MetadataResponsePartition, ...]


class Metadata(Protocol):
    """The metadata that is described: a broker's `MetadataCache`.

    Attributes:
        offline_replicas: (broker, topic, partition) of replicas that live brokers cannot use.
    """

    offline_replicas: frozenset[tuple[int, str, int]]

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        ...


class TopicDescriptions:
    """Describes the topics of one cluster, for one broker.

    What it gives is shared by many answers, and must not be changed: hence tuples.
    """

    def __init__(self, metadata: Metadata) -> None:
        """
        Args:
            metadata: what is described.
        """
        self._metadata = metadata
        self._image: ClusterImage | None = None
        self._offline: frozenset[tuple[int, str, int]] = frozenset()
        self._kept: dict[tuple[str, str, int], Partitions] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many partitions are kept."""
        return self._count

    def kept(self, image: ClusterImage, topic: str, version: int, listener: str) -> Partitions | None:
        """The description of a topic, if it has been made of this image and the replicas of now."""
        metadata = self._metadata
        if metadata.image is not self._image or metadata.offline_replicas is not self._offline:
            self._image, self._offline = metadata.image, metadata.offline_replicas
            self._forget()
        return self._kept.get((topic, listener, _codes_of(version))) if image is self._image else None

    def describe(
        self, image: ClusterImage, topic: TopicImage, version: int, listener: str
    ) -> Steps[Partitions]:
        """Describe the partitions of a topic, and keep that.

        Args:
            image: the cluster, which may have changed meanwhile; then nothing is kept.
            topic: of the image.
            version: of the answer.
            listener: that by which the client came.
        """
        offline_replicas = self._metadata.offline_replicas
        offline: dict[int, list[int]] = {}
        for broker, name, index in offline_replicas:
            if name == topic.name:
                offline.setdefault(index, []).append(broker)
        partitions = []
        for index, partition in topic.partitions.items():
            partitions.append(_partition(image, index, partition, listener, version, offline.get(index, ())))
            if len(partitions) % AT_ONCE == 0:
                yield
        descriptions = tuple(partitions)
        if image is self._image is self._metadata.image and offline_replicas is self._offline:
            self._keep((topic.name, listener, _codes_of(version)), descriptions)
        return descriptions

    def _keep(self, key: tuple[str, str, int], descriptions: Partitions) -> None:
        if len(descriptions) > MAX_PARTITIONS or key in self._kept:
            return
        if self._count + len(descriptions) > MAX_PARTITIONS:
            self._forget()
        self._kept[key] = descriptions
        self._count += len(descriptions)

    def _forget(self) -> None:
        self._kept.clear()
        self._count = 0


def _codes_of(version: int) -> int:
    """The first of the versions that describe a partition by the same error codes."""
    return 0 if version == 0 else 1 if version < 6 else 6


def _partition(
    image: ClusterImage,
    index: int,
    partition: PartitionImage,
    listener: str,
    version: int,
    offline: Collection[int],
) -> MetadataResponsePartition:
    live = image.brokers
    replicas, isr = partition.replicas, partition.isr
    if version == 0:
        replicas = tuple(b for b in replicas if _reachable(image, b, listener))
        isr = tuple(b for b in isr if _reachable(image, b, listener))
    leader = live.get(partition.leader)
    leader_id = partition.leader
    error = ErrorCode.NONE
    if leader is None:
        error, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif leader.endpoint(listener) is None:
        error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        leader_id = NO_LEADER
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=int(error),
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=[b for b in partition.replicas if b not in live or b in offline],
    )


def _reachable(image: ClusterImage, broker_id: int, listener: str) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.endpoint(listener) is not None
