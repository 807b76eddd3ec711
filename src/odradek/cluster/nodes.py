"""The contents of the nodes: Kafka's JSON to objects and back.

Each node has an `encode_…` that writes the newest version and a `decode_…` that reads all versions since
0.8.2 (docs/metadata.md lists them). The order of keys varies between Kafka's versions, so never compare the
text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from odradek.cluster.store.store import StoreError
from odradek.util.topic_partition import TopicPartition
from odradek.wire.primitives import ZERO_UUID

_NOTHING: Mapping[str, Any] = MappingProxyType({})

NO_LEADER = -1
LEADER_DURING_DELETION = -2
"""In UpdateMetadata alone, never in a node. Kafka: `LeaderAndIsr.LEADER_DURING_DELETE`."""

LEADER_RECOVERED = 0
LEADER_RECOVERING = 1
"""An unclean election chose the leader, which has not made up its log yet (KIP-704)."""


class NodeFormatError(StoreError):
    """A node's data is not what Kafka writes there."""


class Endpoint(NamedTuple):
    """An address that clients or brokers connect to. `listener` is its name, such as `PLAINTEXT`."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def connection_string(self) -> str:
        """As it stands in a registration."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerRegistration(NamedTuple):
    """A broker's entry in `/brokers/ids/<id>`.

    Attributes:
        endpoints: its advertised listeners.
        rack: `broker.rack`, None when unset.
        features: per feature the supported versions, empty in practice.
        jmx_port: -1 for none.
        timestamp_ms: when it registered.
        version: of the JSON: 5 since 2.7.
    """

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: Mapping[str, Mapping[str, int]] = _NOTHING
    jmx_port: int = -1
    timestamp_ms: int = -1
    version: int = 5

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of a listener, None if the broker has no such listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition. During a reassignment `replicas` has both the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicNode(NamedTuple):
    """`/brokers/topics/<topic>`. `topic_id` is `ZERO_UUID` where a broker before 2.8 wrote it."""

    partitions: Mapping[int, ReplicaAssignment]
    topic_id: bytes = ZERO_UUID


class PartitionState(NamedTuple):
    """`/brokers/topics/<topic>/partitions/<p>/state`. The node's version is the partition epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = LEADER_RECOVERED


class ControllerNode(NamedTuple):
    """`/controller`. `kraft_controller_epoch` is -1 but during a migration to KRaft (KIP-866)."""

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1


class ProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block`: the ids `first..last` belong to `broker_id`."""

    broker_id: int
    first: int
    last: int


def topic_id_to_text(topic_id: bytes) -> str:
    """A topic id as 22 characters, as Kafka prints it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> bytes:
    """The 16 bytes of a topic id.

    Raises:
        ValueError: `text` is not 22 characters of URL-safe base64.
    """
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a topic id: {text!r}") from error
    if len(value) != 16:
        raise ValueError(f"not a topic id: {text!r}")
    return value


def dump(value: object) -> bytes:
    """An object as the JSON of a node."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def load(path: str, data: bytes | None) -> dict[str, Any]:
    """The JSON object in a node.

    Raises:
        NodeFormatError: there is none.
    """
    try:
        value = json.loads(data or b"")
    except ValueError as error:
        raise NodeFormatError(path, f"node {path} does not hold JSON: {error}") from error
    if not isinstance(value, dict):
        raise NodeFormatError(path, f"node {path} does not hold a JSON object")
    return value


# --- /brokers/ids/<id> ------------------------------------------------------------------------------------


def encode_registration(broker: BrokerRegistration) -> bytes:
    """The data of `/brokers/ids/<id>`, in `broker.version`; `host` and `port` are of the first PLAINTEXT
    endpoint."""
    # For clients of 0.8, which know nothing of listeners. Kafka: `BrokerIdZNode.encode`.
    plain = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value: dict[str, object] = {}
    if broker.version >= 5:
        value["features"] = {name: dict(versions) for name, versions in broker.features.items()}
    if broker.version >= 4:
        value["listener_security_protocol_map"] = {e.listener: e.security_protocol for e in broker.endpoints}
    if broker.version >= 2:
        value["endpoints"] = [e.connection_string for e in broker.endpoints]
    if broker.rack is not None and broker.version >= 3:
        value["rack"] = broker.rack
    value["jmx_port"] = broker.jmx_port
    value["port"] = -1 if plain is None else plain.port
    value["host"] = None if plain is None else plain.host
    value["version"] = broker.version
    value["timestamp"] = str(broker.timestamp_ms)
    return dump(value)


