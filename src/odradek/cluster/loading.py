"""Reading an image out of the store's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from odradek.cluster import nodes, paths
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.store.store import MetadataStore, NodeContent, NoNode
from odradek.util.topic_partition import TopicPartition

OnBad = Callable[[nodes.NodeFormatError], None]
"""Told of a topic, a broker or configs that are left out, as a node does not hold what Kafka writes there."""


def load_image(
    store: MetadataStore,
    written: dict[TopicPartition, int] | None = None,
    on_bad: OnBad | None = None,
) -> ClusterImage:
    """Everything that the nodes say.

    Args:
        store: where they are.
        written: gets the transaction that last wrote the state of each partition.
        on_bad: see `OnBad`; None to raise instead.

    Raises:
        NodeFormatError: a node does not hold what Kafka writes there, and `on_bad` is not told.
        StoreUnavailable: the store cannot be read.
    """
    cluster_id, _ = store.get(paths.CLUSTER_ID)
    image = ClusterImage(cluster_id=nodes.decode_cluster_id(paths.CLUSTER_ID, cluster_id))
    names = store.children(paths.TOPICS)
    topics = load_topics(store, names, written, on_bad)
    # Marks whose topics are gone, or cannot be read, are none of the image's: who marks a topic finds it.
    delta = ClusterDelta(
        brokers=load_brokers(store, on_bad),
        topics=topics,
        topics_marked=frozenset(store.children(paths.DELETE_TOPICS)).intersection(topics),
        configs=load_configs(store, on_bad),
        controller=load_controller(store),
    )
    return image.apply(delta)


def full_delta(image: ClusterImage) -> ClusterDelta:
    """The delta from nothing to `image`."""
    return ClusterDelta(
        brokers=image.brokers,
        topics=image.topics,
        topics_marked=image.marked,
        configs=image.configs,
        controller=(image.controller_id, image.controller_epoch),
    )


def load_topics(
    store: MetadataStore,
    names: Sequence[str],
    written: dict[TopicPartition, int] | None = None,
    on_bad: OnBad | None = None,
) -> dict[str, TopicImage]:
    """Topics with the states of their partitions, without those that have vanished; see `load_image`."""
    topic_nodes: dict[str, nodes.TopicNode] = {}
    for name, content in zip(names, store.get_many([paths.topic(name) for name in names]), strict=True):
        if content is not None:
            with _telling(on_bad):
                topic_nodes[name] = nodes.decode_topic(paths.topic(name), content.data)
    state_paths = [
        paths.partition_state(name, index) for name, node in topic_nodes.items() for index in node.partitions
    ]
    states = dict(zip(state_paths, store.get_many(state_paths), strict=True))
    topics: dict[str, TopicImage] = {}
    for name, node in topic_nodes.items():
        with _telling(on_bad):
            partitions = {
                index: _partition(paths.partition_state(name, index), assignment, states)
                for index, assignment in node.partitions.items()
            }
            topics[name] = TopicImage(name, node.topic_id, partitions)
            if written is None:
                continue
            for index in partitions:
                content = states[paths.partition_state(name, index)]
                if content is not None:
                    written[name, index] = content.stat.mzxid
    return topics


def _partition(
    path: str, assignment: nodes.ReplicaAssignment, states: Mapping[str, NodeContent | None]
) -> PartitionImage:
    state = states[path]
    if state is None:
        return PartitionImage.of(assignment, None, -1)
    return PartitionImage.of(assignment, nodes.decode_partition_state(path, state.data), state.stat.version)


@contextmanager
def _telling(on_bad: OnBad | None) -> Iterator[None]:
    try:
        yield
    except nodes.NodeFormatError as error:
        if on_bad is None:
            raise
        on_bad(error)


def load_topic(store: MetadataStore, name: str, on_bad: OnBad | None = None) -> TopicImage | None:
    """One topic with the states of its partitions; None if it has vanished. See `load_image`."""
    return load_topics(store, [name], on_bad=on_bad).get(name)


def load_partition(
    store: MetadataStore, name: str, index: int, assignment: nodes.ReplicaAssignment
) -> PartitionImage:
    """One partition as its state's node says; without a node it has no leader yet."""
    path = paths.partition_state(name, index)
    try:
        data, stat = store.get(path)
    except NoNode:
        return PartitionImage.of(assignment, None, -1)
    return PartitionImage.of(assignment, nodes.decode_partition_state(path, data), stat.version)


def load_brokers(store: MetadataStore, on_bad: OnBad | None = None) -> dict[int, BrokerImage]:
    """The registered brokers. See `load_image`."""
    brokers: dict[int, BrokerImage] = {}
    names = store.children(paths.BROKER_IDS)
    registrations = [f"{paths.BROKER_IDS}/{name}" for name in names]
    for name, path, content in zip(names, registrations, store.get_many(registrations), strict=True):
        if content is not None:
            data, stat = content
            with _telling(on_bad):
                registration = nodes.decode_registration(path, data)
                brokers[int(name)] = BrokerImage(int(name), stat.czxid, registration)
    return dict(sorted(brokers.items()))


def load_configs(store: MetadataStore, on_bad: OnBad | None = None) -> dict[str, Mapping[str, str]]:
    """The configs of all entities that have any. See `load_image`."""
    entities: list[str] = []
    for kind in ("topics", "brokers", "clients", "users", "ips", "client-metrics"):
        for name in _children(store, f"{paths.CONFIG}/{kind}"):
            entity = f"{kind}/{name}"
            entities.append(entity)
            if kind == "users":
                clients = _children(store, f"{paths.CONFIG}/{entity}/clients")
                entities += [f"{entity}/clients/{client}" for client in clients]
    return {entity: config for entity, config in load_entities(store, entities, on_bad).items() if config}


def load_entities(
    store: MetadataStore, entities: Sequence[str], on_bad: OnBad | None = None
) -> dict[str, Mapping[str, str]]:
    """The configs of these entities, empty for those that have none. See `load_image`."""
    config_paths = [paths.entity_config(entity) for entity in entities]
    configs: dict[str, Mapping[str, str]] = {}
    for entity, path, content in zip(entities, config_paths, store.get_many(config_paths), strict=True):
        with _telling(on_bad):
            configs[entity] = {} if content is None else nodes.decode_config(path, content.data)
    return configs


def load_config(store: MetadataStore, entity_path: str) -> dict[str, str]:
    """The configs of one entity, empty when it has none."""
    path = paths.entity_config(entity_path)
    try:
        data, _ = store.get(path)
    except NoNode:
        return {}
    return nodes.decode_config(path, data)


def load_controller(store: MetadataStore) -> tuple[int, int]:
    """The controller's broker id, -1 for none, and the controller epoch."""
    epoch = 0
    try:
        data, _ = store.get(paths.CONTROLLER_EPOCH)
        epoch = nodes.decode_epoch(paths.CONTROLLER_EPOCH, data)
        data, _ = store.get(paths.CONTROLLER)
    except NoNode:
        return -1, epoch
    return nodes.decode_controller(paths.CONTROLLER, data).broker_id, epoch


def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return store.children(path)
    except NoNode:
        return []
