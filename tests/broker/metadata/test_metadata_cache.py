"""The image that UpdateMetadata makes, at every version of it."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.metadata.metadata_cache import FULL, MetadataCache
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ID, ANOTHER_ID, NO_ID = bytes(15) + b"\x01", bytes(15) + b"\x02", bytes(16)
DELETED = -2


class World:
    """A cache, and what its listener was told."""

    def __init__(self) -> None:
        self.cache = MetadataCache("a cluster", {"topics/t": {"retention.ms": "5"}})
        self.told: list[ClusterDelta] = []
        self.cache.add_listener(self.listen)

    def listen(self, image: ClusterImage, delta: ClusterDelta) -> None:
        assert image is self.cache.image
        self.told.append(delta)

    def update(
        self,
        *topics: UpdateMetadataTopicState,
        version: int = 8,
        brokers: tuple[int, ...] = (1, 2),
        **fields: Any,
    ) -> None:
        request = UpdateMetadataRequest(
            controller_id=1, controller_epoch=7, live_brokers=[broker(one, version) for one in brokers]
        )
        for name, value in fields.items():
            setattr(request, name, value)
        if version >= 5:
            request.topic_states = list(topics)
        else:
            request.ungrouped_partition_states = [one for topic in topics for one in topic.partition_states]
        self.cache.update(request, version)

    def leaders(self, name: str = "t") -> dict[int, int] | None:
        topic = self.cache.image.topic(name)
        return None if topic is None else {i: one.leader for i, one in topic.partitions.items()}


def broker(number: int, version: int = 8, port: int = 9092) -> UpdateMetadataBroker:
    if version == 0:
        return UpdateMetadataBroker(id=number, v0_host=f"host-{number}", v0_port=port)
    endpoint = UpdateMetadataEndpoint(
        port=port, host=f"host-{number}", listener="INSIDE" if version >= 3 else "", security_protocol=0
    )
    if version < 2:
        return UpdateMetadataBroker(id=number, endpoints=[endpoint])
    return UpdateMetadataBroker(id=number, endpoints=[endpoint], rack="r")


def topic(
    *leaders: tuple[int, int], name: str = "t", topic_id: bytes = ID, **fields: Any
) -> UpdateMetadataTopicState:
    """A topic of these partitions, each with its leader."""
    states = [
        UpdateMetadataPartitionState(
            topic_name=name,
            partition_index=index,
            leader=leader,
            **{"leader_epoch": 3, "isr": [1], "replicas": [1, 2], "zk_version": 4, **fields},
        )
        for index, leader in leaders
    ]
    return UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)


@pytest.mark.parametrize("version", range(9))
def test_brokers_and_partitions_at_every_version(version: int) -> None:
    world = World()
    world.update(topic((0, 1), (1, 2), topic_id=ID if version >= 7 else NO_ID), version=version)
    image = world.cache.image
    assert (image.cluster_id, image.controller_id, image.controller_epoch) == ("a cluster", 1, 7)
    found = image.brokers[2].registration
    name = "INSIDE" if version >= 3 else "PLAINTEXT"
    assert [(one.listener, one.host, one.port) for one in found.endpoints] == [(name, "host-2", 9092)]
    assert found.rack == ("r" if version >= 2 else None)
    assert world.leaders() == {0: 1, 1: 2}
    assert image.topics["t"].topic_id == (ID if version >= 7 else NO_ID)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch) == (3, 4)
    assert (partition.isr, partition.replicas) == ((1,), (1, 2))
    assert image.topic_config("t") == {"retention.ms": "5"}


@pytest.mark.parametrize("version", range(9))
def test_what_is_not_named_stays_and_what_is_led_by_nobody_goes(version: int) -> None:
    topic_id = ID if version >= 7 else NO_ID
    world = World()
    world.update(topic((0, 1), (1, 2), topic_id=topic_id), version=version)
    world.update(topic((1, 1), topic_id=topic_id), version=version)
    assert world.leaders() == {0: 1, 1: 1}
    world.update(topic((0, DELETED), topic_id=topic_id), version=version)
    assert world.leaders() == {1: 1}
    before = world.cache.image
    world.update(topic((1, DELETED), topic_id=topic_id), version=version)
    assert world.leaders() is None
    assert list(world.told[-1].topics_gone) == ["t"]
    assert before.topics["t"].partitions  # an image that somebody holds stands still
    world.update(topic((5, DELETED), name="never", topic_id=topic_id), version=version)
    assert world.cache.image.topic("never") is None


def test_only_a_full_request_takes_away_what_it_does_not_name() -> None:
    world = World()
    world.update(topic((0, 1)), topic((0, 1), name="u", topic_id=ANOTHER_ID))
    world.update(topic((0, 2)))
    assert world.leaders("u") == {0: 1}
    world.update(topic((0, 2)), type=FULL)
    assert world.leaders("u") is None and world.leaders() == {0: 2}
    assert list(world.told[-1].topics_gone) == ["u"]


def test_a_topic_made_anew_has_none_of_the_partitions_before() -> None:
    world = World()
    world.update(topic((0, 1), (1, 2), (2, 1)))
    world.update(topic((0, 2), topic_id=ANOTHER_ID))
    assert world.leaders() == {0: 2}
    assert world.cache.image.topics["t"].topic_id == ANOTHER_ID


def test_the_end_of_a_topic_before_is_not_the_end_of_the_one_of_the_same_name() -> None:
    world = World()
    world.update(topic((0, 2), topic_id=ANOTHER_ID))
    world.update(topic((0, DELETED), (1, DELETED)))
    assert world.leaders() == {0: 2}


@pytest.mark.parametrize("topic_ids", [(ID, ANOTHER_ID), (NO_ID, NO_ID)])
def test_a_topic_may_go_and_come_anew_in_one_request(topic_ids: tuple[bytes, bytes]) -> None:
    world = World()
    old, new = topic_ids
    world.update(topic((0, 1), (1, 2), topic_id=old))
    world.update(topic((0, DELETED), (1, DELETED), topic_id=old), topic((0, 2), topic_id=new))
    assert world.leaders() == {0: 2}
    assert world.cache.image.topics["t"].topic_id == new


def test_who_is_not_named_is_no_longer_alive() -> None:
    world = World()
    world.update()
    world.update(brokers=(2, 3))
    assert set(world.cache.image.brokers) == {2, 3}
    assert world.told[-1].brokers_gone == {1} and set(world.told[-1].brokers) == {3}
    told = len(world.told)
    world.update(brokers=(2, 3))
    assert len(world.told) == told  # no news


def test_replicas_are_offline_as_long_as_they_are_said_to_be() -> None:
    world = World()
    world.update(topic((0, 1), (1, 1), offline_replicas=[2]), topic((0, 1), name="u", offline_replicas=[2]))
    assert world.cache.offline_replicas == {(2, "t", 0), (2, "t", 1), (2, "u", 0)}
    world.update(topic((0, 1)))
    assert world.cache.offline_replicas == {(2, "t", 1), (2, "u", 0)}
    # Nothing is kept of topics that are gone.
    world.update(topic((0, 1)), type=FULL)
    assert world.cache.offline_replicas == {(2, "t", 1)}
    # A broker that is gone is not said to be there without its replica.
    world.update(brokers=(1,))
    assert world.cache.offline_replicas == frozenset()


def test_configs_come_by_themselves() -> None:
    world = World()
    world.cache.update_configs({"topics/t": {}, "topics/u": {"retention.ms": "6"}})
    assert world.cache.image.topic_config("t") == {}
    assert world.cache.image.topic_config("u") == {"retention.ms": "6"}
    assert set(world.told[-1].configs) == {"topics/t", "topics/u"}