def decode_registration(path: str, data: bytes | None) -> BrokerRegistration:
    """Read `/brokers/ids/<id>`, versions 1 to 5.

    Raises:
        NodeFormatError: it is not a registration.
    """
    value = load(path, data)
    try:
        version = int(value["version"])
        if version < 1:
            raise ValueError(f"version {version}")
        endpoints: tuple[Endpoint, ...]
        if version == 1:
            endpoints = (Endpoint("PLAINTEXT", value["host"], int(value["port"])),)
        else:
            # Without the map (before version 4) a listener is named after its security protocol.
            protocols = value.get("listener_security_protocol_map") or {}
            endpoints = tuple(_endpoint(text, protocols) for text in value["endpoints"])
        return BrokerRegistration(
            endpoints,
            value.get("rack"),
            value.get("features") or {},
            int(value.get("jmx_port", -1)),
            int(value.get("timestamp", -1)),
            version,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NodeFormatError(path, f"node {path} is not a broker's registration: {error!r}") from error


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, address = text.partition("://")
    # The last colon: an IPv6 address has more of them, within brackets.
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"not an endpoint: {text!r}")
    return Endpoint(
        listener, host.removeprefix("[").removesuffix("]"), int(port), protocols.get(listener, listener)
    )


# --- /brokers/topics/<topic> ------------------------------------------------------------------------------


def encode_topic(topic: TopicNode) -> bytes:
    """The data of `/brokers/topics/<topic>`: version 3, or 2 without a topic id."""
    partitions = sorted(topic.partitions.items())
    value: dict[str, object] = {"partitions": {str(p): list(a.replicas) for p, a in partitions}}
    if topic.topic_id != ZERO_UUID:
        value["topic_id"] = topic_id_to_text(topic.topic_id)
    value["adding_replicas"] = {str(p): list(a.adding) for p, a in partitions if a.adding}
    value["removing_replicas"] = {str(p): list(a.removing) for p, a in partitions if a.removing}
    # Brokers before 2.8 give no ids, and write version 2.
    value["version"] = 2 if topic.topic_id == ZERO_UUID else 3
    return dump(value)


def decode_topic(path: str, data: bytes | None) -> TopicNode:
    """Read `/brokers/topics/<topic>`, versions 1 to 3.

    Raises:
        NodeFormatError: it is not a topic.
    """
    value = load(path, data)
    try:
        adding = value.get("adding_replicas") or {}
        removing = value.get("removing_replicas") or {}
        partitions = {
            int(p): ReplicaAssignment(_ids(replicas), _ids(adding.get(p, ())), _ids(removing.get(p, ())))
            for p, replicas in value["partitions"].items()
        }
        text = value.get("topic_id")
        return TopicNode(dict(sorted(partitions.items())), topic_id_from_text(text) if text else ZERO_UUID)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NodeFormatError(path, f"node {path} is not a topic: {error!r}") from error


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(int(broker) for broker in value)


# --- …/partitions/<p>/state -------------------------------------------------------------------------------


def encode_partition_state(state: PartitionState) -> bytes:
    """The data of a partition's `state`; `leader_recovery_state` is written only while recovering."""
    value: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    # As in Kafka's `TopicPartitionStateZNode`: for controllers before 3.2 the node stays as it was.
    if state.leader_recovery_state != LEADER_RECOVERED:
        value["leader_recovery_state"] = state.leader_recovery_state
    return dump(value)


