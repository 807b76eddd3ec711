"""Reading an image out of the store's nodes."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cluster import nodes, paths
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.store import MetadataStore, NoNode


def load_image(store: MetadataStore) -> ClusterImage:
    """Everything that the nodes say.

    Raises:
        NodeFormatError: a node does not hold what Kafka writes there.
        StoreUnavailable: the store cannot be read.
    """
    cluster_id, _ = store.get(paths.CLUSTER_ID)
    image = ClusterImage(cluster_id=nodes.decode_cluster_id(paths.CLUSTER_ID, cluster_id))
    names = store.children(paths.TOPICS)
    topics = {name: topic for name in names if (topic := load_topic(store, name)) is not None}
    delta = ClusterDelta(
        brokers=load_brokers(store),
        topics=topics,
        topics_marked=frozenset(store.children(paths.DELETE_TOPICS)).intersection(topics),
        configs=load_configs(store),
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


def load_topic(store: MetadataStore, name: str) -> TopicImage | None:
    """One topic with the states of its partitions; None if it has vanished."""
    path = paths.topic(name)
    try:
        data, _ = store.get(path)
    except NoNode:
        return None
    node = nodes.decode_topic(path, data)
    partitions: dict[int, PartitionImage] = {}
    for index, assignment in node.partitions.items():
        state_path = paths.partition_state(name, index)
        try:
            state_data, stat = store.get(state_path)
        except NoNode:
            partitions[index] = PartitionImage.of(assignment, None, -1)
            continue
        state = nodes.decode_partition_state(state_path, state_data)
        partitions[index] = PartitionImage.of(assignment, state, stat.version)
    return TopicImage(name, node.topic_id, partitions)


def load_brokers(store: MetadataStore) -> dict[int, BrokerImage]:
    """The registered brokers."""
    brokers: dict[int, BrokerImage] = {}
    for name in store.children(paths.BROKER_IDS):
        path = f"{paths.BROKER_IDS}/{name}"
        try:
            data, stat = store.get(path)
        except NoNode:
            continue
        brokers[int(name)] = BrokerImage(int(name), stat.czxid, nodes.decode_registration(path, data))
    return dict(sorted(brokers.items()))


def load_configs(store: MetadataStore) -> dict[str, Mapping[str, str]]:
    """The configs of all topics, brokers, users, clients and addresses that have any."""
    configs: dict[str, Mapping[str, str]] = {}
    for kind in ("topics", "brokers", "clients", "users", "ips"):
        for name in _children(store, f"{paths.CONFIG}/{kind}"):
            entity = f"{kind}/{name}"
            _load_config(store, entity, configs)
            if kind == "users":
                for client in _children(store, f"{paths.CONFIG}/{entity}/clients"):
                    _load_config(store, f"{entity}/clients/{client}", configs)
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


def _load_config(store: MetadataStore, entity: str, into: dict[str, Mapping[str, str]]) -> None:
    config = load_config(store, entity)
    if config:
        into[entity] = config


def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return store.children(path)
    except NoNode:
        return []
