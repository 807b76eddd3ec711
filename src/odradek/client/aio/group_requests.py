"""Questions about a group: who coordinates it, and what it has committed."""

from __future__ import annotations

from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.core.find_coordinator import find_coordinator_request, learn_coordinator
from odradek.client.core.group_offsets import committed_in, offset_fetch_request
from odradek.client.types import Node, OffsetAndMetadata, TopicPartition
from odradek.wire.api import ApiKey

COORDINATOR = "coordinator"
"""The connection of its own, so that heartbeats do not wait behind anything."""


async def find_coordinator(cluster: Cluster, group_id: str, key_type: int = 0) -> Node:
    """Ask any broker once who coordinates a group. Raises `KafkaError`."""
    connection = await cluster.any_connection()
    version = connection.pick(ApiKey.FIND_COORDINATOR)
    answer = await connection.send(find_coordinator_request(group_id, key_type, version), version)
    return learn_coordinator(cluster.metadata, answer)


async def fetch_committed(
    connection: Any, group_id: str, wanted: list[TopicPartition] | None, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask a coordinator for a group's committed offsets (None: all of them). Raises `KafkaError`.

    Partitions without one are left out.
    """
    version = connection.pick(ApiKey.OFFSET_FETCH, at_least=2 if wanted is None else None)
    request = offset_fetch_request(group_id, wanted, version, require_stable)
    return committed_in(await connection.send(request, version), version)
