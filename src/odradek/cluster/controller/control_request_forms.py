"""The forms of the controller's requests: LeaderAndIsr, UpdateMetadata, StopReplica in each version.

A version leaves out what it does not know yet, and groups partitions by topic or does not. The type of
LeaderAndIsr is always 0: only KRaft's controllers call a request full or incremental. What is said to whom is
`control_requests`'s.

Kafka: `LeaderAndIsrRequest.Builder`, `UpdateMetadataRequest.Builder`, `StopReplicaRequest.Builder`; the
versions are `inter_broker_versions`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from odradek.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.inter_broker_versions import request_version
from odradek.cluster.nodes import LEADER_DURING_DELETION
from odradek.util.topic_partition import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

MAX_PARTITIONS_PER_REQUEST = 5_000
"""A request that would have more is split."""

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The numbers of Kafka's `SecurityProtocol`."""


class ControlRequest(NamedTuple):
    """A request to one broker: the message, the version to send it in, and the broker's epoch in it."""

    message: Any
    version: int
    broker_epoch: int


class Led(NamedTuple):
    """A partition that a broker leads or follows from now on."""

    topic: TopicImage
    number: int
    partition: PartitionImage
    is_new: bool


class Stop(NamedTuple):
    """A replica that a broker stops, or deletes as well."""

    topic: str
    number: int
    leader_epoch: int
    delete: bool


class Updated(NamedTuple):
    """A partition's state, for brokers' metadata."""

    topic: str
    topic_id: bytes
    state: UpdateMetadataPartitionState


class ControlRequestForms:
    """Puts what is to be said into requests.

    Args:
        ibp: `inter.broker.protocol.version`, which gives the versions of the requests.
        listener: the name of the listener over which brokers reach each other.
        controller_id: this broker's id.
    """

    def __init__(self, ibp: str, listener: str, controller_id: int) -> None:
        self._listener = listener
        self._controller_id = controller_id
        self._leader_version = request_version(ApiKey.LEADER_AND_ISR, ibp)
        self._update_version = request_version(ApiKey.UPDATE_METADATA, ibp)
        self._stop_version = request_version(ApiKey.STOP_REPLICA, ibp)

    def leader_and_isr(self, image: ClusterImage, broker: int, all_led: list[Led]) -> list[ControlRequest]:
        """Make the requests by which a broker leads or follows these partitions."""
        version = self._leader_version
        requests: list[ControlRequest] = []
        for part in _parts(all_led):
            message = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=image.controller_epoch,
                live_leaders=self._live_leaders(image, {led.partition.leader for led in part}),
            )
            # A broker refuses what was meant for its life before (KIP-380).
            if version >= 2:
                message.broker_epoch = image.brokers[broker].epoch
                topics: dict[str, LeaderAndIsrTopicState] = {}
                for led in part:
                    name = led.topic.name
                    if name not in topics:
                        topics[name] = LeaderAndIsrTopicState(topic_name=name)
                        if version >= 5:  # KIP-516
                            topics[name].topic_id = led.topic.topic_id
                    topics[name].partition_states.append(_leader_state(led, version))
                message.topic_states = list(topics.values())
            else:
                message.ungrouped_partition_states = [_leader_state(led, version) for led in part]
            requests.append(ControlRequest(message, version, image.brokers[broker].epoch))
        return requests

    def _live_leaders(self, image: ClusterImage, leaders: Iterable[int]) -> list[LeaderAndIsrLiveLeader]:
        # A follower has the address of its leader from here: its metadata may be older than this request.
        live: list[LeaderAndIsrLiveLeader] = []
        for leader in sorted(leaders):
            broker = image.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoint(self._listener)
            if endpoint is not None:
                live.append(
                    LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                )
        return live

    def live_brokers(self, image: ClusterImage) -> list[UpdateMetadataBroker]:
        """Return the brokers of the image, as all `update_metadata` share them."""
        return [_live_broker(broker, self._update_version) for broker in image.brokers.values()]

    def update_metadata(
        self, image: ClusterImage, broker: int, updates: list[Updated], live: list[UpdateMetadataBroker]
    ) -> list[ControlRequest]:
        """Tell a broker who lives, and the states of partitions."""
        version = self._update_version
        requests: list[ControlRequest] = []
        # Without partitions it is still told who lives.
        for part in _parts(updates) or [[]]:
            message = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=image.controller_epoch,
                live_brokers=live,
            )
            if version >= 5:
                message.broker_epoch = image.brokers[broker].epoch
                # By id as well: a topic that is gone may stand beside the next one of its name.
                topics: dict[tuple[str, bytes], UpdateMetadataTopicState] = {}
                for update in part:
                    key = (update.topic, update.topic_id)
                    if key not in topics:
                        topics[key] = UpdateMetadataTopicState(topic_name=update.topic)
                        if version >= 7:
                            topics[key].topic_id = update.topic_id
                    topics[key].partition_states.append(update.state)
                message.topic_states = list(topics.values())
            else:
                message.ungrouped_partition_states = [update.state for update in part]
            requests.append(ControlRequest(message, version, image.brokers[broker].epoch))
        return requests

    def stop_replica(self, image: ClusterImage, broker: int, stops: list[Stop]) -> list[ControlRequest]:
        """Make the requests by which a broker stops these replicas."""
        if self._stop_version >= 3:
            groups = [stops]
        else:
            # Until version 3 (KIP-570) a request deletes all of its replicas or none.
            groups = [[stop for stop in stops if stop.delete is delete] for delete in (False, True)]
        epoch = image.brokers[broker].epoch
        requests: list[ControlRequest] = []
        for part in (part for group in groups for part in _parts(group)):
            message = _stop_message(part, self._stop_version)
            message.controller_id = self._controller_id
            message.controller_epoch = image.controller_epoch
            if self._stop_version >= 1:
                message.broker_epoch = epoch
            requests.append(ControlRequest(message, self._stop_version, epoch))
        return requests