def decode_partition_state(path: str, data: bytes | None) -> PartitionState:
    """Read a partition's `state`.

    Raises:
        NodeFormatError: the data is no state.
    """
    value = load(path, data)
    try:
        return PartitionState(
            int(value["leader"]),
            int(value["leader_epoch"]),
            _ids(value["isr"]),
            int(value["controller_epoch"]),
            int(value.get("leader_recovery_state", LEADER_RECOVERED)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} is not a partition's state: {error!r}") from error


# --- /controller, /controller_epoch, /cluster/id, /latest_producer_id_block -------------------------------


def encode_controller(node: ControllerNode) -> bytes:
    """The data of `/controller`, version 2."""
    return dump(
        {
            "version": 2,
            "brokerid": node.broker_id,
            "timestamp": str(node.timestamp_ms),
            "kraftControllerEpoch": node.kraft_controller_epoch,
        }
    )


def decode_controller(path: str, data: bytes | None) -> ControllerNode:
    """Read `/controller`, versions 1 and 2.

    Raises:
        NodeFormatError: the data names no controller.
    """
    value = load(path, data)
    try:
        return ControllerNode(
            int(value["brokerid"]),
            int(value.get("timestamp", -1)),
            int(value.get("kraftControllerEpoch", -1)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} names no controller: {error!r}") from error


def encode_epoch(epoch: int) -> bytes:
    """The data of `/controller_epoch`: the number as text."""
    return str(epoch).encode()


def decode_epoch(path: str, data: bytes | None) -> int:
    """Read `/controller_epoch`.

    Raises:
        NodeFormatError: it holds no number.
    """
    try:
        return int(data or b"")
    except ValueError as error:
        raise NodeFormatError(path, f"node {path} holds no number: {data!r}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    """The data of `/cluster/id`; its version is text."""
    return dump({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """Read `/cluster/id`.

    Raises:
        NodeFormatError: it holds no id.
    """
    value = load(path, data).get("id")
    if not isinstance(value, str) or not value:
        raise NodeFormatError(path, f"node {path} holds no cluster id")
    return value


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """The data of `/latest_producer_id_block`; the numbers are text."""
    return dump(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(path: str, data: bytes | None) -> ProducerIdBlock | None:
    """Read `/latest_producer_id_block`; None before the first block.

    Raises:
        NodeFormatError: it holds something else.
    """
    if not data:
        return None
    value = load(path, data)
    try:
        return ProducerIdBlock(int(value["broker"]), int(value["block_start"]), int(value["block_end"]))
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} is no block of producer ids: {error!r}") from error


# --- /config ----------------------------------------------------------------------------------------------


def encode_config(config: Mapping[str, str]) -> bytes:
    """The data of `/config/<type>/<name>`."""
    return dump({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes | None) -> dict[str, str]:
    """Read `/config/<type>/<name>`; a node without data has no configs.

    Raises:
        NodeFormatError: it holds something else.
    """
    if not data:
        return {}
    config = load(path, data).get("config", {})
    # A number that is not quoted was not written by Kafka: which text it stands for would be a guess.
    if not isinstance(config, dict) or not all(isinstance(v, str) for v in config.values()):
        raise NodeFormatError(path, f"node {path} holds no configs")
    return config


def encode_config_change(entity_path: str) -> bytes:
    """The data of `/config/changes/config_change_…`, version 2; `entity_path` such as `topics/clicks`."""
    return dump({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes | None) -> str:
    """Read `/config/changes/config_change_…`, versions 1 and 2, as an entity path.

    Raises:
        NodeFormatError: the data is no notice of a config change.
    """
    value = load(path, data)
    try:
        # What Kafka's `ZkConfigManager` calls version 1 knows topics and clients alone.
        if int(value["version"]) == 1:
            return f"{value['entity_type']}/{value['entity_name']}"
        entity_path = value["entity_path"]
        if not isinstance(entity_path, str) or "/" not in entity_path:
            raise ValueError(entity_path)
        return entity_path
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} is no notice of a config change: {error!r}") from error


# --- /isr_change_notification ------------------------------------------------------------------------------


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """The data of `/isr_change_notification/isr_change_…`: topics and partitions with another ISR."""
    named = [{"topic": topic, "partition": index} for topic, index in partitions]
    return dump({"version": 1, "partitions": named})


def decode_isr_change(path: str, data: bytes | None) -> list[TopicPartition]:
    """Read `/isr_change_notification/isr_change_…` as topics and partitions.

    Raises:
        NodeFormatError: the data is no notice of changed ISRs.
    """
    value = load(path, data)
    try:
        return [(str(x["topic"]), int(x["partition"])) for x in value["partitions"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} is no notice of changed ISRs: {error!r}") from error


# --- /admin, and notices ----------------------------------------------------------------------------------


def encode_reassignments(moves: Sequence[tuple[str, int, tuple[int, ...]]]) -> bytes:
    """The data of `/admin/reassign_partitions`: topics, partitions and their wanted replicas."""
    partitions = [{"topic": t, "partition": p, "replicas": list(replicas)} for t, p, replicas in moves]
    return dump({"version": 1, "partitions": partitions})


def decode_reassignments(path: str, data: bytes | None) -> list[tuple[str, int, tuple[int, ...]]]:
    """Read `/admin/reassign_partitions`.

    Raises:
        NodeFormatError: the data holds no reassignments.
    """
    value = load(path, data)
    try:
        return [(str(x["topic"]), int(x["partition"]), _ids(x["replicas"])) for x in value["partitions"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} holds no reassignments: {error!r}") from error


def decode_elections(path: str, data: bytes | None) -> list[TopicPartition]:
    """Read `/admin/preferred_replica_election` as topics and partitions.

    Raises:
        NodeFormatError: it names no partitions.
    """
    value = load(path, data)
    try:
        return [(str(x["topic"]), int(x["partition"])) for x in value["partitions"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} names no partitions: {error!r}") from error


def encode_log_dir_event(broker_id: int) -> bytes:
    """The data of `/log_dir_event_notification/log_dir_event_…`: a folder of this broker has failed."""
    # Kafka: `LogDirEventNotificationSequenceZNode.LogDirFailureEvent`, the only event that there is.
    return dump({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker of `/log_dir_event_notification/log_dir_event_…`.

    Raises:
        NodeFormatError: it names none.
    """
    value = load(path, data)
    try:
        return int(value["broker"])
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} names no broker: {error!r}") from error
