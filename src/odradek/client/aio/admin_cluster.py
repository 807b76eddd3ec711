"""The cluster itself: its brokers, its controller, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.client.aio.admin_base import AdminBase, check
from odradek.client.core.connection import SOFTWARE
from odradek.client.errors import IllegalArgumentError
from odradek.client.types import (
    ApiVersionRange,
    ClusterDescription,
    FeatureMetadata,
    Node,
    QuorumInfo,
    QuorumReplica,
    VersionRange,
)
from odradek.errors import ErrorCode, error_for
from odradek.wire.api import ApiKey

_UPGRADE_TYPES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}


class ClusterAdmin(AdminBase):
    """The calls about the cluster and its brokers."""

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """Brokers, controller, cluster id.

        Args:
            include_fenced_brokers: also those that are registered, but not serving (KIP-1073).

        Raises:
            UnsupportedByBrokerError: fenced brokers are asked for, of a broker older than Kafka 4.0.
        """
        from odradek.wire.messages.describe_cluster import DescribeClusterRequest

        cluster = self._started()

        async def step() -> ClusterDescription:
            connection = await cluster.any_connection()
            if not connection.has_api(ApiKey.DESCRIBE_CLUSTER) and not include_fenced_brokers:
                from odradek.wire.messages.metadata import MetadataRequest

                version = connection.pick(ApiKey.METADATA)
                old = await connection.send(
                    MetadataRequest(topics=[], allow_auto_topic_creation=version < 4), version
                )
                nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in old.brokers}
                return ClusterDescription(old.cluster_id, nodes.get(old.controller_id), _sorted(nodes))
            version = connection.pick(ApiKey.DESCRIBE_CLUSTER, at_least=2 if include_fenced_brokers else 0)
            request = DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)
            response = await connection.send(request, version)
            check(response.error_code, "cluster", response.error_message)
            nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
            fenced = frozenset(b.broker_id for b in response.brokers if b.is_fenced)
            return ClusterDescription(
                response.cluster_id, nodes.get(response.controller_id), _sorted(nodes), fenced
            )

        return await self._retry("describe cluster", step)

    async def describe_features(self, node_id: int | None = None) -> FeatureMetadata:
        """The features of the cluster, as a broker (None: any) has them (KIP-584).

        Raises:
            UnsupportedByBrokerError: the broker is older than Kafka 2.4.
        """
        from odradek.wire.messages.api_versions import ApiVersionsRequest

        name, number = SOFTWARE
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)

        async def step() -> FeatureMetadata:
            connection = await self._connection_to(node_id)
            version = connection.pick(ApiKey.API_VERSIONS, at_least=3)
            response = await connection.send(request, version)
            check(response.error_code, "features")
            epoch = response.finalized_features_epoch
            return FeatureMetadata(
                {
                    feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
                    for feature in response.finalized_features
                },
                None if epoch < 0 else epoch,
                {
                    feature.name: VersionRange(feature.min_version, feature.max_version)
                    for feature in response.supported_features
                },
            )

        return await self._retry("features", step)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: str = "upgrade",
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Raise or lower the levels of features (KIP-584, KIP-778).

        Args:
            levels: feature → level; 0 turns it off.
            upgrade_type: 'upgrade', 'safe_downgrade' or 'unsafe_downgrade'.
            validate_only: only say whether they could be changed.
            timeout_ms: how long the controller may take, milliseconds; None: `request_timeout_ms`.

        Raises:
            InvalidUpdateVersionError, FeatureUpdateFailedError: a level cannot be had.
            UnsupportedByBrokerError: the controller is older than Kafka 3.3.
        """
        from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

        if upgrade_type not in _UPGRADE_TYPES:
            raise IllegalArgumentError(f"upgrade_type {upgrade_type!r}: one of {', '.join(_UPGRADE_TYPES)}")
        request = UpdateFeaturesRequest(
            timeout_ms=timeout_ms or self._config.request_timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=_UPGRADE_TYPES[upgrade_type]
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response = await self._controller(
            "update features", request, lambda response: int(response.error_code), at_least=1
        )
        check(response.error_code, "features", response.error_message)
        for result in response.results or ():
            check(result.error_code, f"feature {result.feature!r}", result.error_message)

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """The quorum of the cluster's metadata (KIP-595, KIP-836).

        Raises:
            UnsupportedByBrokerError: the cluster has ZooKeeper, or is older than Kafka 3.3.
        """
        from odradek.wire.messages import describe_quorum as messages

        partition = messages.DescribeQuorumPartition(partition_index=0)
        topic = messages.DescribeQuorumTopic(topic_name="__cluster_metadata", partitions=[partition])
        request = messages.DescribeQuorumRequest(topics=[topic])
        response = await self._controller(
            "metadata quorum", request, lambda response: int(response.error_code)
        )
        check(response.error_code, "metadata quorum", response.error_message)
        answers = [answer for topic in response.topics for answer in topic.partitions]
        if not answers:
            raise error_for(
                ErrorCode.UNKNOWN_SERVER_ERROR, "metadata quorum: the broker did not answer for it"
            )
        quorum = answers[0]
        check(quorum.error_code, "metadata quorum", quorum.error_message)
        return QuorumInfo(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.high_watermark,
            tuple(map(_quorum_replica, quorum.current_voters)),
            tuple(map(_quorum_replica, quorum.observers)),
            {
                node.node_id: tuple((listener.host, listener.port) for listener in node.listeners)
                for node in response.nodes or ()
            },
        )

    async def api_versions(self, node_id: int | None = None) -> list[ApiVersionRange]:
        """Return the versions that a broker (None: any) offers, by key."""

        async def step() -> list[ApiVersionRange]:
            connection = await self._connection_to(node_id)
            ranges = connection.state.versions.ranges
            return [ApiVersionRange(key, _api_name(key), *ranges[key]) for key in sorted(ranges)]

        return await self._retry("API versions", step)


def _quorum_replica(state: Any) -> QuorumReplica:
    fetched, caught_up = state.last_fetch_timestamp, state.last_caught_up_timestamp
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        None if fetched < 0 else fetched,
        None if caught_up < 0 else caught_up,
    )


def _sorted(nodes: Mapping[int, Node]) -> tuple[Node, ...]:
    return tuple(nodes[node] for node in sorted(nodes))


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).api_name
    except ValueError:
        return ""
