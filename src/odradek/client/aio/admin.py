"""`AsyncAdmin`: topics, configs, groups, offsets, placement, quotas, credentials, ACLs, transactions, the
cluster.

Calls about several things return a dictionary and raise the first error after all were asked; `errors` on the
exception has the others. A request that may go to any broker does; one for the controller, a
leader or a coordinator goes there, and is tried again where these have moved.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.aio.admin_access import AccessAdmin
from odradek.client.aio.admin_acls import AclAdmin
from odradek.client.aio.admin_base import check
from odradek.client.aio.admin_configs import ConfigAdmin
from odradek.client.aio.admin_groups import GroupAdmin
from odradek.client.aio.admin_placement import PlacementAdmin
from odradek.client.aio.admin_tokens import TokenAdmin
from odradek.client.aio.admin_topics import TopicAdmin
from odradek.client.aio.admin_transactions import TransactionAdmin
from odradek.client.aio.cluster import check_loop
from odradek.client.types import (
    ApiVersionRange,
    ClusterDescription,
    Node,
)
from odradek.wire.api import ApiKey


class AsyncAdmin(
    TopicAdmin,
    ConfigAdmin,
    GroupAdmin,
    PlacementAdmin,
    AccessAdmin,
    AclAdmin,
    TokenAdmin,
    TransactionAdmin,
):
    """The administrator, for coroutines.

        async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092") as admin:
            await admin.create_topics([NewTopic("events", num_partitions=6)])

    Every call takes at most `default_api_timeout_ms`, and raises `KafkaError` (`ClientTimeoutError` after
    that time). Where one call names several things and some fail, the others are done; the exception is
    that of the first, with all of them in its attribute `errors`.

    Args:
        config, configs: Kafka's admin configs under Python's names or, in a mapping, Kafka's.

    Raises:
        ConfigError: a config that cannot be used.
    """

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

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._cluster is not None:
            check_loop(self._cluster)
            await self._cluster.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _sorted(nodes: Mapping[int, Node]) -> tuple[Node, ...]:
    return tuple(nodes[node] for node in sorted(nodes))


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).api_name
    except ValueError:
        return ""
