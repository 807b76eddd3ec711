"""The admin client's calls about data folders, leaders, reassignments, quotas and credentials."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from odradek.client import Admin, AsyncAdmin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.aio import topic_states
from odradek.errors import (
    ElectionNotNeededError,
    GroupIdNotFoundError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    KafkaError,
    LeaderNotAvailableError,
    NoReassignmentInProgressError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnknownTopicOrPartitionError,
)
from odradek.testing import Broker
from odradek.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsResponse

from .conftest import new_topic


def test_data_folders(admin: Admin, servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, value=b"x" * 100, partition=1)
        producer.flush()
    described = admin.describe_log_dirs()
    (folder,) = described[0].values()
    assert folder.error is None
    assert folder.total_bytes >= folder.usable_bytes > 0
    replicas = {tp: info for tp, info in folder.replicas.items() if tp.topic == topic}
    assert replicas.keys() == {TopicPartition(topic, p) for p in range(3)}
    assert replicas[TopicPartition(topic, 1)].size > 100
    assert (replicas[TopicPartition(topic, 0)].size, replicas[TopicPartition(topic, 0)].is_future) == (
        0,
        False,
    )
    assert admin.describe_log_dirs([0]).keys() == {0}
    with pytest.raises(KafkaError, match="there is no broker 7"):
        admin.describe_log_dirs([7])


def test_elections(admin: Admin, topic: str) -> None:
    assert admin.elect_leaders() == {}
    for kind in ("preferred", "unclean"):
        became = admin.elect_leaders([(topic, 0), (topic, 9)], election_type=kind)
        assert isinstance(became[TopicPartition(topic, 0)], ElectionNotNeededError)
        assert isinstance(became[TopicPartition(topic, 9)], UnknownTopicOrPartitionError)
    with pytest.raises(ValueError, match="no type of election"):
        admin.elect_leaders(election_type="rigged")


def test_reassignments(admin: Admin, topic: str) -> None:
    admin.alter_partition_reassignments({(topic, 0): [0]})
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([(topic, 0)]) == {}
    with pytest.raises(InvalidReplicaAssignmentError, match="no such broker is registered") as caught:
        admin.alter_partition_reassignments({(topic, 0): [1], (topic, 1): [0], (topic, 2): None})
    problems = caught.value.errors  # type: ignore[attr-defined]
    assert problems.keys() == {TopicPartition(topic, 0), TopicPartition(topic, 2)}
    assert isinstance(problems[TopicPartition(topic, 2)], NoReassignmentInProgressError)


def test_quotas(admin: Admin) -> None:
    bob, app = (("user", "bob"),), (("client-id", "app"), ("user", None))
    admin.alter_client_quotas(
        {bob: {"producer_byte_rate": 1e6, "request_percentage": 50.5}, app: {"consumer_byte_rate": 5}}
    )
    try:
        everything = {
            bob: {"producer_byte_rate": 1e6, "request_percentage": 50.5},
            app: {"consumer_byte_rate": 5.0},
        }
        assert admin.describe_client_quotas() == everything
        assert admin.describe_client_quotas({"user": "bob"}) == {bob: everything[bob]}
        assert admin.describe_client_quotas({"user": None}) == {app: everything[app]}
        assert admin.describe_client_quotas({"user": ...}) == everything
        assert admin.describe_client_quotas({"user": ...}, strict=True) == {bob: everything[bob]}
        with pytest.raises(InvalidRequestError, match="Invalid configuration key") as caught:
            admin.alter_client_quotas({bob: {"speed": 1}, app: {"consumer_byte_rate": 6}})
        assert caught.value.errors.keys() == {bob}  # type: ignore[attr-defined]
        assert admin.describe_client_quotas({"client-id": "app"})[app] == {"consumer_byte_rate": 6.0}
    finally:
        admin.alter_client_quotas(
            {
                bob: {"producer_byte_rate": None, "request_percentage": None},
                app: {"consumer_byte_rate": None},
            }
        )
    assert admin.describe_client_quotas() == {}


def test_scram_credentials(admin: Admin) -> None:
    admin.alter_user_scram_credentials({("ann", "SCRAM-SHA-256"): "secret"}, iterations=8192)
    admin.alter_user_scram_credentials({("ann", "SCRAM-SHA-512"): "secret"})
    expected = {"ann": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096}}
    assert admin.describe_user_scram_credentials() == expected
    assert admin.describe_user_scram_credentials(["ann"]) == expected
    assert admin.describe_user_scram_credentials([]) == {}
    with pytest.raises(ResourceNotFoundError, match="eve"):
        admin.describe_user_scram_credentials(["eve"])
    with pytest.raises(UnacceptableCredentialError, match="Too few iterations"):
        admin.alter_user_scram_credentials({("eve", "SCRAM-SHA-256"): "x"}, iterations=1)
    with pytest.raises(ValueError, match="no SCRAM mechanism"):
        admin.alter_user_scram_credentials({("eve", "PLAIN"): "x"})
    admin.alter_user_scram_credentials({("ann", "SCRAM-SHA-256"): None, ("ann", "SCRAM-SHA-512"): None})
    assert admin.describe_user_scram_credentials() == {}


def test_offsets_of_groups(admin: Admin, topic: str, group: str) -> None:
    admin.alter_group_offsets(group, {(topic, p): OffsetAndMetadata(p) for p in range(3)})
    admin.delete_group_offsets(group, [(topic, 0), (topic, 2)])
    assert admin.list_group_offsets(group).keys() == {TopicPartition(topic, 1)}
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_group_offsets(group, [(topic, 9)])
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_group_offsets("no-such-group", [(topic, 0)])


def test_the_same_for_coroutines(servers: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncAdmin(bootstrap_servers=servers) as admin:
            # Each is the first call of its client, too.
            assert (await admin.describe_log_dirs()).keys() == {0}
            became: Any = await admin.elect_leaders([(topic, 1)])
            assert isinstance(became[TopicPartition(topic, 1)], ElectionNotNeededError)

    asyncio.run(main())


def test_topics_are_described_in_pages(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_states, "_PARTITIONS_PER_PAGE", 2)
    names = [new_topic(admin, count) for count in (3, 1, 4)]
    described = admin.describe_topics(names)
    assert {name: [p.partition for p in one.partitions] for name, one in described.items()} == {
        name: list(range(count)) for name, count in zip(names, (3, 1, 4), strict=True)
    }
    partition = described[names[0]].partitions[2]
    assert (partition.leader, partition.replicas, partition.eligible_leader_replicas) == (0, (0,), ())
    everything = admin.describe_topics()
    assert {name: everything[name] for name in names} == described
    assert admin.describe_topics([]) == {}


def test_an_empty_page_that_goes_on_is_to_be_asked_for_again() -> None:
    """It is of a broker that has just come and knows no topics yet: another one may know them."""
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=Cursor(topic_name=""))
    connection = mock.Mock(pick=lambda key: 0, send=mock.AsyncMock(return_value=response))
    with pytest.raises(LeaderNotAvailableError) as caught:
        asyncio.run(topic_states._pages(connection, None))
    assert caught.value.retriable
    assert connection.send.await_count == 1


def test_topics_of_brokers_that_have_no_pages() -> None:
    with Broker(kafka_version="2.2") as old, Admin(bootstrap_servers=old.bootstrap_servers) as client:
        client.create_topics([NewTopic("t", 2, 1)])
        for described in (client.describe_topics(), client.describe_topics(["t"])):
            assert [p.leader for p in described["t"].partitions] == [0, 0]
            assert described["t"].partitions[0].eligible_leader_replicas is None
        with pytest.raises(UnknownTopicOrPartitionError):
            client.describe_topics(["t", "u"])