def _parts(items: list[Any]) -> list[list[Any]]:
    size = MAX_PARTITIONS_PER_REQUEST
    return [items[start : start + size] for start in range(0, len(items), size)]


def _leader_state(led: Led, version: int) -> LeaderAndIsrPartitionState:
    partition = led.partition
    state = LeaderAndIsrPartitionState(
        partition_index=led.number,
        controller_epoch=partition.controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
    )
    if version < 2:
        state.topic_name = led.topic.name
    if version >= 1:
        # A new replica may be made although a data folder is offline, which cannot have it (KIP-112).
        state.is_new = led.is_new
    if version >= 3:  # KIP-455
        state.adding_replicas = list(partition.adding)
        state.removing_replicas = list(partition.removing)
    if version >= 6:  # KIP-704
        state.leader_recovery_state = partition.leader_recovery_state
    return state


def updated(
    topic: TopicImage, index: int, partition: PartitionImage, leader: int, offline: Iterable[int]
) -> Updated:
    """Return what brokers are told of a partition: its leader, or that it is being deleted."""
    # Kafka's `LeaderAndIsr.duringDelete` has epochs of 0, too: brokers forget the partition in any case.
    deleting = leader == LEADER_DURING_DELETION
    state = UpdateMetadataPartitionState(
        topic_name=topic.name,
        partition_index=index,
        controller_epoch=partition.controller_epoch,
        leader=leader,
        leader_epoch=0 if deleting else partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=0 if deleting else partition.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=list(offline),
    )
    return Updated(topic.name, topic.topic_id, state)


def _live_broker(broker: BrokerImage, version: int) -> UpdateMetadataBroker:
    endpoints = broker.registration.endpoints
    # Version 0 knows one address for each broker, and only that of a plain listener.
    if version == 0:
        plain = next((endpoint for endpoint in endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
        host, port = ("", -1) if plain is None else (plain.host, plain.port)
        return UpdateMetadataBroker(id=broker.broker_id, v0_host=host, v0_port=port)
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in endpoints
        ],
        rack=broker.rack,
    )


def _stop_message(part: list[Stop], version: int) -> StopReplicaRequest:
    message = StopReplicaRequest()
    if version >= 3:
        states: dict[str, StopReplicaTopicState] = {}
        for stop in part:
            topic = states.setdefault(stop.topic, StopReplicaTopicState(topic_name=stop.topic))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=stop.number,
                    leader_epoch=stop.leader_epoch,
                    delete_partition=stop.delete,
                )
            )
        message.topic_states = list(states.values())
        return message
    message.delete_partitions = part[0].delete
    if version >= 1:
        topics: dict[str, StopReplicaTopicV1] = {}
        for stop in part:
            topics.setdefault(stop.topic, StopReplicaTopicV1(name=stop.topic)).partition_indexes.append(
                stop.number
            )
        message.topics = list(topics.values())
    else:
        message.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name=stop.topic, partition_index=stop.number) for stop in part
        ]
    return message


def deleted_by(request: StopReplicaRequest, version: int) -> set[TopicPartition]:
    """The partitions that a StopReplica asks to have deleted."""
    if version >= 3:
        return {
            (topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
            if state.delete_partition
        }
    if not request.delete_partitions:
        return set()
    if version >= 1:
        return {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    return {(stopped.topic_name, stopped.partition_index) for stopped in request.ungrouped_partitions}
