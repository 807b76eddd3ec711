"""The controller's requests to brokers, LeaderAndIsr, UpdateMetadata and StopReplica, made of image changes.

A builder remembers the image that brokers have been told. Each change becomes, per live broker, the requests
that tell it the difference, in Kafka's order: who lives (when somebody has come, because a follower follows
only leaders that it knows to be alive), LeaderAndIsr, UpdateMetadata, StopReplica. A broker that has come, or
come back with another epoch, is told everything, and of all topics first: what it holds may take long to be
taken up, and its clients are not to believe meanwhile that there are no topics (`onBrokerStartup`).

- Only a change of the leader epoch or of the replicas is told by LeaderAndIsr; a leader that changed its ISR
  knows it by the answer to AlterPartition.
- Partitions of marked topics have leader -2, and are stopped and deleted wherever a replica is.
- The type of LeaderAndIsr is always 0: only KRaft's controllers call a request full or incremental.

Kafka: `AbstractControllerBrokerRequestBatch`; the versions are `inter_broker_versions`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.inter_broker_versions import request_version
from odradek.cluster.nodes import LEADER_DURING_DELETION
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

EPOCH_DURING_DELETION = -2
"""The leader epoch in StopReplica of a topic that is being deleted: to be accepted always."""

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The numbers of Kafka's `SecurityProtocol`."""

Replica = tuple[int, str, int]
"""Broker, topic, partition."""


class ControlRequest(NamedTuple):
    """A request to one broker: the message, the version to send it in, and the broker's epoch in it."""

    message: Any
    version: int
    broker_epoch: int


class _Change(NamedTuple):
    topic: TopicImage
    number: int
    before: PartitionImage | None
    after: PartitionImage


class _Led(NamedTuple):
    topic: TopicImage
    number: int
    partition: PartitionImage
    is_new: bool


class _Stop(NamedTuple):
    topic: str
    number: int
    leader_epoch: int
    delete: bool


