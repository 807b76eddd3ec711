"""The way to a group's coordinator: found when needed, found again when it moved, and asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.core.find_coordinator import (
    coordinators_in,
    find_coordinator_request,
    find_coordinator_requests,
    learn_answer,
    learn_coordinator,
)
from odradek.client.core.group_offsets import committed_in, offset_fetch_request
from odradek.client.errors import ConnectionFailedError
from odradek.client.types import Node, OffsetAndMetadata, TopicPartition
from odradek.errors import KafkaError
from odradek.wire.api import ApiKey

COORDINATOR = "coordinator"
"""The connection of its own, so that heartbeats do not wait behind anything."""


async def find_coordinator(cluster: Cluster, group_id: str, key_type: int = 0) -> Node:
    """Ask any broker once who coordinates a group.

    Raises:
        KafkaError: no broker can be asked, or it does not say.
    """
    connection = await cluster.any_connection()
    version = connection.pick(ApiKey.FIND_COORDINATOR)
    answer = await connection.send(find_coordinator_request(group_id, key_type, version), version)
    return learn_coordinator(cluster.metadata, answer)


async def find_coordinators(
    cluster: Cluster, keys: Sequence[str], key_type: int = 0
) -> dict[str, Node | KafkaError]:
    """Ask any broker once who coordinates several groups, or transactional ids (`key_type` 1).

    Returns: what it says of each; a key of which it says nothing is missing.

    Raises:
        KafkaError: no broker can be asked.
    """
    connection = await cluster.any_connection()
    version = connection.pick(ApiKey.FIND_COORDINATOR)
    requests = find_coordinator_requests(keys, key_type, version)
    responses = await asyncio.gather(*(connection.send(request, version) for request in requests))
    coordinators: dict[str, Node | KafkaError] = {}
    for request, response in zip(requests, responses, strict=True):
        for key, answer in coordinators_in(request, response).items():
            try:
                coordinators[key] = learn_answer(cluster.metadata, answer)
            except KafkaError as problem:
                coordinators[key] = problem
    return coordinators


async def fetch_committed(
    connection: Any, group_id: str, partitions: list[TopicPartition] | None, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask a coordinator for a group's committed offsets (None: all of them).

    Partitions without one are left out.

    Raises:
        KafkaError: it cannot be asked, or does not say.
    """
    version = connection.pick(ApiKey.OFFSET_FETCH, at_least=2 if partitions is None else None)
    request = offset_fetch_request(group_id, partitions, version, require_stable)
    return committed_in(await connection.send(request, version), version, partitions)


class GroupLink:
    """The coordinator of one group, and requests to it.

    Args:
        cluster: connections and metadata.
        group_id: the group.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self.node: Node | None = None
        self._cluster = cluster

    async def coordinator(self) -> Node:
        """The coordinator, asked for once if unknown.

        Raises:
            KafkaError: as `find_coordinator`.
        """
        if self.node is None:
            self.node = await find_coordinator(self._cluster, self.group_id)
        return self.node

    def forget(self) -> None:
        """It moved, or cannot be reached."""
        self.node = None

    async def ask(self, message: Any, *, timeout_ms: float | None = None, at_most: int | None = None) -> Any:
        """Ask the coordinator once. A broken connection makes the coordinator unknown.

        Raises:
            KafkaError: it cannot be asked.
        """
        node = await self.coordinator()
        try:
            return await self._cluster.request(
                node.id, message, purpose=COORDINATOR, timeout_ms=timeout_ms, at_most=at_most
            )
        except ConnectionFailedError:
            self.forget()
            raise

    async def connection(self) -> Any:
        """A connection to the coordinator.

        Raises:
            KafkaError: as `ask`.
        """
        node = await self.coordinator()
        try:
            return await self._cluster.connection(node.id, COORDINATOR)
        except ConnectionFailedError:
            self.forget()
            raise

    async def sent(self, future: asyncio.Future[Any]) -> Any:
        """The answer to what was sent on such a connection.

        Raises:
            KafkaError: as `ask`.
        """
        try:
            return await future
        except ConnectionFailedError:
            self.forget()
            raise
