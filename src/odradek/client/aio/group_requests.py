"""Questions about a group: who coordinates it, and what it has committed."""

from __future__ import annotations

from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.core.group_offsets import committed_in, offset_fetch_request
from odradek.client.core.produce import to_code
from odradek.client.types import Node, OffsetAndMetadata, TopicPartition
from odradek.errors import ErrorCode, error_for
from odradek.wire.api import ApiKey
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest

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
    request = offset_fetch_request(group_id, wanted, version, require_stable)
    return committed_in(await connection.send(request, version), version)
