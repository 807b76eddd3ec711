"""LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown to a broker that is its own controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.check import read_golden
from odradek.wire.headers import decode_request_header, decode_response
from odradek.wire.messages import leader_and_isr, request_class, stop_replica
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest

from ..admin_world import Denying, World

TRANSCRIPTS = Path(__file__).parents[2] / "golden" / "transcripts"
STALE = ErrorCode.STALE_CONTROLLER_EPOCH
DENYING = Denying((Operation.CLUSTER_ACTION, "kafka-cluster"))


@pytest.fixture
def world() -> World:
    world = World()
    world.controller.create_topic(NewTopic("t", 2, 1))
    return world


def sender(world: World) -> dict[str, Any]:
    return {
        "controller_id": world.image.controller_id,
        "controller_epoch": world.image.controller_epoch,
        "broker_epoch": world.image.brokers[world.broker_id].epoch,
    }


def leaders(version: int, topic: str, index: int, topic_id: bytes, **fields: Any) -> Any:
    state = leader_and_isr.LeaderAndIsrPartitionState(
        topic_name=topic, partition_index=index, leader_epoch=5, isr=[0], replicas=[0]
    )
    states = leader_and_isr.LeaderAndIsrTopicState(
        topic_name=topic, topic_id=topic_id, partition_states=[state]
    )
    if version >= 2:
        fields["topic_states"] = [states]
    else:
        fields["ungrouped_partition_states"] = [state]
    return leader_and_isr.LeaderAndIsrRequest(**fields)


def partition_errors(version: int, answer: Any) -> list[tuple[int, int]]:
    errors = answer.partition_errors
    if version >= 5:
        assert errors == []
        errors = [one for topic in answer.topics for one in topic.partition_errors]
    return [(one.partition_index, one.error_code) for one in errors]


@pytest.mark.parametrize("version", range(8))
def test_leaderships_that_are_no_news(version: int, world: World) -> None:
    topic_id = world.image.topic_id("t")
    answer = world.call(leaders(version, "t", 1, topic_id, **sender(world)), version)
    assert (answer.error_code, partition_errors(version, answer)) == (0, [(1, STALE)])
    answer = world.call(leaders(version, "u", 0, b"u" * 16, **sender(world)), version)
    assert partition_errors(version, answer) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    if version >= 5:
        assert answer.topics[0].topic_id == b"u" * 16
        answer = world.call(leaders(version, "t", 0, b"u" * 16, **sender(world)), version)
        assert partition_errors(version, answer) == [(0, ErrorCode.INCONSISTENT_TOPIC_ID)]
    else:
        assert answer.partition_errors[0].topic_name == "u"


@pytest.mark.parametrize("version", range(8))
def test_a_refused_sender_is_told_for_each_partition(version: int, world: World) -> None:
    false = {**sender(world), "controller_epoch": world.image.controller_epoch - 1}
    answer = world.call(leaders(version, "t", 1, world.image.topic_id("t"), **false), version)
    assert (answer.error_code, partition_errors(version, answer)) == (STALE, [(1, STALE)])


def stop(version: int, topic: str, index: int, **fields: Any) -> Any:
    if version == 0:
        old = stop_replica.StopReplicaPartitionV0(topic_name=topic, partition_index=index)
        fields["ungrouped_partitions"] = [old]
    elif version <= 2:
        fields["topics"] = [stop_replica.StopReplicaTopicV1(name=topic, partition_indexes=[index])]
    else:
        state = stop_replica.StopReplicaPartitionState(partition_index=index, leader_epoch=-2)
        fields["topic_states"] = [
            stop_replica.StopReplicaTopicState(topic_name=topic, partition_states=[state])
        ]
    return stop_replica.StopReplicaRequest(delete_partitions=version <= 2, **fields)


@pytest.mark.parametrize("version", range(5))
def test_nothing_is_stopped(version: int, world: World) -> None:
    for topic, index, error in (("t", 0, ErrorCode.FENCED_LEADER_EPOCH), ("t", 5, 0), ("u", 0, 0)):
        answer = world.call(stop(version, topic, index, **sender(world)), version)
        (found,) = answer.partition_errors
        assert (found.topic_name, found.partition_index, found.error_code) == (topic, index, error)
    false = {**sender(world), "controller_epoch": world.image.controller_epoch + 1}
    answer = world.call(stop(version, "t", 0, **false), version)
    assert (answer.error_code, answer.partition_errors) == (STALE, [])


@pytest.mark.parametrize("version", range(9))
@pytest.mark.parametrize(
    ("fields", "epoch_from", "error"),
    [
        ({}, 0, ErrorCode.NONE),
        ({"controller_epoch": 0}, 0, STALE),
        ({"controller_epoch": 1_000}, 0, STALE),
        ({"controller_id": 1}, 0, STALE),
        ({"broker_epoch": 0}, 5, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_epoch": -1}, 0, ErrorCode.NONE),
        ({"broker_epoch": 2**40}, 0, ErrorCode.NONE),
    ],
)
def test_who_may_tell_metadata(
    fields: dict[str, int], epoch_from: int, error: ErrorCode, version: int, world: World
) -> None:
    answer = world.call(UpdateMetadataRequest(**{**sender(world), **fields}), version)
    assert answer.error_code == (error if version >= epoch_from else ErrorCode.NONE)


def test_only_brokers_may_tell(world: World) -> None:
    world.authorizer = DENYING
    for request in (
        UpdateMetadataRequest(**sender(world)),
        stop(3, "t", 0, **sender(world)),
        leaders(3, "t", 0, bytes(16), **sender(world)),
        ControlledShutdownRequest(broker_id=0),
    ):
        answer = world.call(request, 3)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(5))
def test_who_may_not_stop_replicas_is_told_so_of_each(version: int, world: World) -> None:
    """As Kafka's StopReplicaRequest answers an error; one that is stale is told of none."""
    world.authorizer = DENYING
    answer = world.call(stop(version, "t", 1, **sender(world)), version)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    told = [(one.topic_name, one.partition_index, one.error_code) for one in answer.partition_errors]
    assert (answer.error_code, told) == (denied, [("t", 1, denied)])


