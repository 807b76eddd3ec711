"""The controller's requests to brokers, LeaderAndIsr, UpdateMetadata and StopReplica, made of image changes.

A builder remembers the image that brokers have been told. Each change becomes, per live broker, the requests
that tell it the difference, in Kafka's order: who lives (when somebody has come, because a follower follows
only leaders that it knows to be alive), LeaderAndIsr, UpdateMetadata, StopReplica. A broker that has come, or
come back with another epoch, is told everything, and of all topics first: what it holds may take long to be
taken up, and its clients are not to believe meanwhile that there are no topics (`onBrokerStartup`).

- Only a change of the leader epoch or of the replicas is told by LeaderAndIsr; a leader that changed its ISR
  knows it by the answer to AlterPartition.
- Partitions of marked topics have leader -2, and are stopped and deleted wherever a replica is.

The form of each is `control_request_forms`'s. Kafka: `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.cluster.controller.control_request_forms import (
    ControlRequest,
    ControlRequestForms,
    Led,
    Stop,
    Updated,
    updated,
)
from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import LEADER_DURING_DELETION

EPOCH_DURING_DELETION = -2
"""The leader epoch in StopReplica of a topic that is being deleted: to be accepted always."""

Replica = tuple[int, str, int]
"""Broker, topic, partition."""


class _Change(NamedTuple):
    topic: TopicImage
    number: int
    before: PartitionImage | None
    after: PartitionImage


class ControlRequests:
    """Makes the requests of one controller's time as the active one.

    Args:
        ibp: `inter.broker.protocol.version`, which gives the versions of the requests.
        listener: the name of the listener over which brokers reach each other.
        controller_id: this broker's id.
    """

    def __init__(self, ibp: str, listener: str, controller_id: int) -> None:
        self._forms = ControlRequestForms(ibp, listener, controller_id)
        self._told = ClusterImage()
        """The image that the live brokers have been told, or will be by requests in their queues."""
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
        newcomers = {b for b, broker in image.brokers.items() if _epoch(before, b) != broker.epoch}
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
        live = self._forms.live_brokers(image)
        for broker in image.brokers:
            requests: list[ControlRequest] = []
            if broker in newcomers and not is_takeover:
                requests += self._forms.update_metadata(image, broker, full, live)
            elif newcomers:
                requests += self._forms.update_metadata(image, broker, [], live)
            if broker in newcomers:
                led = _all_led(image, broker)
                stops = _deletions(image, image.marked, broker)
                # Of a new controller most brokers know who leads, and those who are to lead hear it first.
                updates_due = full if is_takeover else []
            else:
                led = _led_by_change(image, changes, broker)
                stops = _deletions(image, fresh_marks, broker)
                stops += _stops(image, changes, broker, broker in shutting_down)
                updates_due = updates
            requests += self._forms.leader_and_isr(image, broker, led)
            if updates_due or (brokers_changed and not newcomers):
                requests += self._forms.update_metadata(image, broker, updates_due, live)
            requests += self._forms.stop_replica(image, broker, stops)
            if requests:
                out[broker] = requests
        return out

    def resend(self, image: ClusterImage, broker: int) -> Requests:
        """LeaderAndIsr for all of a broker's partitions: its answer says which it cannot use (KIP-112)."""
        if broker not in image.brokers:
            return {}
        requests = self._forms.leader_and_isr(image, broker, _all_led(image, broker))
        return {broker: requests} if requests else {}

    # --- what there is to say -----------------------------------------------------------------------------

    def _updates(
        self,
        image: ClusterImage,
        changes: list[_Change],
        marked: Collection[str],
        moved: set[int],
        touched: Collection[Replica],
    ) -> list[Updated]:
        keys = {(change.topic.name, change.number) for change in changes}
        keys |= {(topic, index) for _, topic, index in touched}
        for name in marked:
            keys |= {(name, index) for index in image.topics[name].partitions}
        if moved:
            # Who is offline has changed for all of their partitions.
            keys |= {
                (topic.name, index)
                for topic in image.topics.values()
                for index, partition in topic.partitions.items()
                if not moved.isdisjoint(partition.replicas)
            }
        candidates = ((image.topics.get(name), index) for name, index in sorted(keys))
        updates = (self._update(image, topic, index) for topic, index in candidates if topic is not None)
        return [update for update in updates if update is not None]

    def _all_updates(self, image: ClusterImage) -> list[Updated]:
        updates = (
            self._update(image, topic, index) for topic in image.topics.values() for index in topic.partitions
        )
        return [update for update in updates if update is not None]

    def _update(self, image: ClusterImage, topic: TopicImage, index: int) -> Updated | None:
        partition = topic.partitions.get(index)
        if partition is None or (partition.is_new and topic.name not in image.marked):
            return None
        offline = [
            broker
            for broker in partition.replicas
            if broker not in image.brokers or (broker, topic.name, index) in self._offline
        ]
        leader = LEADER_DURING_DELETION if topic.name in image.marked else partition.leader
        return updated(topic, index, partition, leader, offline)


Requests = dict[int, list[ControlRequest]]
"""By broker id, its requests in order."""


def _epoch(image: ClusterImage, broker: int) -> int | None:
    registered = image.brokers.get(broker)
    return None if registered is None else registered.epoch


def _changes(before: ClusterImage, after: ClusterImage) -> Iterator[_Change]:
    if before.topics is after.topics:
        return
    for name, topic in after.topics.items():
        old = before.topics.get(name)
        if old is topic:
            continue
        # A topic made anew under its name has other partitions.
        old_partitions: Mapping[int, PartitionImage] = (
            {} if old is None or old.topic_id != topic.topic_id else old.partitions
        )
        for index, partition in topic.partitions.items():
            if old_partitions.get(index) != partition:
                yield _Change(topic, index, old_partitions.get(index), partition)


def _updates_of_gone(before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> list[Updated]:
    """Of topics that have gone without a mark that brokers were told of."""
    return [
        updated(topic, index, partition, LEADER_DURING_DELETION, ())
        for name, topic in delta.topics_gone.items()
        if name not in before.marked and name not in image.topics
        for index, partition in topic.partitions.items()
    ]


def _all_led(image: ClusterImage, broker: int) -> list[Led]:
    """All partitions of a broker, for one that knows none, or is to say which it cannot use."""
    return [
        Led(topic, index, partition, False)
        for topic, index, partition in image.partitions_of(broker)
        if topic.name not in image.marked and not partition.is_new
    ]


def _led_by_change(image: ClusterImage, changes: Iterable[_Change], broker: int) -> list[Led]:
    led: list[Led] = []
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
            led.append(Led(topic, index, after, before is None or fresh or broker not in before.replicas))
    return led


def _deletions(image: ClusterImage, names: Iterable[str], broker: int) -> list[Stop]:
    return [
        Stop(name, index, EPOCH_DURING_DELETION, True)
        for name in sorted(names)
        for index, partition in image.topics[name].partitions.items()
        if broker in partition.replicas
    ]


def _stops(image: ClusterImage, changes: Iterable[_Change], broker: int, leaving: bool) -> list[Stop]:
    stops: list[Stop] = []
    for topic, index, before, after in changes:
        if before is None or broker not in before.replicas or topic.name in image.marked:
            continue
        if broker not in after.replicas:
            stops.append(Stop(topic.name, index, after.leader_epoch, True))
        elif leaving and broker in before.isr and broker not in after.isr and before.leader != broker:
            stops.append(Stop(topic.name, index, after.leader_epoch, False))
    return stops
