"""Questions about a group: who coordinates it, and what it has committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.core.produce import to_code
from odradek.client.types import Node, OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, error_for
from odradek.wire.api import ApiKey
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

COORDINATOR = "coordinator"
"""The connection of its own, so that heartbeats do not wait behind anything."""


async def find_coordinator(cluster: Cluster, group_id: str, key_type: int = 0) -> Node:
    """Ask any broker once who coordinates a group. Raises `KafkaError`."""
    connection = await cluster.any_connection()
    version = connection.pick(ApiKey.FIND_COORDINATOR)
    request = FindCoordinatorRequest(coordinator_keys=[group_id], key_type=key_type)
    if version < 4:
        request = FindCoordinatorRequest(key=group_id, key_type=key_type)
    answer = await connection.send(request, version)
    if version >= 4:
        if not answer.coordinators:
            raise error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer = answer.coordinators[0]
    if answer.error_code:
        raise error_for(answer.error_code, answer.error_message or to_code(answer.error_code).message)
    node = cluster.metadata.brokers.get(answer.node_id)
    if node is None or (node.host, node.port) != (answer.host, answer.port):
        node = cluster.metadata.brokers[answer.node_id] = Node(answer.node_id, answer.host, answer.port)
    return node


async def fetch_committed(
    connection: Any, group_id: str, wanted: list[TopicPartition] | None, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask a coordinator for a group's committed offsets (None: all of them). Raises `KafkaError`.

    Partitions without one are left out.
    """
    version = connection.pick(ApiKey.OFFSET_FETCH, at_least=2 if wanted is None else None)
    by_topic: dict[str, list[int]] = {}
    for tp in wanted or ():
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    stable = require_stable and version >= 7
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name=n, partition_indexes=p) for n, p in by_topic.items()]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None if wanted is None else topics)],
            require_stable=stable,
        )
    else:
        old = [OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in by_topic.items()]
        request = OffsetFetchRequest(
            group_id=group_id, topics=None if wanted is None else old, require_stable=stable
        )
    answer = await connection.send(request, version)
    if version >= 8:
        answer = answer.groups[0]
    if answer.error_code:
        raise error_for(answer.error_code)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            if p.error_code:
                code = to_code(p.error_code)
                raise error_for(code, f"{topic.name}-{p.partition_index}: {code.message}")
            if p.committed_offset >= 0:
                found[TopicPartition(topic.name, p.partition_index)] = OffsetAndMetadata(
                    p.committed_offset, p.metadata or "", p.committed_leader_epoch
                )
    return found


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
) -> OffsetCommitRequest:
    """An OffsetCommit; without a member, for a group that has none."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, committed in offsets.items():
        topics.setdefault(tp.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()],
    )
