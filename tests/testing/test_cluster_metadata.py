"""Brokers answer when their metadata shows it: at their start, of topics that are new, grown or deleted."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client import Admin, NewTopic
from odradek.testing import Cluster
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.metadata import MetadataRequest
from waiting import joined

ALL = {0, 1, 2}
PATIENCE_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, controller_socket_timeout_ms=300) as cluster:
        yield cluster


class Peer:
    """A connection to a broker, by which a request is answered or is not."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._sent: tuple[ApiKey, int] | None = None

    def send(self, request: Any, version: int) -> None:
        self._sent = (ApiKey(request.API_KEY), version)
        self._socket.sendall(b"".join(encode_request(request.API_KEY, version, 1, "test", request)))

    def receive(self) -> Any:
        assert self._sent is not None
        size = struct.unpack(">i", self._exactly(4))[0]
        return decode_response(self._exactly(size), *self._sent)[1]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker has closed the connection"
            data += more
        return data

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def close(self) -> None:
        self._socket.close()


def test_a_broker_that_has_started_waits_to_be_told_of_its_cluster(cluster: Cluster) -> None:
    cluster.create_topic("clicks", 2)
    cluster.create_topic("__consumer_offsets", 1)
    controller = cluster.controller
    late = next(broker for broker in sorted(ALL) if broker != controller)
    cluster.stop(late)
    cluster.cut(controller, late)
    starting = threading.Thread(target=cluster.restart, args=(late,))
    starting.start()
    address = cluster.brokers[late].address
    peers = [cluster.wait_until(lambda: connected(address)) for _ in range(5)]
    try:
        peers[0].send(MetadataRequest(topics=None), 9)
        peers[1].send(FindCoordinatorRequest(key="readers", key_type=0), 3)
        peers[2].send(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=100), 0)
        peers[3].send(DescribeClusterRequest(endpoint_type=1), 1)
        # By now they have been read.
        peers[4].ask(ApiVersionsRequest(), 0)
        cluster.heal()
        metadata, coordinator, described, of_brokers = [peer.receive() for peer in peers[:4]]
    finally:
        joined(starting)
        for peer in peers:
            peer.close()
    assert {broker.node_id for broker in metadata.brokers} == ALL
    assert {topic.name: len(topic.partitions) for topic in metadata.topics} == {
        "clicks": 2,
        "__consumer_offsets": 1,
    }
    assert (coordinator.error_code, coordinator.node_id) == (
        0,
        cluster.partition("__consumer_offsets").leader,
    )
    assert {topic.name for topic in described.topics} == {"clicks", "__consumer_offsets"}
    assert {broker.broker_id for broker in of_brokers.brokers} == ALL


def connected(address: str) -> Peer | None:
    try:
        return Peer(address)
    except ConnectionRefusedError:
        return None


def test_created_deleted_and_grown_topics_are_known_when_the_answer_comes(cluster: Cluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for round_ in range(5):
            controller = cluster.controller
            admin.create_topics([NewTopic("often", 2)])
            image = cluster.image(controller)
            assert [one.leader >= 0 for one in image.topics["often"].partitions.values()] == [True, True]
            admin.create_partitions({"often": 4})
            image = cluster.image(controller)
            assert [one.leader >= 0 for one in image.topics["often"].partitions.values()] == [True] * 4
            admin.delete_topics(["often"])
            assert "often" not in cluster.image(controller).topics, round_


def test_a_topic_that_is_not_known_in_time_is_told_so(cluster: Cluster) -> None:
    controller = cluster.controller
    peer = Peer(cluster.brokers[controller].address)
    try:
        # What the controller tells its own broker is lost as well.
        cluster.cut(controller, controller)
        topic = CreatableTopic(name="slow", num_partitions=1, replication_factor=1)
        answer = peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=0), 5).topics[0]
        assert (answer.error_code, answer.error_message) == (7, None)
        cluster.heal()
        cluster.wait_until(lambda: "slow" in cluster.image(controller).topics)
        answer = peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=0), 5).topics[0]
        assert answer.error_code == 36
    finally:
        peer.close()


def test_a_deletion_does_not_wait_for_a_broker_that_is_down(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    controller = cluster.controller
    down = next(broker for broker in sorted(ALL) if broker != controller)
    cluster.kill(down)
    cluster.wait_until(lambda: down not in cluster.image(controller).brokers)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_topics(["clicks"], timeout_ms=10_000_000)
    assert "clicks" not in cluster.image(controller).topics