class ControlRequests:
    """Makes the requests of one controller's time as the active one.

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
        self._told = ClusterImage()
        self._offline: frozenset[Replica] = frozenset()

    def everything(self, image: ClusterImage, offline: Collection[Replica] = ()) -> Requests:
        """The requests of a controller that has just taken over: all brokers are told everything.

        Args:
            image: all that there is.
            offline: replicas that live brokers cannot use.
        """
        self._told = image._replace(brokers={}, topics={}, marked=frozenset())
        return self.changes(image, ClusterDelta(), offline)

    def changes(
        self,
        image: ClusterImage,
        delta: ClusterDelta,
        offline: Collection[Replica] = (),
        shutting_down: Collection[int] = (),
    ) -> Requests:
        """The requests that tell the brokers what is different in `image`.

        Args:
            image: the new image.
            delta: topics that are gone are found in it; everything else by comparing the images.
            offline: replicas that live brokers cannot use.
            shutting_down: live brokers that are about to leave; they stop what they only follow.

        Returns:
            By broker id, its requests in order; only live brokers are in it.
        """
        before, self._told = self._told, image
        offline_before, self._offline = self._offline, frozenset(offline)
        newcomers = {b for b, one in image.brokers.items() if _epoch(before, b) != one.epoch}
        gone = before.brokers.keys() - image.brokers.keys()
        changes = list(_changes(before, image))
        fresh_marks = image.marked - before.marked
        moved = newcomers | gone
        touched = self._offline ^ offline_before
        updates = self._updates(image, changes, fresh_marks, moved, touched)
        updates += _updates_of_gone(before, image, delta)
        brokers_changed = before.brokers != image.brokers
        is_takeover = not before.brokers
        full = self._all_updates(image) if newcomers else []
        out: Requests = {}
        live = self._live_brokers(image)
        for broker in image.brokers:
            requests: list[ControlRequest] = []
            if broker in newcomers and not is_takeover:
                requests += self._update_metadata(image, broker, full, live)
            elif newcomers:
                requests += self._update_metadata(image, broker, [], live)
            if broker in newcomers:
                led = _all_led(image, broker)
                stops = _deletions(image, image.marked, broker)
                # Of a new controller most brokers know who leads, and those who are to lead hear it first.
                told = full if is_takeover else []
            else:
                led = _led_by_change(image, changes, broker)
                stops = _deletions(image, fresh_marks, broker)
                stops += _stops(image, changes, broker, broker in shutting_down)
                told = updates
            requests += self._leader_and_isr(image, broker, led)
            if told or (brokers_changed and not newcomers):
                requests += self._update_metadata(image, broker, told, live)
            requests += self._stop_replica(image, broker, stops)
            if requests:
                out[broker] = requests
        return out

    def resend(self, image: ClusterImage, broker: int) -> Requests:
        """LeaderAndIsr for all of a broker's partitions: its answer says which it cannot use (KIP-112)."""
        if broker not in image.brokers:
            return {}
        requests = self._leader_and_isr(image, broker, _all_led(image, broker))
        return {broker: requests} if requests else {}

    # --- what there is to say -----------------------------------------------------------------------------

    def _updates(
        self,
        image: ClusterImage,
        changes: list[_Change],
        marked: Collection[str],
        moved: set[int],
        touched: Collection[Replica],
    ) -> list[_Updated]:
        wanted = {(one.topic.name, one.number) for one in changes}
        wanted |= {(topic, index) for _, topic, index in touched}
        for name in marked:
            wanted |= {(name, index) for index in image.topics[name].partitions}
        if moved:
            # Who is offline has changed for all of their partitions.
            wanted |= {
                (topic.name, index)
                for topic in image.topics.values()
                for index, partition in topic.partitions.items()
                if not moved.isdisjoint(partition.replicas)
            }
        found = ((image.topics.get(name), index) for name, index in sorted(wanted))
        updates = (self._update(image, topic, index) for topic, index in found if topic is not None)
        return [one for one in updates if one is not None]

    def _all_updates(self, image: ClusterImage) -> list[_Updated]:
        updates = (
            self._update(image, topic, index) for topic in image.topics.values() for index in topic.partitions
        )
        return [one for one in updates if one is not None]

    def _update(self, image: ClusterImage, topic: TopicImage, index: int) -> _Updated | None:
        partition = topic.partitions.get(index)
        if partition is None or (partition.is_new and topic.name not in image.marked):
            return None
        offline = [
            broker
            for broker in partition.replicas
            if broker not in image.brokers or (broker, topic.name, index) in self._offline
        ]
        leader = LEADER_DURING_DELETION if topic.name in image.marked else partition.leader
        return _updated(topic, index, partition, leader, offline)

    # --- messages -----------------------------------------------------------------------------------------

    def _leader_and_isr(self, image: ClusterImage, broker: int, led: list[_Led]) -> list[ControlRequest]:
        version = self._leader_version
        requests: list[ControlRequest] = []
        for part in _parts(led):
            message = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=image.controller_epoch,
                live_leaders=self._live_leaders(image, {one.partition.leader for one in part}),
            )
            if version >= 2:
                message.broker_epoch = image.brokers[broker].epoch
                topics: dict[str, LeaderAndIsrTopicState] = {}
                for one in part:
                    name = one.topic.name
                    if name not in topics:
                        topics[name] = LeaderAndIsrTopicState(topic_name=name)
                        if version >= 5:
                            topics[name].topic_id = one.topic.topic_id
                    topics[name].partition_states.append(_leader_state(one, version))
                message.topic_states = list(topics.values())
            else:
                message.ungrouped_partition_states = [_leader_state(one, version) for one in part]
            requests.append(ControlRequest(message, version, image.brokers[broker].epoch))
        return requests

    def _live_leaders(self, image: ClusterImage, leaders: Iterable[int]) -> list[LeaderAndIsrLiveLeader]:
        live: list[LeaderAndIsrLiveLeader] = []
        for leader in sorted(leaders):
            broker = image.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoint(self._listener)
            if endpoint is not None:
                live.append(
                    LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                )
        return live

    def _live_brokers(self, image: ClusterImage) -> list[UpdateMetadataBroker]:
        return [_live_broker(broker, self._update_version) for broker in image.brokers.values()]

    def _update_metadata(
        self, image: ClusterImage, broker: int, updates: list[_Updated], live: list[UpdateMetadataBroker]
    ) -> list[ControlRequest]:
        version = self._update_version
        requests: list[ControlRequest] = []
        for part in _parts(updates) or [[]]:
            message = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=image.controller_epoch,
                live_brokers=live,
            )
            if version >= 5:
                message.broker_epoch = image.brokers[broker].epoch
                topics: dict[tuple[str, bytes], UpdateMetadataTopicState] = {}
                for one in part:
                    key = (one.topic, one.topic_id)
                    if key not in topics:
                        topics[key] = UpdateMetadataTopicState(topic_name=one.topic)
                        if version >= 7:
                            topics[key].topic_id = one.topic_id
                    topics[key].partition_states.append(one.state)
                message.topic_states = list(topics.values())
            else:
                message.ungrouped_partition_states = [one.state for one in part]
            requests.append(ControlRequest(message, version, image.brokers[broker].epoch))
        return requests

    def _stop_replica(self, image: ClusterImage, broker: int, stops: list[_Stop]) -> list[ControlRequest]:
        if self._stop_version >= 3:
            groups = [stops]
        else:
            groups = [[one for one in stops if one.delete is delete] for delete in (False, True)]
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


Requests = dict[int, list[ControlRequest]]
"""By broker id, its requests in order."""


class _Updated(NamedTuple):
    topic: str
    topic_id: bytes
    state: UpdateMetadataPartitionState


def _epoch(image: ClusterImage, broker: int) -> int | None:
    found = image.brokers.get(broker)
    return None if found is None else found.epoch


def _changes(before: ClusterImage, after: ClusterImage) -> Iterator[_Change]:
    if before.topics is after.topics:
        return
    for name, topic in after.topics.items():
        old = before.topics.get(name)
        if old is topic:
            continue
        # A topic made anew under its name has other partitions.
        known: Mapping[int, PartitionImage] = (
            {} if old is None or old.topic_id != topic.topic_id else old.partitions
        )
        for index, partition in topic.partitions.items():
            if known.get(index) != partition:
                yield _Change(topic, index, known.get(index), partition)


