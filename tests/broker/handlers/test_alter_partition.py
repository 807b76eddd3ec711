"""AlterPartition 0-3: leaders ask the controller for other in-sync sets."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.apis.registry import Handlers, Served
from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import PartitionImage
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

from ..admin_world import Denying, World

VERSIONS = range(4)


@pytest.fixture
def world() -> World:
    world = World(others=(1, 2))
    world.handlers = Handlers({int(ApiKey.ALTER_PARTITION): Served("alter_partition", VERSIONS)})
    world.controller.create_topic(NewTopic("t", assignment={0: [1, 2, 0], 1: [1, 0, 2]}))
    return world


def partition(world: World, index: int = 0) -> PartitionImage:
    return world.image.topics["t"].partitions[index]


def asked(
    world: World, version: int, wishes: dict[int, tuple[int, ...]], **other: Any
) -> AlterPartitionResponse:
    """Broker 1 asks for ISRs by partition; `other` may say the topic, epochs of members, the asker."""
    data = []
    for index, isr in wishes.items():
        known = world.image.topics["t"].partitions.get(index)
        one = PartitionData(
            partition_index=index,
            leader_epoch=0,
            partition_epoch=0 if known is None else known.partition_epoch,
        )
        if version >= 3:
            epochs = other.get("epochs", {})
            one.new_isr_with_epochs = [BrokerState(broker_id=b, broker_epoch=epochs.get(b, -1)) for b in isr]
        else:
            one.new_isr = list(isr)
        data.append(one)
    topic = TopicData(
        topic_name=other.get("name", "t"),
        topic_id=other.get("topic_id", world.image.topics["t"].topic_id),
        partitions=data,
    )
    broker_id = other.get("broker_id", 1)
    broker = world.image.brokers.get(broker_id)
    epoch = other.get("broker_epoch", 0 if broker is None else broker.epoch)
    request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[topic])
    answer = world.call(request, version)
    assert isinstance(answer, AlterPartitionResponse)
    return answer


def errors(answer: AlterPartitionResponse) -> list[tuple[int, ErrorCode]]:
    assert answer.error_code == 0
    (topic,) = answer.topics
    return [(one.partition_index, ErrorCode(one.error_code)) for one in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_the_state(world: World, version: int) -> None:
    answer = asked(world, version, {0: (1, 2), 1: (1,)})
    (topic,) = answer.topics
    if version >= 2:
        assert topic.topic_id == world.image.topics["t"].topic_id
    else:
        assert topic.topic_name == "t"
    assert [
        (one.partition_index, one.error_code, one.leader_id, one.leader_epoch, one.isr, one.partition_epoch)
        for one in topic.partitions
    ] == [(0, 0, 1, 0, [1, 2], 1), (1, 0, 1, 0, [1], 1)]
    assert (partition(world, 0).isr, partition(world, 1).isr) == ((1, 2), (1,))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_there(world: World, version: int) -> None:
    assert errors(asked(world, version, {0: (1, 2), 7: (1,)})) == [
        (0, ErrorCode.NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 2 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = asked(world, version, {0: (1,)}, name="nope", topic_id=b"n" * 16)
    assert errors(answer) == [(0, unknown)]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_that_may_not_be_in_sync(world: World, version: int) -> None:
    refused = ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED
    assert errors(asked(world, version, {0: (1, 9)})) == [(0, refused)]
    assert partition(world).partition_epoch == 0


def test_one_in_an_earlier_life_may_not_be_in_sync(world: World) -> None:
    present = {b: broker.epoch for b, broker in world.image.brokers.items()}
    assert errors(asked(world, 3, {0: (1, 2)}, epochs={**present, 2: present[2] - 1})) == [
        (0, ErrorCode.INELIGIBLE_REPLICA)
    ]
    assert errors(asked(world, 3, {0: (1, 2)}, epochs=present)) == [(0, ErrorCode.NONE)]


@pytest.mark.parametrize(
    "other", [{"broker_epoch": 0}, {"broker_epoch": 10**9}, {"broker_epoch": -1}, {"broker_id": 9}]
)
def test_who_is_not_registered_like_that(world: World, other: dict[str, int]) -> None:
    answer = asked(world, 3, {0: (1,)}, **other)
    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert partition(world).partition_epoch == 0


def test_only_the_controller_answers(world: World) -> None:
    world.controller.context.is_active = False
    assert asked(world, 3, {0: (1,)}).error_code == ErrorCode.NOT_CONTROLLER


def test_only_brokers_may_ask(world: World) -> None:
    world.authorizer = Denying((Operation.CLUSTER_ACTION, "kafka-cluster"))
    answer = asked(world, 3, {0: (1,)})
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert partition(world).partition_epoch == 0
