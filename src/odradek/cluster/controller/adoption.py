"""Topics out of the logs that are there, for a store that has never known any.

A data folder that comes from Kafka has its topics' metadata elsewhere (ZooKeeper, or a log of KRaft's), and
so has one whose store was lost. What the folders say is enough to serve them: names, partitions, topic ids,
leader epochs. The topics' configs are not there. So that no record goes because of that, adopted topics keep
everything until somebody says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.cluster import paths
from odradek.cluster.controller.decisions import Decision, Put, Write
from odradek.cluster.controller.topics import CLUSTER_METADATA_TOPIC, why_invalid
from odradek.cluster.image import ClusterDelta, PartitionImage, TopicImage
from odradek.cluster.nodes import (
    PartitionState,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicNode,
    encode_config,
    encode_partition_state,
    encode_producer_id_block,
    encode_topic,
)
from odradek.cluster.store.store import Create
from odradek.wire.primitives import ZERO_UUID

KEEP_EVERYTHING: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}


class FoundPartition(NamedTuple):
    """A log: whose it is (`topic_id` None where it does not say), and its latest leader epoch, or -1."""

    topic: str
    partition: int
    topic_id: bytes | None
    leader_epoch: int


class Adoption(NamedTuple):
    """The decision to write, and the topics that cannot be taken over, with the reason."""

    decision: Decision
    left: Mapping[str, str]


def adopt(
    found_partitions: Iterable[FoundPartition],
    broker_id: int,
    epoch: int,
    *,
    configs: Callable[[str], Mapping[str, str]],
    new_topic_id: Callable[[], bytes],
    highest_producer_id: int = -1,
) -> Adoption:
    """Make topics of logs, all led by this broker.

    Args:
        found_partitions: the logs.
        broker_id, epoch: of this broker, and of the controller.
        configs: by topic name, what it is to be run with.
        new_topic_id: for topics from before there were ids.
        highest_producer_id: no id up to this one is given out again.
    """
    by_topic: dict[str, dict[int, FoundPartition]] = {}
    for partition in found_partitions:
        if partition.topic != CLUSTER_METADATA_TOPIC:
            by_topic.setdefault(partition.topic, {})[partition.partition] = partition
    writes: list[Write] = []
    topics: dict[str, TopicImage] = {}
    all_configs: dict[str, Mapping[str, str]] = {}
    left: dict[str, str] = {}
    for name, partitions in sorted(by_topic.items()):
        why = _why_not(name, partitions)
        if why is not None:
            left[name] = why
            continue
        ids = {partition.topic_id for partition in partitions.values()} - {None, ZERO_UUID}
        topic_id = ids.pop() if ids else new_topic_id()
        assert topic_id is not None
        assignment = {index: ReplicaAssignment((broker_id,)) for index in sorted(partitions)}
        overrides = dict(configs(name))
        writes.append(Put(paths.entity_config(f"topics/{name}"), encode_config(overrides)))
        writes.append(Create(paths.topic(name), encode_topic(TopicNode(assignment, topic_id))))
        writes.append(Create(paths.topic_partitions(name)))
        images: dict[int, PartitionImage] = {}
        for index, replicas in assignment.items():
            state = PartitionState(broker_id, partitions[index].leader_epoch + 1, (broker_id,), epoch)
            writes.append(Create(paths.partition(name, index)))
            writes.append(Create(paths.partition_state(name, index), encode_partition_state(state)))
            images[index] = PartitionImage.of(replicas, state, 0)
        topics[name] = TopicImage(name, topic_id, images)
        all_configs[f"topics/{name}"] = overrides
    if highest_producer_id >= 0:
        block = ProducerIdBlock(broker_id, 0, highest_producer_id)
        writes.append(Put(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(block)))
    return Adoption(Decision(tuple(writes), ClusterDelta(topics=topics, configs=all_configs)), left)


def _why_not(name: str, partitions: Mapping[int, FoundPartition]) -> str | None:
    if why_invalid(name) is not None:
        return "its name is not allowed"
    if set(partitions) != set(range(len(partitions))):
        missing = sorted(set(range(max(partitions))) - set(partitions))
        return f"its partitions {', '.join(map(str, missing))} are not here"
    if len({partition.topic_id for partition in partitions.values()} - {None}) > 1:
        return "its partitions say different topic ids"
    return None
