"""The way to a group's coordinator: found when needed, found again when it moved."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.group_requests import COORDINATOR, find_coordinator
from odradek.client.errors import ConnectionFailedError
from odradek.client.types import Node


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
        """The coordinator, asked for once if unknown. Raises `KafkaError`."""
        if self.node is None:
            self.node = await find_coordinator(self._cluster, self.group_id)
        return self.node

    def forget(self) -> None:
        """It moved, or cannot be reached."""
        self.node = None

    async def ask(self, message: Any, *, timeout_ms: float | None = None, at_most: int | None = None) -> Any:
        """Ask the coordinator once. Raises `KafkaError`; a broken connection makes the coordinator
        unknown.
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
        """A connection to the coordinator. Raises as `ask`."""
        node = await self.coordinator()
        try:
            return await self._cluster.connection(node.id, COORDINATOR)
        except ConnectionFailedError:
            self.forget()
            raise

    async def sent(self, future: asyncio.Future[Any]) -> Any:
        """The answer to what was sent on such a connection. Raises as `ask`."""
        try:
            return await future
        except ConnectionFailedError:
            self.forget()
            raise
