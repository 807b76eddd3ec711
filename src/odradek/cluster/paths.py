"""The paths of Kafka's nodes."""

from __future__ import annotations

from urllib.parse import quote, unquote

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURE = "/feature"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
CONSUMERS = "/consumers"
SCRAM_DECOYS = "/odradek/scram_decoys"
"""Not Kafka's: see `odradek.cluster.access.scram`."""

DEFAULT_ENTITY = "<default>"
"""The name of a config entity that stands for all that have none of their own."""

PERSISTENT_PATHS = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/config/client-metrics",
)
"""The nodes that every broker creates at its start where they are missing, in this order, with parents."""


def broker_id(broker: int) -> str:
    """The registration of a broker."""
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    """A topic: which partitions it has and which brokers hold them."""
    return f"{TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    """A partition's leader and ISR."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def delete_topic(name: str) -> str:
    """The mark that a topic is to be deleted."""
    return f"{DELETE_TOPICS}/{name}"


def entity_config(entity_path: str) -> str:
    """The config of an entity such as `topics/clicks`, `brokers/1`, `users/bob/clients/app`."""
    return f"{CONFIG}/{entity_path}"


def sanitize(name: str) -> str:
    """A user's or client's name as a node name: percent-encoded UTF-8, as Kafka's `Sanitizer` does it."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(node_name: str) -> str:
    """The name that `sanitize` made a node name of."""
    return unquote(node_name)
