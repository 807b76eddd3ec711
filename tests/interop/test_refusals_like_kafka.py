"""What admin requests are refused with: ours as a release, and the real one, with one broker each.

Error codes are compared, and that of the messages what is Kafka's own: of KRaft releases the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from interop import kafka_peer
from interop.asking import ask
from odradek.broker.kafka_versions.release import Release, find
from odradek.errors.codes import ErrorCode
from odradek.testing import Broker
from odradek.wire.messages import incremental_alter_configs as incremental
from odradek.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.interop

UPGRADE, SAFE = 1, 2
TOPIC, BROKER, LOGGER = 2, 4, 8
MADE_UP = {
    *("throttleTimeMs", "topicId", "configs"),
    *(
        "leaderEpoch",
        "highWatermark",
        "logEndOffset",
        "lastFetchTimestamp",
        "lastCaughtUpTimestamp",
        "listeners",
    ),
}
"""What differs from broker to broker."""


class Pair(NamedTuple):
    """A real broker, and ours as the same release; the id of both is 1."""

    release: Release
    kafka: kafka_peer.RealKafka
    ours: Broker

    def same(self, request: Any, version: int, *, words: bool) -> Any:
        """What both answer, as JSON; without the words of messages where they are not to be compared."""
        theirs, ours = (
            ask(port, request, version).to_json(version) for port in (self.kafka.port, self.ours.port)
        )
        for answer in (theirs, ours):
            _mask(answer, words)
        assert ours == theirs, f"{request} to {self.release}"
        return theirs


def _mask(answer: Any, words: bool) -> None:
    if isinstance(answer, list):
        for one in answer:
            _mask(one, words)
    elif isinstance(answer, dict):
        for key, value in answer.items():
            if key in MADE_UP or (key == "errorMessage" and not words):
                answer[key] = None
            _mask(value, words)


@pytest.fixture(scope="module", params=["2.2.2", "2.8.2", "3.9.1", "3.9.1-kraft", "4.3.1"])
def pair(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    version, _, kraft = request.param.partition("-")
    directory = tmp_path_factory.mktemp(f"refusals-{request.param}")
    with (
        kafka_peer.RealKafka(version, directory, kraft=bool(kraft)) as kafka,
        Broker(kafka_version=request.param, broker_id=1) as ours,
    ):
        found = Pair(find(request.param), kafka, ours)
        for port in (kafka.port, ours.port):
            topic = CreatableTopic(name="there", num_partitions=1, replication_factor=1)
            assert ask(port, CreateTopicsRequest(topics=[topic]), 3).topics[0].error_code == ErrorCode.NONE
        yield found


def test_manual_assignments(pair: Pair) -> None:
    wanted: list[list[tuple[int, list[int]]]] = [
        [(0, [1, 99])],
        [(0, [99])],
        [(0, [1]), (1, [99])],
        [(0, [1, 1])],
        [(0, [1]), (1, [1, 2])],
        [(0, [1]), (0, [1])],
        [(0, [-1])],
        [(0, [99, 99])],
    ]
    if pair.release.kraft:
        # With ZooKeeper a partition without replicas comes into being, which is of no use to anybody.
        wanted.append([(0, [])])
    if pair.release.at_least("2.8"):
        wanted += [[(1, [1])], [(0, [1]), (2, [1])]]
    for looking in (True, False):
        for number, assignment in enumerate(wanted):
            topic = CreatableTopic(
                name=f"manual-{number}",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in assignment
                ],
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=3000, validate_only=looking)
            pair.same(request, 3, words=pair.release.kraft)


def test_features_that_cannot_be_had(pair: Pair) -> None:
    versions = pair.release.answered.get(UpdateFeaturesRequest.API_KEY, range(0))
    for version in versions:
        for feature, level, kind in (
            ("nope", 1, UPGRADE),
            ("nope", 0, UPGRADE),
            ("nope", 0, SAFE),
            ("nope", -1, UPGRADE),
            ("nope", 1, SAFE),
            ("nope", 1, 9),
            ("", 1, UPGRADE),
            ("metadata.version", 99, UPGRADE),
            ("metadata.version", 0, UPGRADE),
            ("metadata.version", 0, SAFE),
            ("metadata.version", 7, UPGRADE),
            ("transaction.version", 99, UPGRADE),
            ("transaction.version", -1, SAFE),
            ("transaction.version", 1, UPGRADE),
        ):
            update = FeatureUpdateKey(feature=feature, max_version_level=level)
            if version:
                update.upgrade_type = kind
            else:
                update.allow_downgrade = kind != UPGRADE
            pair.same(_update(version, update), version, words=pair.release.kraft)
        pair.same(_update(version), version, words=True)
        two = (FeatureUpdateKey(feature=name, max_version_level=1) for name in ("nope", "nix"))
        pair.same(_update(version, *two), version, words=pair.release.kraft)


def _update(version: int, *updates: FeatureUpdateKey) -> UpdateFeaturesRequest:
    request = UpdateFeaturesRequest(feature_updates=list(updates))
    if version:
        request.validate_only = True
    return request


def test_reassignments_that_cannot_be(pair: Pair) -> None:
    versions = pair.release.answered.get(AlterPartitionReassignmentsRequest.API_KEY, range(0))
    for version in versions:
        for topic, index in (("there", 0), ("there", 7), ("absent", 0)):
            for replicas in ([1], [99], [1, 99], [], [1, 1], [-1], [99, -1], None):
                wanted = ReassignablePartition(partition_index=index, replicas=replicas)
                request = AlterPartitionReassignmentsRequest(
                    topics=[ReassignableTopic(name=topic, partitions=[wanted])]
                )
                pair.same(request, version, words=False)


BAD_CONFIGS: list[tuple[int, str, list[tuple[str, str]]]] = [
    (TOPIC, "there", [("retention.ms", "1000"), ("retention.ms", "2000")]),
    (BROKER, "1", [("log.retention.ms", "1000"), ("log.retention.ms", "2000")]),
    (TOPIC, "there", [("retention.ms", "1000"), ("retention.ms", "x")]),
    (TOPIC, "there", [("retention.ms", "x")]),
    (TOPIC, "there", [("retention.ms", "-5")]),
    (TOPIC, "there", [("cleanup.policy", "x")]),
    (TOPIC, "there", [("no.such", "x")]),
    (TOPIC, "", [("retention.ms", "1")]),
    (TOPIC, "a b", [("retention.ms", "1")]),
    (BROKER, "1", [("log.retention.ms", "x")]),
    (BROKER, "1", [("num.io.threads", "0")]),
    (BROKER, "1", [("log.cleanup.policy", "x")]),
    (BROKER, "1", [("no.such", "x")]),
    (BROKER, "1", [("log.dirs", "/x")]),
    (BROKER, "7", [("log.retention.ms", "1")]),
    (BROKER, "x", [("log.retention.ms", "1")]),
    (BROKER, "1", [("ssl.keystore.location", "/x")]),
    (LOGGER, "1", [("root", "INFO")]),
    (0, "x", [("a", "b")]),
    (99, "x", [("a", "b")]),
]
WORDS_ARE_KAFKAS = (
    "Invalid value",
    "Cannot update these configs dynamically",
    "Unknown topic config",
    "Error due",
)


def test_configs_that_cannot_be(pair: Pair) -> None:
    for kind, name, configs in BAD_CONFIGS:
        if kind not in (TOPIC, BROKER) and not pair.release.at_least("2.3"):
            continue  # its answer names resource 0 in place of one that it does not know
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, value=value) for key, value in configs],
        )
        request = AlterConfigsRequest(resources=[resource], validate_only=True)
        (found,) = pair.same(request, 0, words=False)["responses"]
        ours = ask(pair.ours.port, request, 0).responses[0].error_message
        theirs = ask(pair.kafka.port, request, 0).responses[0].error_message
        if any(words in (theirs or "") for words in WORDS_ARE_KAFKAS):
            assert ours == theirs, (found, request)


def test_configs_that_cannot_be_changed_so(pair: Pair) -> None:
    if incremental.IncrementalAlterConfigsRequest.API_KEY not in pair.release.answered:
        pytest.skip(f"{pair.release} has no IncrementalAlterConfigs")
    put, append = 0, 2
    for kind, name, config, operation, value in (
        (TOPIC, "there", "retention.ms", put, "x"),
        (TOPIC, "there", "retention.ms", put, None),
        (TOPIC, "there", "retention.ms", append, "1"),
        (TOPIC, "absent", "retention.ms", put, "1"),
        (BROKER, "1", "log.retention.ms", put, "x"),
        (BROKER, "1", "log.retention.ms", append, "1"),
        (BROKER, "1", "log.dirs", put, "/x"),
        (BROKER, "7", "log.retention.ms", put, "1"),
        (LOGGER, "1", "root", put, "LOUD"),
        (LOGGER, "1", "no.such.logger", put, "INFO"),
        (LOGGER, "1", "root", append, "INFO"),
        (LOGGER, "7", "root", put, "INFO"),
    ):
        change = incremental.AlterableConfig(name=config, config_operation=operation, value=value)
        resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
        pair.same(request, 0, words=False)


def test_the_quorum(pair: Pair) -> None:
    for version in pair.release.answered.get(DescribeQuorumRequest.API_KEY, range(0)):
        for topics in (
            [("__cluster_metadata", [0])],
            [("__cluster_metadata", [0, 1])],
            [("__cluster_metadata", [0]), ("other", [0])],
            [("__cluster_metadata", [])],
            [],
        ):
            request = DescribeQuorumRequest(
                topics=[
                    DescribeQuorumTopic(
                        topic_name=name,
                        partitions=[DescribeQuorumPartition(partition_index=index) for index in indexes],
                    )
                    for name, indexes in topics
                ]
            )
            pair.same(request, version, words=False)
