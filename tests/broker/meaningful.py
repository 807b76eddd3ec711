"""For each API a short walk of requests that mean something, in a given version, and what must come of it.

The broker has the topic `orders` with two partitions of five records and the group `readers` with offset 3
committed for the first of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker.apis.registry import SERVED
from odradek.errors.codes import ErrorCode
from odradek.records.message_sets.message_set import iter_all_records
from odradek.wire.api import ApiKey
from odradek.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    describe_configs,
    describe_quorum,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
)
from odradek.wire.messages import delete_topics as deletion
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from . import live
from .sweep import Sweeper, error_codes

TOPIC, GROUP = "orders", "readers"
NEW = "made-here"

Walk = Callable[[Sweeper, int], Awaitable[None]]
WALKS: dict[ApiKey, Walk] = {}


def walk(key: ApiKey) -> Callable[[Walk], Walk]:
    def register(function: Walk) -> Walk:
        WALKS[key] = function
        return function

    return register


def topic_id(sweeper: Sweeper) -> bytes:
    return sweeper.broker.image.topic_id(TOPIC)


def names(version: int, ids_from: int, sweeper: Sweeper, field: str = "name") -> dict[str, Any]:
    """How a version names the topic."""
    return {"topic_id": topic_id(sweeper)} if version >= ids_from else {field: TOPIC}


async def fine(sweeper: Sweeper, message: Any, version: int) -> Any:
    """Ask, and find no error in the answer."""
    answer = await sweeper.ask(message, version)
    assert set(error_codes(answer)) <= {ErrorCode.NONE}, answer
    return answer


@walk(ApiKey.PRODUCE)
async def produce(sweeper: Sweeper, version: int) -> None:
    named = {"topic": "", "topic_id": topic_id(sweeper)} if version >= 13 else {"topic": TOPIC}
    before = sweeper.broker.replicas.get(TOPIC, 0).log.log_end_offset
    for acks in (-1, 1):
        answer = await fine(sweeper, live.produce(records=live.batch(), acks=acks, **named), version)
        (partition,) = answer.responses[0].partition_responses
        assert partition.base_offset == before
        before += 1
    message = live.produce(records=live.batch(), acks=0, **named)
    await sweeper.send_unanswered(version, message.encode(version))
    assert sweeper.broker.replicas.get(TOPIC, 0).log.log_end_offset == before + 1


@walk(ApiKey.FETCH)
async def fetch(sweeper: Sweeper, version: int) -> None:
    named = {"topic": "", "topic_id": topic_id(sweeper)} if version >= 13 else {"topic": TOPIC}
    answer = await fine(sweeper, live.fetch(offset=2, **named), version)
    (partition,) = answer.responses[0].partitions
    assert partition.high_watermark == 5
    offsets = [record.offset for record in iter_all_records(partition.records)]
    assert offsets == ([0, 1, 2, 3, 4] if version >= 4 else [2, 3, 4]), "the whole batch, or its messages"
    # A long poll that nothing ends but its time.
    answer = await fine(sweeper, live.fetch(offset=5, max_wait_ms=500, **named), version)
    assert not answer.responses[0].partitions[0].records
    if version >= 7:
        opened = await fine(sweeper, live.fetch(offset=5, session_epoch=0, **named), version)
        again = live.fetch(offset=5, session_id=opened.session_id, session_epoch=1, **named)
        again.topics = []
        answer = await fine(sweeper, again, version)
        assert (answer.session_id, answer.responses) == (opened.session_id, [])


@walk(ApiKey.LIST_OFFSETS)
async def look_up_offsets(sweeper: Sweeper, version: int) -> None:
    for timestamp, offset in ((-2, 0), (-1, 5), (0, 0), (2**62, -1)):
        partition = list_offsets.ListOffsetsPartition(partition_index=1, timestamp=timestamp)
        topics = [list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
        answer = await fine(sweeper, list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics), version)
        (found,) = answer.topics[0].partitions
        if version:
            assert found.offset == offset
        else:
            # Where segments begin, by the time of their files; the log's end counts as now.
            assert found.old_style_offsets == {-2: [0], -1: [5], 0: [], 2**62: [5]}[timestamp]


@walk(ApiKey.METADATA)
async def describe_topics(sweeper: Sweeper, version: int) -> None:
    by_name = [metadata.MetadataRequestTopic(name=TOPIC)]
    every = [] if version == 0 else None
    asked = [by_name, every]
    if version >= 12:
        asked.append([metadata.MetadataRequestTopic(name=None, topic_id=topic_id(sweeper))])
    for topics in asked:
        answer = await fine(sweeper, metadata.MetadataRequest(topics=topics), version)
        (found,) = [one for one in answer.topics if one.name == TOPIC]
        assert [one.leader_id for one in found.partitions] == [0, 0]
        assert [(one.host, one.port) for one in answer.brokers] == [
            (sweeper.broker.image.brokers[0].endpoint("PLAINTEXT").host, sweeper.broker.port)  # type: ignore[union-attr]
        ]


@walk(ApiKey.OFFSET_COMMIT)
async def commit(sweeper: Sweeper, version: int) -> None:
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=1, committed_offset=version, committed_metadata="note"
    )
    topics = [
        offset_commit.OffsetCommitRequestTopic(
            name="" if version >= 10 else TOPIC, topic_id=topic_id(sweeper), partitions=[partition]
        )
    ]
    await fine(sweeper, offset_commit.OffsetCommitRequest(group_id=GROUP, topics=topics), version)
    wanted = [offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[1])]
    request = offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=wanted)
    answer = await fine(sweeper, request, 0 if version == 0 else 5)
    assert answer.topics[0].partitions[0].committed_offset == version


@walk(ApiKey.OFFSET_FETCH)
async def fetch_offsets(sweeper: Sweeper, version: int) -> None:
    if version == 0:
        await commit(sweeper, 0)
    if version < 8:
        topics = [offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        request = offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=topics)
        if version == 0:
            request.topics[0].partition_indexes = [1]
        answer = await fine(sweeper, request, version)
        assert answer.topics[0].partitions[0].committed_offset == (0 if version == 0 else 3)
        if version >= 2:
            answer = await fine(
                sweeper, offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=None), version
            )
            assert answer.topics[0].partitions[0].committed_offset == 3
        return
    several = [
        offset_fetch.OffsetFetchRequestTopics(
            name="" if version >= 10 else TOPIC, topic_id=topic_id(sweeper), partition_indexes=[0]
        )
    ]
    for topics in (several, None):
        groups = [
            offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=topics),
            offset_fetch.OffsetFetchRequestGroup(group_id="another", topics=[]),
        ]
        answer = await fine(sweeper, offset_fetch.OffsetFetchRequest(groups=groups), version)
        known, unknown = answer.groups
        assert known.topics[0].partitions[0].committed_offset == 3
        assert (unknown.group_id, unknown.topics) == ("another", [])


@walk(ApiKey.FIND_COORDINATOR)
async def find(sweeper: Sweeper, version: int) -> None:
    fields = {"key": GROUP} if version < 4 else {"coordinator_keys": [GROUP, "another"]}
    answer = await fine(sweeper, FindCoordinatorRequest(**fields), version)
    if version < 4:
        assert (answer.node_id, answer.port) == (0, sweeper.broker.port)
    else:
        assert [(one.key, one.port) for one in answer.coordinators] == [
            (GROUP, sweeper.broker.port),
            ("another", sweeper.broker.port),
        ]


async def member(sweeper: Sweeper, group: str, version: int = 9) -> tuple[str, int]:
    """Become the only member of a group; returns its id and the generation."""

    def request(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0")],
        )

    answer = await sweeper.ask(request(""), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        answer = await sweeper.ask(request(answer.member_id), version)
    assert answer.error_code == ErrorCode.NONE, answer
    assert answer.leader == answer.member_id
    return answer.member_id, answer.generation_id


async def synced(sweeper: Sweeper, group: str, version: int = 5) -> tuple[str, int]:
    """A member with its assignment."""
    member_id, generation = await member(sweeper, group)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"yours")],
    )
    answer = await fine(sweeper, request, version)
    assert answer.assignment == b"yours"
    return member_id, generation


@walk(ApiKey.JOIN_GROUP)
async def join(sweeper: Sweeper, version: int) -> None:
    _, generation = await member(sweeper, f"joined-{version}", version)
    assert generation == 1


@walk(ApiKey.SYNC_GROUP)
async def sync(sweeper: Sweeper, version: int) -> None:
    await synced(sweeper, f"synced-{version}", version)


@walk(ApiKey.HEARTBEAT)
async def heartbeat(sweeper: Sweeper, version: int) -> None:
    group = f"beating-{version}"
    member_id, generation = await synced(sweeper, group)
    request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation)
    await fine(sweeper, request, version)


@walk(ApiKey.LEAVE_GROUP)
async def leave(sweeper: Sweeper, version: int) -> None:
    group = f"left-{version}"
    member_id, _ = await synced(sweeper, group)
    if version < 3:
        request = LeaveGroupRequest(group_id=group, member_id=member_id)
    else:
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
    await fine(sweeper, request, version)
    described = await fine(sweeper, DescribeGroupsRequest(groups=[group]), 5)
    assert described.groups[0].group_state == "Empty"


@walk(ApiKey.DESCRIBE_GROUPS)
async def describe_group(sweeper: Sweeper, version: int) -> None:
    group = f"described-{version}"
    member_id, _ = await synced(sweeper, group)
    answer = await fine(sweeper, DescribeGroupsRequest(groups=[group, GROUP]), version)
    assert [(one.group_state, one.protocol_data) for one in answer.groups] == [
        ("Stable", "range"),
        ("Empty", ""),
    ]
    (only,) = answer.groups[0].members
    assert (only.member_id, only.member_assignment) == (member_id, b"yours")


@walk(ApiKey.LIST_GROUPS)
async def list_groups(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, ListGroupsRequest(), version)
    assert [group.group_id for group in answer.groups] == [GROUP]
    if version >= 4:
        answer = await fine(sweeper, ListGroupsRequest(states_filter=["Stable"]), version)
        assert answer.groups == []


@walk(ApiKey.DELETE_GROUPS)
async def delete_group(sweeper: Sweeper, version: int) -> None:
    group = f"deleted-{version}"
    member_id, _ = await synced(sweeper, group)
    answer = await sweeper.ask(DeleteGroupsRequest(groups_names=[group]), version)
    assert error_codes(answer) == [ErrorCode.NON_EMPTY_GROUP]
    await fine(sweeper, LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]), 5)
    await fine(sweeper, DeleteGroupsRequest(groups_names=[group]), version)


@walk(ApiKey.OFFSET_DELETE)
async def delete_offset(sweeper: Sweeper, version: int) -> None:
    topics = [
        offset_delete.OffsetDeleteRequestTopic(
            name=TOPIC, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
        )
    ]
    await fine(sweeper, offset_delete.OffsetDeleteRequest(group_id=GROUP, topics=topics), version)


@walk(ApiKey.API_VERSIONS)
async def api_versions(sweeper: Sweeper, version: int) -> None:
    request = ApiVersionsRequest()
    if version >= 3:
        request.client_software_name = request.client_software_version = "test-1.0"
    answer = await fine(sweeper, request, version)
    assert {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys} == {
        key: served.versions for key, served in SERVED.items() if served.listed
    }


@walk(ApiKey.CREATE_TOPICS)
async def create(sweeper: Sweeper, version: int) -> None:
    name = f"{NEW}-{version}"
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=3,
        replication_factor=1,
        configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="1000")],
    )
    if version >= 1:
        await fine(sweeper, create_topics.CreateTopicsRequest(topics=[topic], validate_only=True), version)
        assert sweeper.broker.image.topic(name) is None
    answer = await fine(sweeper, create_topics.CreateTopicsRequest(topics=[topic]), version)
    if version >= 5:
        assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (3, 1)
    if version >= 7:
        assert answer.topics[0].topic_id == sweeper.broker.image.topic_id(name)
    again = await sweeper.ask(create_topics.CreateTopicsRequest(topics=[topic]), version)
    assert ErrorCode.TOPIC_ALREADY_EXISTS in error_codes(again)


@walk(ApiKey.DELETE_TOPICS)
async def delete(sweeper: Sweeper, version: int) -> None:
    first = await live.create_topic(sweeper.broker, NEW)
    if version < 6:
        await fine(sweeper, deletion.DeleteTopicsRequest(topic_names=[NEW]), version)
    else:
        by_id = [deletion.DeleteTopicState(name=None, topic_id=first)]
        await fine(sweeper, deletion.DeleteTopicsRequest(topics=by_id), version)
        await live.create_topic(sweeper.broker, NEW)
        by_name = [deletion.DeleteTopicState(name=NEW)]
        await fine(sweeper, deletion.DeleteTopicsRequest(topics=by_name), version)
    assert sweeper.broker.image.topic(NEW) is None


@walk(ApiKey.CREATE_PARTITIONS)
async def add_partitions(sweeper: Sweeper, version: int) -> None:
    name = f"{NEW}-{version}"
    await live.create_topic(sweeper.broker, name)
    topics = [create_partitions.CreatePartitionsTopic(name=name, count=4, assignments=None)]
    await fine(sweeper, create_partitions.CreatePartitionsRequest(topics=topics), version)
    assert len(sweeper.broker.image.topics[name].partitions) == 4


@walk(ApiKey.DELETE_RECORDS)
async def delete_up_to(sweeper: Sweeper, version: int) -> None:
    partitions = [delete_records.DeleteRecordsPartition(partition_index=0, offset=version + 1)]
    topics = [delete_records.DeleteRecordsTopic(name=TOPIC, partitions=partitions)]
    answer = await fine(sweeper, delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=1000), version)
    assert answer.topics[0].partitions[0].low_watermark == version + 1


@walk(ApiKey.INIT_PRODUCER_ID)
async def producer_id(sweeper: Sweeper, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    ids = [(await fine(sweeper, request, version)).producer_id for _ in range(2)]
    assert 0 <= ids[0] < ids[1]


@walk(ApiKey.OFFSET_FOR_LEADER_EPOCH)
async def epoch_end(sweeper: Sweeper, version: int) -> None:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=1, leader_epoch=0)
    topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])]
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics)
    answer = await fine(sweeper, request, version)
    assert answer.topics[0].partitions[0].end_offset == 5


@walk(ApiKey.DESCRIBE_CONFIGS)
async def configs(sweeper: Sweeper, version: int) -> None:
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind, name in ((2, TOPIC), (4, "0"), (4, ""), (8, "0"))
    ]
    request = describe_configs.DescribeConfigsRequest(resources=resources)
    request.include_synonyms = version >= 1
    request.include_documentation = version >= 3
    answer = await fine(sweeper, request, version)
    of_topic = {entry.name: entry.value for entry in answer.results[0].configs}
    assert of_topic["cleanup.policy"] == "delete"
    assert len(answer.results[1].configs) > 100


@walk(ApiKey.ALTER_CONFIGS)
async def replace(sweeper: Sweeper, version: int) -> None:
    config = alter_configs.AlterableConfig(name="retention.ms", value=str(version + 1000))
    resources = [alter_configs.AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[config])]
    await fine(sweeper, alter_configs.AlterConfigsRequest(resources=resources), version)
    assert sweeper.broker.image.topic_config(TOPIC) == {"retention.ms": str(version + 1000)}


@walk(ApiKey.INCREMENTAL_ALTER_CONFIGS)
async def alter(sweeper: Sweeper, version: int) -> None:
    config = incremental_alter_configs.AlterableConfig(
        name="cleanup.policy", config_operation=2, value="compact"
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=2, resource_name=TOPIC, configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    await fine(sweeper, request, version)
    assert sweeper.broker.image.topic_config(TOPIC) == {"cleanup.policy": "delete,compact"}


@walk(ApiKey.DESCRIBE_QUORUM)
async def quorum(sweeper: Sweeper, version: int) -> None:
    partition = describe_quorum.DescribeQuorumPartition(partition_index=0)
    topic = describe_quorum.DescribeQuorumTopic(topic_name="__cluster_metadata", partitions=[partition])
    answer = await fine(sweeper, describe_quorum.DescribeQuorumRequest(topics=[topic]), version)
    assert [one.replica_id for one in answer.topics[0].partitions[0].current_voters] == [0]


@walk(ApiKey.DESCRIBE_CLUSTER)
async def cluster(sweeper: Sweeper, version: int) -> None:
    answer = await fine(sweeper, DescribeClusterRequest(), version)
    assert answer.cluster_id == sweeper.broker.cluster_id
    assert [one.broker_id for one in answer.brokers] == [0]
