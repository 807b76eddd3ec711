"""A broker that has just come knows all topics before it has taken up its replicas, or says nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from odradek.broker.app import Broker
from odradek.broker.metadata import waits
from odradek.cluster.image import ClusterImage
from odradek.errors.codes import ErrorCode
from odradek.log.folders.log_manager import LogManager
from odradek.testing.cluster import Cluster
from odradek.wire.messages import alter_configs, describe_producers, incremental_alter_configs
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from waiting import happened, joined

from ..live import batch, connect, fetch, produce

LATER = ErrorCode.LEADER_NOT_AVAILABLE
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def ask(cluster: Cluster, broker_id: int, message: Any, version: int) -> Any:
    async def call() -> Any:
        port = int(cluster.brokers[broker_id].address.rpartition(":")[2])
        client = await connect(mock.Mock(port=port))
        try:
            return await client.call(message, version)
        finally:
            client.close()

    return asyncio.run(call())


@contextmanager
def folders_take_long() -> Iterator[threading.Event]:
    """Nobody makes a folder for a replica until this ends: as with thousands of them."""
    go_on = threading.Event()
    prepare = LogManager.prepare

    def late(*args: Any) -> None:
        happened(go_on, "the end of what holds folders back")
        prepare(*args)

    with mock.patch.object(LogManager, "prepare", late):
        try:
            yield go_on
        finally:
            go_on.set()


def test_all_topics_are_told_before_what_it_holds_is_taken_up() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("t", 3)
        cluster.stop(2)
        # Without its replicas: they have to be made anew, which takes long.
        data = cluster.brokers[2].data
        assert data is not None
        for index in range(3):
            (data / f"t-{index}").rename(data / f"t-{index}.00000000000000000000000000000000-stray")
        with folders_take_long() as go_on:
            starting = threading.Thread(target=cluster.restart, args=(2,))
            starting.start()
            cluster.wait_until(lambda: len(cluster.image(0).brokers) == 3)
            told = ask(cluster, 2, MetadataRequest(topics=None), 9)
            assert starting.is_alive(), "it is not ready before it has taken up what it holds"
            assert sorted(one.node_id for one in told.brokers) == [0, 1, 2]
            assert {topic.name for topic in told.topics} >= {"t"}
            (topic,) = (topic for topic in told.topics if topic.name == "t")
            assert [one.error_code for one in topic.partitions] == [0, 0, 0]
            go_on.set()
            joined(starting)
        assert cluster.brokers[2].call(lambda broker: len(broker.replicas)) >= 3


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        cluster.create_topic("t")
        monkeypatch.setattr(waits, "KNOWN_WITHIN_MS", 1)
        monkeypatch.setattr(Broker, "knows_cluster", False)
        yield cluster


def test_who_is_not_told_says_nothing_that_could_be_believed(untold: Cluster) -> None:
    everything = ask(untold, 0, MetadataRequest(topics=None), 9)
    assert (everything.brokers, everything.topics, everything.controller_id) == ([], [], -1)
    names = [MetadataRequestTopic(name=name) for name in ("t", "another")]
    asked = ask(untold, 0, MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)
    assert asked.brokers == []
    assert [(one.name, one.error_code) for one in asked.topics] == [("t", LATER), ("another", LATER)]
    assert untold.image(0).topic("another") is None
    by_id = MetadataRequestTopic(name=None, topic_id=bytes(15) + b"x")
    (found,) = ask(untold, 0, MetadataRequest(topics=[by_id]), 12).topics
    assert (found.topic_id, found.error_code) == (by_id.topic_id, LATER)


def test_nor_does_it_have_topics_made(untold: Cluster) -> None:
    answer = ask(untold, 0, FindCoordinatorRequest(key="g", key_type=0), 2)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert untold.image(0).topic("__consumer_offsets") is None
    topics = [TopicRequest(name="another")]
    described = ask(untold, 0, DescribeTopicPartitionsRequest(topics=topics), 0)
    assert [one.error_code for one in described.topics] == [LATER]


def test_a_page_of_nothing_is_not_the_end(untold: Cluster) -> None:
    page = ask(untold, 0, DescribeTopicPartitionsRequest(topics=[]), 0)
    assert (page.topics, page.next_cursor) == ([], Cursor(topic_name="", partition_index=0))
    middle = Cursor(topic_name="s", partition_index=1)
    page = ask(untold, 0, DescribeTopicPartitionsRequest(topics=[], cursor=middle), 0)
    assert (page.topics, page.next_cursor) == ([], middle)


def _topic_and_broker_configs() -> DescribeConfigsRequest:
    resources = [(2, "another"), (4, "0")]
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["x"])
            for kind, name in resources
        ]
    )


def _change(of: type[Any], resource: type[Any]) -> Any:
    return of(resources=[resource(resource_type=2, resource_name="another", configs=[])], validate_only=False)


def _codes_of_partitions(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


TOLD: dict[str, tuple[Any, int, Callable[[Any], Any], Any]] = {
    "DescribeConfigs": (
        _topic_and_broker_configs(),
        4,
        lambda answer: [one.error_code for one in answer.results],
        [LATER, 0],
    ),
    "AlterConfigs": (
        _change(alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResource),
        2,
        lambda answer: [one.error_code for one in answer.responses],
        [LATER],
    ),
    "IncrementalAlterConfigs": (
        _change(
            incremental_alter_configs.IncrementalAlterConfigsRequest,
            incremental_alter_configs.AlterConfigsResource,
        ),
        1,
        lambda answer: [one.error_code for one in answer.responses],
        [LATER],
    ),
    "ListConfigResources, of topics": (
        ListConfigResourcesRequest(resource_types=[2]),
        1,
        lambda answer: (answer.error_code, answer.config_resources),
        (LATER, []),
    ),
    "ListConfigResources, of groups": (
        ListConfigResourcesRequest(resource_types=[32]),
        1,
        lambda answer: (answer.error_code, answer.config_resources),
        (0, []),
    ),
    "DescribeCluster": (
        DescribeClusterRequest(),
        1,
        lambda answer: (answer.brokers, answer.controller_id),
        ([], -1),
    ),
    "FindCoordinator": (
        FindCoordinatorRequest(coordinator_keys=["g"], key_type=1),
        4,
        lambda answer: [one.error_code for one in answer.coordinators],
        [ErrorCode.COORDINATOR_NOT_AVAILABLE],
    ),
    # Of what it leads and coordinates it is told after all topics: until then that is nothing.
    "ListOffsets": (
        ListOffsetsRequest(
            topics=[ListOffsetsTopic(name="another", partitions=[ListOffsetsPartition(partition_index=0)])]
        ),
        5,
        _codes_of_partitions,
        [NOT_LEADER],
    ),
    "Produce": (
        produce("another", batch()),
        9,
        lambda answer: [one.error_code for topic in answer.responses for one in topic.partition_responses],
        [NOT_LEADER],
    ),
    "Produce, to an internal topic": (
        produce("__consumer_offsets", batch()),
        9,
        lambda answer: [one.error_code for topic in answer.responses for one in topic.partition_responses],
        [LATER],
    ),
    "Fetch": (
        fetch("another", max_wait_ms=60_000),
        9,
        lambda answer: [one.error_code for topic in answer.responses for one in topic.partitions],
        [NOT_LEADER],
    ),
    "OffsetForLeaderEpoch": (
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="another", partitions=[OffsetForLeaderPartition(partition=0)])]
        ),
        3,
        _codes_of_partitions,
        [NOT_LEADER],
    ),
    "DeleteRecords": (
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name="another", partitions=[DeleteRecordsPartition(partition_index=0)])
            ]
        ),
        1,
        _codes_of_partitions,
        [NOT_LEADER],
    ),
    "DescribeProducers": (
        describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name="another", partition_indexes=[0])]
        ),
        0,
        _codes_of_partitions,
        [NOT_LEADER],
    ),
    "OffsetCommit": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name="another", partitions=[OffsetCommitRequestPartition(partition_index=0)]
                )
            ],
        ),
        8,
        _codes_of_partitions,
        [ErrorCode.NOT_COORDINATOR],
    ),
    "OffsetCommit, by id": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    topic_id=bytes(15) + b"x", partitions=[OffsetCommitRequestPartition(partition_index=0)]
                )
            ],
        ),
        10,
        _codes_of_partitions,
        [ErrorCode.NOT_COORDINATOR],
    ),
    "TxnOffsetCommit": (
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="another", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
                )
            ],
        ),
        3,
        _codes_of_partitions,
        [ErrorCode.NOT_COORDINATOR],
    ),
    "AddPartitionsToTxn": (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="another", partitions=[0])],
        ),
        3,
        lambda answer: [
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ],
        [ErrorCode.NOT_COORDINATOR],
    ),
    "OffsetFetch, from the store": (
        OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="another", partition_indexes=[0])]
        ),
        0,
        _codes_of_partitions,
        [LATER],
    ),
    "OffsetDelete": (
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="another", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        ),
        0,
        lambda answer: (answer.error_code, answer.topics),
        (ErrorCode.NOT_COORDINATOR, []),
    ),
    "ListTransactions": (
        ListTransactionsRequest(),
        1,
        lambda answer: (answer.error_code, answer.transaction_states),
        (0, []),
    ),
    "ListGroups": (ListGroupsRequest(), 4, lambda answer: (answer.error_code, answer.groups), (0, [])),
    "DescribeTransactions": (
        DescribeTransactionsRequest(transactional_ids=["x"]),
        0,
        lambda answer: [one.error_code for one in answer.transaction_states],
        [ErrorCode.NOT_COORDINATOR],
    ),
}
"""What a broker that knows of nobody and nothing says to each request about what it should know."""


@pytest.mark.parametrize("api", TOLD)
def test_what_is_asked_of_who_is_not_told(untold: Cluster, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message, version, look, expected = TOLD[api]
    empty = ClusterImage(untold.image(0).cluster_id)
    monkeypatch.setattr(Broker, "image", empty)
    assert look(ask(untold, 0, message, version)) == expected


def test_of_what_is_not_there_who_is_told_says_so() -> None:
    message, version, look, _ = TOLD["DescribeConfigs"]
    with Cluster(1) as cluster:
        assert look(ask(cluster, 0, message, version)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