@pytest.mark.parametrize("version", range(4))
def test_a_broker_that_is_alone_may_leave(version: int, world: World) -> None:
    answer = world.call(ControlledShutdownRequest(broker_id=0), version)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    answer = world.call(ControlledShutdownRequest(broker_id=4), version)
    assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    if version >= 2:
        answer = world.call(ControlledShutdownRequest(broker_id=0, broker_epoch=0), version)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_the_leads_of_a_broker_that_leaves_go_to_others() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("r", assignment={0: [0, 1], 1: [1, 0]}))
    world.controller.create_topic(NewTopic("s", assignment={0: [0]}))
    answer = world.call(ControlledShutdownRequest(broker_id=0), 3)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    assert [one.leader for one in world.image.topics["r"].partitions.values()] == [1, 1]
    assert world.image.topics["s"].partitions[0].leader == 0


def test_only_the_controller_lets_brokers_leave(world: World) -> None:
    follower = World(broker_id=3)
    follower.controller.context.is_active = False
    answer = follower.call(ControlledShutdownRequest(broker_id=3), 3)
    assert answer.error_code == STALE


@pytest.mark.parametrize("name", ["brokers-3.9.1-zookeeper", "brokers-3.9.1-zookeeper-two"])
def test_what_a_real_controller_told_its_brokers(name: str) -> None:
    world = World(broker_id=1)
    asked: dict[Any, tuple[int, Any]] = {}
    compared = 0
    for line in read_golden(TRANSCRIPTS / f"{name}.jsonl.gz"):
        key, version = line["key"], line["version"]
        if key not in (4, 5, 6, 7):
            continue
        frame, place = bytes.fromhex(line["hex"]), (line["conn"], line["correlation"])
        if line["dir"] == "request":
            header, body = decode_request_header(frame)
            asked[place] = version, request_class(key).decode(frame[body:], header.api_version)
            continue
        version, request = asked.pop(place)
        # The controller is another, and its broker has been here for longer.
        own = {"broker_id": 1, **sender(world)}
        for field in own.keys() & {one.name for one in request.FIELDS}:
            setattr(request, field, own[field])
        ours, theirs = world.call(request, version), decode_response(frame, key, version)[1]
        assert ours.error_code == theirs.error_code == 0
        if key == ApiKey.LEADER_AND_ISR:
            # None of its topics is known here.
            assert {t.topic_id for t in ours.topics} == {t.topic_id for t in theirs.topics}
            assert len(partition_errors(version, ours)) == len(partition_errors(version, theirs))
        elif key != ApiKey.CONTROLLED_SHUTDOWN:
            assert ours == theirs
        compared += 1
    assert compared > 10
