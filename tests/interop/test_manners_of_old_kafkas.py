"""Be any Kafka, beside the real one: the same bytes to both, the same answer or the same refusal."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from interop import kafka_peer
from odradek.broker.apis.registry import SERVED
from odradek.broker.kafka_versions.release import Release, find
from odradek.testing import Broker
from odradek.wire.api import ApiKey
from odradek.wire.messages.api_versions import ApiVersionsResponse
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

pytestmark = pytest.mark.interop

UNKNOWN_KEY = 99
UNKNOWN_VERSION = 90
LIMIT_S = 30
SILENCE_S = 2
"""For how long nothing has to come to be taken for silence, from a release that is: another may be busy."""


class Pair(NamedTuple):
    """A real broker, and ours as the same release."""

    release: Release
    kafka: kafka_peer.RealKafka
    ours: Broker

    def both(self, key: int, version: int, body: bytes) -> tuple[bytes | None, bytes | None]:
        """What each answers, see `ask`."""
        unknown = key == UNKNOWN_KEY or version == UNKNOWN_VERSION
        limit_s = SILENCE_S if unknown and self.release.is_silent else LIMIT_S
        ports = self.kafka.port, self.ours.port
        return ask(ports[0], key, version, body, limit_s), ask(ports[1], key, version, body, limit_s)

    def same(self, key: int, version: int, body: bytes) -> bytes | None:
        """What both answer."""
        theirs, ours = self.both(key, version, body)
        assert ours == theirs, f"{ApiKey(key).api_name} {version} to {self.release}"
        return ours


def ask(port: int, key: int, version: int, body: bytes, limit_s: float = LIMIT_S) -> bytes | None:
    """An answer without its correlation id; None where the connection is closed, nothing in silence."""
    frame = struct.pack(">hhih", key, version, 7, 1) + b"t" + body
    with socket.create_connection(("127.0.0.1", port), limit_s) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            try:
                more = connection.recv(65536)
            except ConnectionError:
                return None
            except TimeoutError:
                return b""
            if not more:
                return None
            data += more
    assert data[4:8] == b"\0\0\0\x07"
    return data[8:]


@pytest.fixture(scope="module", params=["0.8.2.2", "0.9.0.1", "0.10.2.2", "1.0.0", "2.2.2", "3.9.1", "4.3.1"])
def pair(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp(f"manners-{request.param}")
    with (
        kafka_peer.RealKafka(request.param, directory) as kafka,
        Broker(kafka_version=request.param, broker_id=1) as ours,
    ):
        yield Pair(find(request.param), kafka, ours)


def test_what_is_listed(pair: Pair) -> None:
    theirs, ours = pair.both(ApiKey.API_VERSIONS, 0, b"")
    if not pair.release.at_least("0.10.0"):
        assert ours == theirs
        return
    listed = listing(theirs)
    served = {key: entry.versions for key, entry in SERVED.items()}
    both = {
        key: range(max(one.start, served[key].start), min(one.stop, served[key].stop))
        for key, one in listed.items()
        if key in served
    }
    assert listing(ours) == {key: versions for key, versions in both.items() if versions}
    assert listed == pair.release.advertised


def listing(answer: bytes | None) -> dict[int, range]:
    assert answer is not None
    response = ApiVersionsResponse.decode(answer, 0)
    return {one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys}


def test_api_versions_that_nobody_knows(pair: Pair) -> None:
    # With the empty tags of the header that new versions have.
    pair.same(ApiKey.API_VERSIONS, UNKNOWN_VERSION, b"\0")


@pytest.mark.parametrize(
    "key", [ApiKey.LIST_GROUPS, ApiKey.SASL_HANDSHAKE, ApiKey.CREATE_TOPICS, ApiKey.LIST_CONFIG_RESOURCES]
)
def test_versions_that_nobody_knows(pair: Pair, key: ApiKey) -> None:
    assert not pair.same(key, UNKNOWN_VERSION, bytes(20))


def test_groups_before_there_were_groups(pair: Pair) -> None:
    if not pair.release.is_before_groups:
        pytest.skip("only 0.8.2 reads these requests and does not know them")
    member = b"\0\1g\0\0\0\7\0\1m"
    assert pair.same(ApiKey.HEARTBEAT, 0, member) == b"\xff\xff"
    assert pair.same(ApiKey.HEARTBEAT, 3, member + b"more") == b"\xff\xff"
    joining = b"\0\1g\0\0\0\7\0\0\0\1\0\1t\0\1m\0\5range"
    assert pair.same(ApiKey.JOIN_GROUP, 0, joining)
    for key, body in ((ApiKey.HEARTBEAT, member[:-1]), (ApiKey.JOIN_GROUP, joining[:-1])):
        assert pair.same(key, 0, body) is None


def test_keys_that_nobody_knows(pair: Pair) -> None:
    theirs, ours = pair.both(UNKNOWN_KEY, 0, b"")
    assert ours == theirs


def test_a_topic_that_comes_into_being(pair: Pair) -> None:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="new")]).encode(0)
    codes = []
    for answer in pair.both(ApiKey.METADATA, 0, body):
        assert answer is not None
        codes.append(MetadataResponse.decode(answer, 0).topics[0].error_code)
    assert codes[0] == codes[1]


def test_metadata_of_a_version_that_nobody_knows(pair: Pair) -> None:
    body = MetadataRequest(topics=[MetadataRequestTopic(name="new")]).encode(0)
    deadline = time.monotonic() + LIMIT_S
    while True:
        answers = pair.both(ApiKey.METADATA, UNKNOWN_VERSION, body)
        if None in answers:
            assert answers == (None, None)
            return
        read = [MetadataResponse.decode(answer, 0) for answer in answers if answer is not None]
        shapes: list[Any] = [[(one.name, one.error_code, one.partitions) for one in r.topics] for r in read]
        if shapes[0] == shapes[1]:
            return
        assert time.monotonic() < deadline, shapes
        time.sleep(0.1)


def create(port: int, topic: str) -> None:
    """Ask for a topic until it is there."""
    body = MetadataRequest(topics=[MetadataRequestTopic(name=topic)]).encode(0)
    deadline = time.monotonic() + LIMIT_S
    while True:
        answer = ask(port, ApiKey.METADATA, 0, body)
        assert answer is not None
        (found,) = MetadataResponse.decode(answer, 0).topics
        if found.partitions and not any(one.error_code for one in found.partitions):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_deleting_a_topic(pair: Pair) -> None:
    if ApiKey.DELETE_TOPICS not in pair.release.advertised:
        pytest.skip(f"{pair.release} has no DeleteTopics")
    version = pair.release.advertised[ApiKey.DELETE_TOPICS][0]
    for port in (pair.kafka.port, pair.ours.port):
        create(port, "new")
    body = DeleteTopicsRequest(topic_names=["new", "none"], timeout_ms=2000).encode(version)
    codes = []
    for answer in pair.both(ApiKey.DELETE_TOPICS, version, body):
        assert answer is not None
        response = DeleteTopicsResponse.decode(answer, version)
        codes.append({one.name: one.error_code for one in response.responses})
    assert codes[0] == codes[1]


def test_configs(pair: Pair) -> None:
    versions = pair.release.advertised.get(ApiKey.DESCRIBE_CONFIGS)
    if versions is None:
        pytest.skip(f"{pair.release} has no DescribeConfigs")
    for port in (pair.kafka.port, pair.ours.port):
        create(port, "configured")
    version = versions[0]
    topic = DescribeConfigsResource(resource_type=2, resource_name="configured", configuration_keys=None)
    me = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    body = DescribeConfigsRequest(resources=[topic, me]).encode(version)
    seen = []
    for answer in pair.both(ApiKey.DESCRIBE_CONFIGS, version, body):
        assert answer is not None
        results = DescribeConfigsResponse.decode(answer, version).results
        by_type = {result.resource_type: result.configs for result in results}
        seen.append([{one.name: one.value for one in by_type[kind]} for kind in (2, 4)])
    assert seen[1][0].keys() <= seen[0][0].keys(), "configs of topics that the release has not"
    different = {
        name: (theirs, seen[1][0][name])
        for name, theirs in seen[0][0].items()
        if name in seen[1][0] and theirs != seen[1][0][name]
    }
    assert different == {}
    strange = {name for name in seen[1][1] if not name.startswith("odradek.")} - seen[0][1].keys()
    assert strange == set(), "configs of brokers that the release has not"
