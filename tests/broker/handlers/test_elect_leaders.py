"""ElectLeaders at every version, over a controller that knows further brokers."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

from ..admin_world import Denying, World

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED


@pytest.fixture
def world() -> World:
    """t on 0 to 3, each partition led by its preferred replica."""
    world = World(others=(1, 2, 3))
    world.controller.create_topic(NewTopic("t", assignment={0: [2, 1], 1: [3, 0], 2: [0, 1]}))
    return world


def ask(world: World, version: int, kind: int = PREFERRED, partitions: Any = ()) -> dict[Any, int]:
    wanted = None
    if partitions is not None:
        wanted = [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in partitions]
    request = ElectLeadersRequest(topic_partitions=wanted)
    if version >= 1:
        request.election_type = kind
    answer = world.call(request, version)
    assert answer.error_code == 0
    return {
        (topic.topic, one.partition_id): one.error_code
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


def leave_and_return(world: World, broker: int) -> None:
    """Have a broker go, come back and be in sync again."""
    before = world.image.topics["t"].partitions[0]
    world.sessions[broker].close()
    world.sessions[broker] = world.add_broker(broker)
    after = world.image.topics["t"].partitions[0]
    assert after.leader == 1
    path = "/brokers/topics/t/partitions/0/state"
    data, stat = world.store.get(path)
    assert data is not None
    world.store.set(path, data.replace(b'"isr":[1]', b'"isr":[1,2]'), stat.version)
    world.controller.writer.refresh()
    assert world.image.topics["t"].partitions[0].isr == (1, 2), before


@pytest.mark.parametrize("version", range(3))
def test_preferred_leaders(version: int, world: World) -> None:
    everything = [("t", (0, 1, 2, 7)), ("missing", (0,))]
    not_needed = NOT_NEEDED if version >= 1 else 0
    expected = {
        ("t", 0): not_needed,
        ("t", 1): not_needed,
        ("t", 2): not_needed,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert ask(world, version, partitions=everything) == expected
    others: dict[Any, int] = {} if version >= 1 else {("t", 0): 0, ("t", 1): 0, ("t", 2): 0}
    assert ask(world, version, partitions=None) == others
    leave_and_return(world, 2)
    epoch = world.image.topics["t"].partitions[0].leader_epoch
    assert ask(world, version, partitions=None) == {**others, ("t", 0): 0}
    partition = world.image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, epoch + 1, (1, 2))
    # What was written is what is known.
    world.controller.writer.refresh()
    assert world.image.topics["t"].partitions[0] == partition


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("release", "named"), [(None, True), ("4.3", True), ("3.9", False)])
def test_topics_of_which_nothing_is_said(version: int, release: str | None, named: bool) -> None:
    """With KRaft each topic is in the answer, with ZooKeeper those with a partition: real 3.9.1, 4.3.1."""
    world = World({} if release is None else {"odradek.kafka.version": release})
    world.controller.create_topic(NewTopic("t"))

    def topics(wanted: Any) -> list[tuple[str, int]]:
        answer = world.call(ElectLeadersRequest(topic_partitions=wanted), version)
        return [(one.topic, len(one.partition_result)) for one in answer.replica_election_results]

    wanted = [TopicPartitions(topic="missing", partitions=[]), TopicPartitions(topic="t", partitions=[])]
    assert topics(wanted) == ([("missing", 0), ("t", 0)] if named else [])
    assert topics(None) == ([("t", 1)] if version == 0 else [("t", 0)] if named else [])


@pytest.mark.parametrize("version", range(3))
def test_a_preferred_leader_that_is_away_or_behind(version: int, world: World) -> None:
    world.sessions[2].close()
    unavailable = {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert ask(world, version, partitions=[("t", (0,))]) == unavailable
    world.add_broker(2)
    assert ask(world, version, partitions=[("t", (0,))]) == unavailable


@pytest.mark.parametrize("version", [1, 2])
def test_unclean_leaders(version: int) -> None:
    world = World(others=(3,))
    world.controller.create_topic(NewTopic("t", assignment={0: [3], 1: [0]}))
    assert ask(world, version, UNCLEAN, [("t", (0, 1))]) == {("t", 0): NOT_NEEDED, ("t", 1): NOT_NEEDED}
    world.sessions[3].close()
    expected = {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert ask(world, version, UNCLEAN, None) == expected


def test_an_unclean_leader_takes_over(world: World) -> None:
    world = World(others=(3,))
    world.controller.create_topic(NewTopic("t", assignment={0: [3, 0]}))
    path = "/brokers/topics/t/partitions/0/state"
    data, stat = world.store.get(path)
    assert data is not None
    world.store.set(path, data.replace(b'"isr":[3,0]', b'"isr":[3]'), stat.version)
    world.controller.writer.refresh()
    world.sessions[3].close()
    assert world.image.topics["t"].partitions[0].leader == -1
    assert ask(world, 2, PREFERRED, None) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert ask(world, 2, UNCLEAN, None) == {("t", 0): 0}
    partition = world.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (0, (0,), 1)


@pytest.mark.parametrize("version", range(3))
def test_refused_as_a_whole(version: int, world: World) -> None:
    wanted = [TopicPartitions(topic="t", partitions=[0, 1])]
    world.authorizer = Denying((Operation.ALTER, "kafka-cluster"))
    answer = world.call(ElectLeadersRequest(topic_partitions=wanted), version)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_code == (code if version >= 1 else 0)
    assert [one.error_code for one in answer.replica_election_results[0].partition_result] == [code] * 2
    world.authorizer = None
    if version >= 1:
        answer = world.call(ElectLeadersRequest(election_type=5, topic_partitions=None), version)
        assert (answer.error_code, answer.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])


def test_a_topic_that_is_being_deleted(world: World) -> None:
    world.sessions[3].close()
    world.controller.delete_topics(["t"])
    assert ask(world, 2, PREFERRED, [("t", (2,))]) == {("t", 2): ErrorCode.INVALID_TOPIC_EXCEPTION}
