"""The cluster itself: its brokers, its controller, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.aio.admin_base import AdminBase, check
from odradek.client.types import ApiVersionRange, ClusterDescription, Node
from odradek.wire.api import ApiKey


class ClusterAdmin(AdminBase):
    """The calls about the cluster and its brokers."""

    async def describe_cluster(self) -> ClusterDescription:
        """Brokers, controller, cluster id."""
        from odradek.wire.messages.describe_cluster import DescribeClusterRequest

        cluster = self._started()

        async def step() -> ClusterDescription:
            connection = await cluster.any_connection()
            if not connection.has_api(ApiKey.DESCRIBE_CLUSTER):
                from odradek.wire.messages.metadata import MetadataRequest

                version = connection.pick(ApiKey.METADATA)
                old = await connection.send(
                    MetadataRequest(topics=[], allow_auto_topic_creation=version < 4), version
                )
                nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in old.brokers}
                return ClusterDescription(old.cluster_id, nodes.get(old.controller_id), _sorted(nodes))
            version = connection.pick(ApiKey.DESCRIBE_CLUSTER)
            response = await connection.send(DescribeClusterRequest(), version)
            check(response.error_code, "cluster", response.error_message)
            nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
            return ClusterDescription(response.cluster_id, nodes.get(response.controller_id), _sorted(nodes))

        return await self._retry("describe cluster", step)

    async def api_versions(self, node_id: int | None = None) -> list[ApiVersionRange]:
        """Return the versions that a broker (None: any) offers, by key."""

        async def step() -> list[ApiVersionRange]:
            connection = await self._connection_to(node_id)
            ranges = connection.state.versions.ranges
            return [ApiVersionRange(key, _api_name(key), *ranges[key]) for key in sorted(ranges)]

        return await self._retry("API versions", step)


def _sorted(nodes: Mapping[int, Node]) -> tuple[Node, ...]:
    return tuple(nodes[node] for node in sorted(nodes))


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).api_name
    except ValueError:
        return ""