def _updates_of_gone(before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> list[_Updated]:
    """Of topics that have gone without a mark that brokers were told of."""
    return [
        _updated(topic, index, partition, LEADER_DURING_DELETION, ())
        for name, topic in delta.topics_gone.items()
        if name not in before.marked and name not in image.topics
        for index, partition in topic.partitions.items()
    ]


def _all_led(image: ClusterImage, broker: int) -> list[_Led]:
    """All partitions of a broker, for one that knows none, or is to say which it cannot use."""
    return [
        _Led(topic, index, partition, False)
        for topic, index, partition in image.partitions_of(broker)
        if topic.name not in image.marked and not partition.is_new
    ]


def _led_by_change(image: ClusterImage, changes: Iterable[_Change], broker: int) -> list[_Led]:
    led: list[_Led] = []
    for topic, index, before, after in changes:
        if broker not in after.replicas or after.is_new or topic.name in image.marked:
            continue
        fresh = before is None or before.is_new
        if (
            before is None
            or fresh
            or before.leader_epoch != after.leader_epoch
            or before.assignment != after.assignment
        ):
            led.append(_Led(topic, index, after, before is None or fresh or broker not in before.replicas))
    return led


def _deletions(image: ClusterImage, names: Iterable[str], broker: int) -> list[_Stop]:
    return [
        _Stop(name, index, EPOCH_DURING_DELETION, True)
        for name in sorted(names)
        for index, partition in image.topics[name].partitions.items()
        if broker in partition.replicas
    ]


def _stops(image: ClusterImage, changes: Iterable[_Change], broker: int, leaving: bool) -> list[_Stop]:
    stops: list[_Stop] = []
    for topic, index, before, after in changes:
        if before is None or broker not in before.replicas or topic.name in image.marked:
            continue
        if broker not in after.replicas:
            stops.append(_Stop(topic.name, index, after.leader_epoch, True))
        elif leaving and broker in before.isr and broker not in after.isr and before.leader != broker:
            stops.append(_Stop(topic.name, index, after.leader_epoch, False))
    return stops


def _parts(items: list[Any]) -> list[list[Any]]:
    size = MAX_PARTITIONS_PER_REQUEST
    return [items[start : start + size] for start in range(0, len(items), size)]


def _leader_state(one: _Led, version: int) -> LeaderAndIsrPartitionState:
    partition = one.partition
    state = LeaderAndIsrPartitionState(
        partition_index=one.number,
        controller_epoch=partition.controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
    )
    if version < 2:
        state.topic_name = one.topic.name
    if version >= 1:
        state.is_new = one.is_new
    if version >= 3:
        state.adding_replicas = list(partition.adding)
        state.removing_replicas = list(partition.removing)
    if version >= 6:
        state.leader_recovery_state = partition.leader_recovery_state
    return state


def _updated(
    topic: TopicImage, index: int, partition: PartitionImage, leader: int, offline: Iterable[int]
) -> _Updated:
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
    return _Updated(topic.name, topic.topic_id, state)


def _live_broker(broker: BrokerImage, version: int) -> UpdateMetadataBroker:
    endpoints = broker.registration.endpoints
    if version == 0:
        plain = next((one for one in endpoints if one.security_protocol == "PLAINTEXT"), None)
        host, port = ("", -1) if plain is None else (plain.host, plain.port)
        return UpdateMetadataBroker(id=broker.broker_id, v0_host=host, v0_port=port)
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=one.port,
                host=one.host,
                listener=one.listener,
                security_protocol=SECURITY_PROTOCOL_IDS[one.security_protocol],
            )
            for one in endpoints
        ],
        rack=broker.rack,
    )


def _stop_message(part: list[_Stop], version: int) -> StopReplicaRequest:
    message = StopReplicaRequest()
    if version >= 3:
        states: dict[str, StopReplicaTopicState] = {}
        for one in part:
            topic = states.setdefault(one.topic, StopReplicaTopicState(topic_name=one.topic))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=one.number,
                    leader_epoch=one.leader_epoch,
                    delete_partition=one.delete,
                )
            )
        message.topic_states = list(states.values())
        return message
    message.delete_partitions = part[0].delete
    if version >= 1:
        topics: dict[str, StopReplicaTopicV1] = {}
        for one in part:
            topics.setdefault(one.topic, StopReplicaTopicV1(name=one.topic)).partition_indexes.append(
                one.number
            )
        message.topics = list(topics.values())
    else:
        message.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name=one.topic, partition_index=one.number) for one in part
        ]
    return message


def deleted_by(request: StopReplicaRequest, version: int) -> set[tuple[str, int]]:
    """The partitions that a StopReplica asks to have deleted."""
    if version >= 3:
        return {
            (topic.topic_name, one.partition_index)
            for topic in request.topic_states
            for one in topic.partition_states
            if one.delete_partition
        }
    if not request.delete_partitions:
        return set()
    if version >= 1:
        return {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    return {(one.topic_name, one.partition_index) for one in request.ungrouped_partitions}
