"""The admin clients against a broker."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from odradek.client import Admin, AsyncAdmin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.errors import ClientTimeoutError, ClosedError, UnsupportedByBrokerError
from odradek.errors import (
    GroupIdNotFoundError,
    GroupNotEmptyError,
    InvalidConfigurationError,
    InvalidRequestError,
    KafkaError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from odradek.testing import Broker
from waiting import until

from .conftest import new_topic


def test_a_partition_that_another_admin_has_made_is_not_taken_for_missing(
    admin: Admin, broker: Broker
) -> None:
    admin.create_topics([NewTopic("grown", 1, 1)])
    assert admin.list_offsets({("grown", 0): -1})[TopicPartition("grown", 0)].offset == 0
    with Admin(bootstrap_servers=broker.bootstrap_servers) as other:
        other.create_partitions({"grown": 3})
    assert admin.list_offsets({("grown", 1): -1})[TopicPartition("grown", 1)].offset == 0
    with Admin(bootstrap_servers=broker.bootstrap_servers) as other:
        other.create_partitions({"grown": 4})
    assert admin.describe_producers([("grown", 3)]) == {TopicPartition("grown", 3): []}
    with pytest.raises(UnknownTopicOrPartitionError, match="has no partition 4"):
        admin.list_offsets({("grown", 4): -1})


def test_topics_come_grow_and_go(admin: Admin) -> None:
    name = "admin-topic"
    made = admin.create_topics([NewTopic(name, 2, 1, configs={"retention.ms": "1000"})])
    assert len(made[name].partitions) == 2
    assert name in admin.list_topics()
    described = admin.describe_topics([name])[name]
    assert [p.partition for p in described.partitions] == [0, 1]
    assert described.topic_id == made[name].topic_id != bytes(16)
    assert described.partitions[0].replicas == described.partitions[0].in_sync_replicas
    admin.create_partitions({name: 5})
    assert len(admin.describe_topics([name])[name].partitions) == 5
    with pytest.raises(TopicExistsError, match=name):
        admin.create_topics([name])
    with pytest.raises(KafkaError):
        admin.create_partitions({name: 1})
    admin.delete_topics([name])
    assert name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_topics([name])


def test_the_good_ones_are_done_and_the_exception_has_all_the_bad(admin: Admin, topic: str) -> None:
    with pytest.raises(TopicExistsError) as caught:
        admin.create_topics([topic, "admin-new", "bad name!"])
    assert set(caught.value.errors) == {topic, "bad name!"}  # type: ignore[attr-defined]
    until(lambda: "admin-new" in admin.list_topics())


def test_validating_only_makes_nothing(admin: Admin) -> None:
    admin.create_topics([NewTopic("admin-not-made", 1, 1)], validate_only=True)
    assert "admin-not-made" not in admin.list_topics()


def test_configs(admin: Admin, topic: str) -> None:
    key = ("topic", topic)

    def set_by_hand() -> dict[str, str | None]:
        return {
            n: e.value for n, e in admin.describe_configs([("topic", topic)])[key].items() if e.source == 1
        }

    assert set_by_hand() == {}
    admin.incremental_alter_configs(
        {("topic", topic): {"retention.ms": "5000", "cleanup.policy": ("append", "compact")}}
    )
    assert set_by_hand() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"}
    admin.incremental_alter_configs({("topic", topic): {"retention.ms": None}})
    assert set_by_hand() == {"cleanup.policy": "delete,compact"}
    admin.alter_configs({("topic", topic): {"segment.bytes": "1000000"}})
    assert set_by_hand() == {"segment.bytes": "1000000"}
    entry = admin.describe_configs([("topic", topic)], names=["segment.bytes"], synonyms=True)[key]
    assert list(entry) == ["segment.bytes"]
    assert entry["segment.bytes"].synonyms
    with pytest.raises(InvalidConfigurationError):
        admin.incremental_alter_configs({("topic", topic): {"retention.ms": "soon"}})
    with pytest.raises(ValueError, match="operation"):
        admin.incremental_alter_configs({("topic", topic): {"retention.ms": ("multiply", "2")}})
    with pytest.raises(ValueError, match="resource"):
        admin.describe_configs([("planet", "x")])


def test_configs_of_a_broker(admin: Admin) -> None:
    (node,) = admin.describe_cluster().nodes
    described = admin.describe_configs([("broker", node.id)])[("broker", node.id)]
    assert described["log.dirs"].read_only
    with pytest.raises(InvalidRequestError, match="no broker 77"):
        admin.describe_configs([("broker", 77)])


def test_groups_and_their_offsets(servers: str, admin: Admin, topic: str, group: str) -> None:
    tps = [TopicPartition(topic, n) for n in range(3)]
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"x", partition=1).result(60)
    with Consumer(
        topic, group_id=group, bootstrap_servers=servers, auto_offset_reset="earliest", client_id="somebody"
    ) as consumer:
        until(lambda: consumer.poll(50))
        consumer.commit()
        listing = {g.group_id: g for g in admin.list_groups()}
        assert listing[group].state == "Stable"
        described = admin.describe_groups([group])[group]
        assert (described.state, described.protocol_type, described.protocol) == (
            "Stable",
            "consumer",
            "range",
        )
        (member,) = described.members
        assert (member.client_id, set(member.assignment)) == ("somebody", set(tps))
        assert described.coordinator is not None
        assert admin.list_group_offsets(group)[tps[1]].offset == 1
        with pytest.raises(GroupNotEmptyError):
            admin.delete_groups([group])
        with pytest.raises(KafkaError):
            admin.alter_group_offsets(group, {tps[0]: 5})
    assert admin.describe_groups([group])[group].state == "Empty"
    admin.alter_group_offsets(group, {tps[0]: OffsetAndMetadata(5, "note"), (topic, 1): 0})
    assert admin.list_group_offsets(group, [tps[0]]) == {tps[0]: OffsetAndMetadata(5, "note")}
    assert admin.list_group_offsets(group)[tps[1]].offset == 0
    assert {g.group_id for g in admin.list_groups(states=["Empty"])} >= {group}
    admin.delete_groups([group])
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_groups([group])
    assert admin.describe_groups([group])[group].state == "Dead"
    assert admin.list_group_offsets(group) == {}


def test_static_members_can_be_removed(servers: str, admin: Admin, topic: str, group: str) -> None:
    consumer = Consumer(topic, group_id=group, group_instance_id="one", bootstrap_servers=servers)
    until(lambda: consumer.poll(50) == [] and consumer.assignment())
    consumer.close()
    assert len(admin.describe_groups([group])[group].members) == 1, "a static member stays when it closes"
    admin.remove_members(group, ["one"])
    assert admin.describe_groups([group])[group].members == ()


def test_records_are_deleted_and_offsets_listed(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(10):
            producer.send(topic, b"x", timestamp_ms=1_700_000_000_000 + i)
    assert admin.list_offsets({tp: -1})[tp].offset == 10
    assert admin.list_offsets({tp: 1_700_000_000_004})[tp][:2] == (4, 1_700_000_000_004)
    assert admin.list_offsets({tp: -3})[tp].timestamp == 1_700_000_000_009
    assert admin.delete_records({tp: 4}) == {tp: 4}
    assert admin.list_offsets({tp: -2})[tp].offset == 4
    with pytest.raises(KafkaError):
        admin.delete_records({tp: 99})
    assert admin.delete_records({tp: -1}) == {tp: 10}


def test_the_cluster_and_its_versions(admin: Admin, servers: str) -> None:
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller == cluster.nodes[0]
    assert f"{cluster.nodes[0].host}:{cluster.nodes[0].port}" == servers
    versions = {v.api_name: v for v in admin.api_versions(cluster.nodes[0].id)}
    assert versions["Produce"].max_version >= 9
    assert "ApiVersions" in versions


def test_what_the_broker_does_not_offer_is_told() -> None:
    with Broker(kafka_version="2.2") as old, Admin(bootstrap_servers=old.bootstrap_servers) as client:
        client.create_topics([NewTopic("t", 1, 1)])
        client.alter_group_offsets("g", {("t", 0): 1})
        with pytest.raises(UnsupportedByBrokerError, match="does not offer OffsetDelete"):
            client.delete_group_offsets("g", [("t", 0)])


def test_an_unreachable_cluster_is_told_with_the_reason() -> None:
    client = Admin(bootstrap_servers="127.0.0.1:1,127.0.0.1:2", default_api_timeout_ms=400)
    with client, pytest.raises(ClientTimeoutError, match=r"127\.0\.0\.1:[12]: .*refused"):
        client.list_topics()
    with pytest.raises(ClosedError):
        client.list_topics()


def test_the_asyncio_admin_and_the_other_have_the_same_methods(servers: str) -> None:
    def public(cls: type) -> dict[str, Any]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_")
        }

    assert public(Admin) == public(AsyncAdmin)

    async def run() -> None:
        async with AsyncAdmin(bootstrap_servers=servers) as client:
            await client.create_topics(["admin-async"])
            assert "admin-async" in await client.list_topics()
            await client.delete_topics(["admin-async"])

    asyncio.run(run())
