"""DescribeQuorum at every version, and its form on the wire as a Kafka 4.3.1 sent it."""

from __future__ import annotations

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.headers import decode_response, encode_response
from odradek.wire.messages.describe_quorum import (
    DescribedQuorumPartition,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)

from ..admin_world import Denying, World

METADATA = "__cluster_metadata"
VERSIONS = range(3)
KAFKA_SENT = {
    0: "0000000100000002135f5f636c75737465725f6d65746164617461020000000000000000000100000003000000"
    "0000001a3c02000000010000000000001a3c0001000000",
    1: "0000000100000002135f5f636c75737465725f6d65746164617461020000000000000000000100000003000000"
    "0000001a3c02000000010000000000001a3c000001a203aaf8ec000001a203aaf8ec0001000000",
    2: "000000010000000102135f5f636c75737465725f6d657461646174610200000000000001000000010000000300"
    "00000000001a3c0200000001000000000000000000000000000000000000000000001a3c000001a203aaf92500"
    "0001a203aaf925000100000200000001020b434f4e54524f4c4c45520a3132372e302e302e31b01f000000",
}


def asked(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumTopic(
                topic_name=name,
                partitions=[DescribeQuorumPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ]
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_form_on_the_wire_is_kafkas(version: int) -> None:
    frame = bytes.fromhex(KAFKA_SENT[version])
    correlation, answer = decode_response(frame, DescribeQuorumRequest.API_KEY, version)
    assert isinstance(answer, DescribeQuorumResponse)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 3, 6716)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, 6716)
    if version >= 2:
        (listener,) = answer.nodes[0].listeners
        assert (listener.name, listener.host, listener.port) == ("CONTROLLER", "127.0.0.1", 45087)
    parts = encode_response(DescribeQuorumRequest.API_KEY, version, correlation, answer)
    assert b"".join(parts)[4:] == frame


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_that_is_alone_votes_alone(version: int) -> None:
    world = World(broker_id=3)
    world.clock.advance(1234)
    answer = world.call(asked((METADATA, [0])), version)
    assert answer.error_code == 0
    (partition,) = answer.topics[0].partitions
    assert (answer.topics[0].topic_name, partition.partition_index, partition.error_code) == (METADATA, 0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (3, world.controller.epoch)
    (voter,) = partition.current_voters
    assert voter.replica_id == 3
    assert voter.log_end_offset == partition.high_watermark == world.controller.broker_epoch >= 0
    assert partition.observers == []
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == world.clock.now_ms()
    if version >= 2:
        assert (answer.error_message, partition.error_message) == ("", "")
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name, listener.host, listener.port) == (
            3,
            "PLAINTEXT",
            "127.0.0.1",
            9092,
        )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "topics",
    [
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0, 0])],
        [("other", [0])],
        [(METADATA, [0]), ("other", [0])],
        [(METADATA, [0]), ("other", [])],
    ],
)
def test_anything_else_is_not_known(topics: list[tuple[str, list[int]]], version: int) -> None:
    answer = World().call(asked(*topics), version)
    assert answer.error_code == 0
    assert [(one.topic_name, [p.partition_index for p in one.partitions]) for one in answer.topics] == topics
    for topic in answer.topics:
        for partition in topic.partitions:
            nobody = DescribedQuorumPartition(
                partition_index=partition.partition_index,
                error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                error_message=partition.error_message,
                current_voters=[],
                observers=[],
            )
            assert partition == nobody


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_asked_for(version: int) -> None:
    assert World().call(asked(), version).topics == []
    (topic,) = World().call(asked((METADATA, [])), version).topics
    assert (topic.topic_name, topic.partitions) == (METADATA, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may_ask(version: int) -> None:
    world = World()
    world.authorizer = Denying((Operation.DESCRIBE, "kafka-cluster"))
    request = asked((METADATA, [0]))
    assert world.call(request, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.authorizer = None
    world.controller.context.is_active = False
    assert world.call(request, version).error_code == ErrorCode.NOT_CONTROLLER


def test_releases_with_zookeeper_do_not_have_it() -> None:
    key = DescribeQuorumRequest.API_KEY
    assert World({"odradek.kafka.version": "3.9"}).handlers.get(key) is None
    listed = dict(World({"odradek.kafka.version": "3.9-kraft"}).handlers.versions())
    assert listed[key] == range(3)
    assert dict(World({"odradek.kafka.version": "3.3-kraft"}).handlers.versions())[key] == range(2)
