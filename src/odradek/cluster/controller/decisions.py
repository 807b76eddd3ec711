"""The controller's decisions: pure functions from (image, event) to what changes and what must be written.

A `Decision` holds the delta that makes the next image and the node writes that make it true.
`metadata_writer` does the writes in one transaction with the check of the epoch, and only then are the delta
applied and listeners told. Nothing here reads a store, a clock or a source of random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.cluster import paths
from odradek.cluster.controller import elections
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import (
    PartitionState,
    ReplicaAssignment,
    TopicNode,
    encode_config,
    encode_config_change,
    encode_partition_state,
    encode_topic,
)
from odradek.cluster.store.store import Check, Create, Delete, SetData
from odradek.util.topic_partition import TopicPartition


class Put(NamedTuple):
    """A write that creates the node or, where it exists, replaces its data."""

    path: str
    data: bytes | None


class Remove(NamedTuple):
    """A deletion that is content when the node does not exist."""

    path: str


Write = Check | Create | SetData | Delete | Put | Remove


class Decision(NamedTuple):
    """The nodes to write, and the difference that they make."""

    writes: tuple[Write, ...] = ()
    delta: ClusterDelta = ClusterDelta()

    def __bool__(self) -> bool:
        return bool(self.writes) or bool(self.delta)


class PlannedTopic(NamedTuple):
    """A topic that passed all checks. `assignment` is by partition; `configs` are its overrides."""

    name: str
    topic_id: bytes
    assignment: Mapping[int, Sequence[int]]
    configs: Mapping[str, str]


Unclean = Callable[[str], bool]
"""Whether `unclean.leader.election.enable` holds for a topic."""


def create_topics(image: ClusterImage, epoch: int, planned: Iterable[PlannedTopic]) -> Decision:
    """Create topics, with leaders for all partitions that have a live replica."""
    writes: list[Write] = []
    topics: dict[str, TopicImage] = {}
    configs: dict[str, Mapping[str, str]] = {}
    for plan in planned:
        assignment = {p: ReplicaAssignment(tuple(r)) for p, r in sorted(plan.assignment.items())}
        # The configs first, as Kafka's `AdminZkClient` has it: who sees the topic finds them. A topic that
        # was deleted halfway may have left some behind, which must not come back to life.
        writes.append(Put(paths.entity_config(f"topics/{plan.name}"), encode_config(plan.configs)))
        writes.append(Create(paths.topic(plan.name), encode_topic(TopicNode(assignment, plan.topic_id))))
        writes.append(Create(paths.topic_partitions(plan.name)))
        partitions: dict[int, PartitionImage] = {}
        for index, replicas in assignment.items():
            new = PartitionImage.of(replicas, None, -1)
            partitions[index] = _start(writes, plan.name, index, new, image.brokers, epoch)
        topics[plan.name] = TopicImage(plan.name, plan.topic_id, partitions)
        configs[f"topics/{plan.name}"] = dict(plan.configs)
    return Decision(tuple(writes), ClusterDelta(topics=topics, configs=configs))


def _start(
    writes: list[Write],
    topic: str,
    index: int,
    new: PartitionImage,
    live: Collection[int],
    epoch: int,
) -> PartitionImage:
    state = elections.first_leader(new, live, epoch)
    if state is None:
        # The partition waits for its first broker without a state, whose ISR would have to name somebody.
        return new
    writes.append(Create(paths.partition(topic, index)))
    writes.append(Create(paths.partition_state(topic, index), encode_partition_state(state)))
    return PartitionImage.of(new.assignment, state, 0)


def add_partitions(
    image: ClusterImage, epoch: int, name: str, added: Mapping[int, Sequence[int]]
) -> Decision:
    """Add partitions to a topic. `added` is by partition index, following those that exist."""
    topic = image.topics[name]
    partitions = dict(topic.partitions)
    assignment = {p: partition.assignment for p, partition in partitions.items()}
    assignment |= {p: ReplicaAssignment(tuple(replicas)) for p, replicas in added.items()}
    writes: list[Write] = [
        SetData(paths.topic(name), encode_topic(TopicNode(dict(sorted(assignment.items())), topic.topic_id)))
    ]
    for index in sorted(added):
        new = PartitionImage.of(assignment[index], None, -1)
        partitions[index] = _start(writes, name, index, new, image.brokers, epoch)
    return Decision(tuple(writes), ClusterDelta(topics={name: topic._replace(partitions=partitions)}))


def mark_for_deletion(image: ClusterImage, names: Iterable[str]) -> Decision:
    """Mark topics for deletion; those marked already stay as they are. From here on they cannot be used."""
    fresh = [name for name in dict.fromkeys(names) if name in image.topics and name not in image.marked]
    return Decision(
        tuple(Create(paths.delete_topic(name)) for name in fresh),
        ClusterDelta(topics_marked=frozenset(fresh)),
    )


def replicas_offline(
    image: ClusterImage, epoch: int, offline: Collection[tuple[int, str, int]], unclean: Unclean
) -> Decision:
    """Replicas (broker, topic, partition) cannot be used although their brokers live.

    Others take over what they lead; where there is none, nobody leads. As followers they leave the ISR.
    """
    writes: list[Write] = []
    topics: dict[str, TopicImage] = {}
    for broker, name, index in sorted(offline):
        topic = topics.get(name) or image.topic(name)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None or partition.is_new:
            continue
        state = None
        if partition.leader == broker:
            live = [other for other in image.brokers if (other, name, index) not in offline]
            state = elections.offline(partition, live, epoch, unclean=unclean(name))
        if state is None:
            state = elections.without_log(partition, broker, epoch)
        if state is None:
            continue
        before = image.topics[name].partitions[index]
        if partition is not before:
            # Two replicas of one partition: its state is written once.
            writes = [w for w in writes if w.path != paths.partition_state(name, index)]
            partition = partition._replace(partition_epoch=before.partition_epoch)
        after = write_state(writes, name, index, partition, state)
        topics[name] = topic._replace(partitions={**topic.partitions, index: after})
    return Decision(tuple(writes), ClusterDelta(topics=topics))


def finish_deletion(image: ClusterImage, names: Iterable[str]) -> Decision:
    """Remove the nodes of topics whose replicas are gone, in the order of `ControllerDeletionClient`."""
    writes: list[Write] = []
    gone: dict[str, TopicImage] = {}
    for name in names:
        topic = image.topics[name]
        for index in topic.partitions:
            writes.append(Remove(paths.partition_state(name, index)))
            writes.append(Remove(paths.partition(name, index)))
        writes.append(Remove(paths.topic_partitions(name)))
        writes.append(Remove(paths.topic(name)))
        writes.append(Remove(paths.entity_config(f"topics/{name}")))
        # The mark is the last: should the topic be large and need several transactions, it is gone on with.
        writes.append(Remove(paths.delete_topic(name)))
        gone[name] = topic
    return Decision(
        tuple(writes), ClusterDelta(topics_gone=gone, configs={f"topics/{name}": {} for name in gone})
    )


def set_config(entity_path: str, configs: Mapping[str, str]) -> Decision:
    """Replace the configs of an entity and leave the notice that other brokers wait for."""
    return Decision(
        (
            Put(paths.entity_config(entity_path), encode_config(configs)),
            # In one transaction with the configs: whoever reads them upon the notice finds the new ones.
            Create(paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity_path), sequence=True),
        ),
        ClusterDelta(configs={entity_path: dict(configs)}),
    )


Electable = Callable[[str, int], Collection[int]]
"""The brokers that may be given the lead of a partition (topic, index)."""


def brokers_changed(
    image: ClusterImage,
    epoch: int,
    live: Mapping[int, BrokerImage],
    unclean: Unclean,
    electable: Electable | None = None,
) -> Decision:
    """Give leaders to partitions that have lost theirs or never had any, as brokers have come or gone.

    Partitions whose leader is gone get the first live replica in sync, and those that are gone leave the ISR.
    Where none is, the leader is noted as none and the ISR stays whole: whoever of it comes back first leads.
    With `electable` not every live broker may lead.
    """
    changed = {b: broker for b, broker in live.items() if image.brokers.get(b) != broker}
    gone = frozenset(image.brokers) - live.keys()
    writes: list[Write] = []
    topics: dict[str, TopicImage] = {}
    for topic in image.topics.values():
        if topic.name in image.marked:
            # Its replicas are being deleted: a leader would have brokers begin to follow it again.
            continue
        moved: dict[int, PartitionImage] = {}
        has_parent = False
        for index, partition in topic.partitions.items():
            here: list[Write] = []
            after = _settle(here, topic.name, index, partition, live, epoch, unclean, electable)
            if after is partition:
                continue
            if partition.is_new and not has_parent:
                # Whoever wrote the topic's node, a tool or a controller that died, may not have come to this.
                writes.append(Put(paths.topic_partitions(topic.name), None))
                has_parent = True
            writes += here
            moved[index] = after
        if moved:
            topics[topic.name] = topic._replace(partitions={**topic.partitions, **moved})
    return Decision(tuple(writes), ClusterDelta(brokers=changed, brokers_gone=gone, topics=topics))


def newer_than_states(
    image: ClusterImage, epoch: int, lives: Mapping[int, int], written: Mapping[TopicPartition, int]
) -> Decision:
    """Take brokers out of ISRs that were written before they registered, where somebody else is in sync.

    What these brokers had then may be gone. Where all of an ISR have registered since, none of them is known
    to have more than the others, and the ISR stays as it is.

    Args:
        image, epoch: the cluster, and the epoch of the controller.
        lives: the epochs of the live brokers.
        written: the transactions that last wrote the states.
    """
    writes: list[Write] = []
    topics: dict[str, TopicImage] = {}
    for (name, index), zxid in written.items():
        topic = topics.get(name) or image.topics[name]
        partition = topic.partitions[index]
        # Zxids order all writes of the store: a registration above the state's write came after it.
        stayed = [b for b in partition.isr if lives.get(b, zxid) < zxid]
        if name in image.marked or not stayed or all(lives.get(b, 0) < zxid for b in partition.isr):
            continue
        state = elections.offline(partition, stayed, epoch, unclean=False)
        if state is None:
            continue
        if partition.leader in stayed:
            # The ISR shrinks; who leads has done nothing to be replaced.
            state = state._replace(leader=partition.leader)
        after = write_state(writes, name, index, partition, state)
        topics[name] = topic._replace(partitions={**topic.partitions, index: after})
    return Decision(tuple(writes), ClusterDelta(topics=topics))


def _settle(
    writes: list[Write],
    topic: str,
    index: int,
    partition: PartitionImage,
    live: Mapping[int, BrokerImage],
    epoch: int,
    unclean: Unclean,
    electable: Electable | None,
) -> PartitionImage:
    leaders: Collection[int] = live if electable is None else electable(topic, index)
    if partition.is_new:
        started: list[Write] = []
        after = _start(started, topic, index, partition, leaders, epoch)
        # The parents may exist: whoever was the controller before may have died on the way.
        writes.extend(Put(w.path, w.data) if isinstance(w, Create) else w for w in started)
        return partition if after.is_new else after
    if partition.leader not in live:
        state = elections.offline(partition, leaders, epoch, unclean=unclean(topic))
        if state is not None:
            return write_state(writes, topic, index, partition, state)
        state = elections.without_replica(partition, partition.leader, epoch)
        return partition if state is None else write_state(writes, topic, index, partition, state)
    isr = tuple(broker for broker in partition.isr if broker in live)
    if isr == partition.isr:
        return partition
    # Followers are gone, the leader is not. As in Kafka's `ReplicaStateMachine` that is a new leader epoch.
    state = elections.state_of(partition)._replace(
        isr=isr,
        leader_epoch=partition.leader_epoch + 1,
        controller_epoch=epoch,
    )
    return write_state(writes, topic, index, partition, state)


def write_state(
    writes: list[Write], topic: str, index: int, partition: PartitionImage, state: PartitionState
) -> PartitionImage:
    """Add the write of a partition's state to `writes`, and return the partition as it will be."""
    path = paths.partition_state(topic, index)
    writes.append(SetData(path, encode_partition_state(state), partition.partition_epoch))
    return PartitionImage.of(partition.assignment, state, partition.partition_epoch + 1)
