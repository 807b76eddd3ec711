"""Topics as a broker tells of them: in pages where it can (KIP-966), else by Metadata."""

from __future__ import annotations

from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.core.metadata import CREATION_FROM, metadata_topics
from odradek.client.types import PartitionInfo, TopicDescription
from odradek.errors import LeaderNotAvailableError
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import INTERNAL_TOPICS
from odradek.wire.primitives import ZERO_UUID

_PARTITIONS_PER_PAGE = 2000
"""As many as brokers give at most by default (`max.request.partition.size.limit`, KIP-966)."""


async def topic_states(cluster: Cluster, topics: list[str] | None) -> list[Any]:
    """Ask any broker for topics (None: for all), once.

    Returns: what it says of each, those that it does not know included; perhaps of others, too.

    Raises:
        KafkaError: none can be asked.
    """
    connection = await cluster.any_connection()
    if connection.has_api(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return await _pages(connection, topics)
    version = connection.pick(ApiKey.METADATA)
    response = await connection.send(metadata_request(topics, version), version)
    return list(response.topics)


def metadata_request(topics: list[str] | None, version: int) -> Any:
    """Return a request that does not make the topics that it asks for."""
    from odradek.wire.messages.metadata import MetadataRequest

    return MetadataRequest(
        topics=metadata_topics(topics, version, False), allow_auto_topic_creation=version < CREATION_FROM
    )


def names_in(response: Any, *, internal: bool) -> set[str]:
    """Return the names of the topics in an answer to Metadata; of internal ones if asked for."""
    # By name, too: brokers mark their own topics as internal only from Metadata 1 (Kafka 0.10.0) on.
    return {
        t.name
        for t in response.topics
        if not t.error_code and (internal or not (t.is_internal or t.name in INTERNAL_TOPICS))
    }


def description(state: Any) -> TopicDescription:
    """Return the description of a topic that a broker has told of."""
    partitions = tuple(
        PartitionInfo(
            state.name,
            p.partition_index,
            p.leader_id,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
            p.leader_epoch,
            _or_none(getattr(p, "eligible_leader_replicas", None)),
            _or_none(getattr(p, "last_known_elr", None)),
        )
        for p in sorted(state.partitions, key=lambda p: p.partition_index)
    )
    return TopicDescription(state.name, bytes(state.topic_id or ZERO_UUID), state.is_internal, partitions)


async def _pages(connection: Any, topics: list[str] | None) -> list[Any]:
    """Ask for topics page by page (DescribeTopicPartitions); a topic may go over several pages."""
    from odradek.wire.messages.describe_topic_partitions import (
        Cursor,
        DescribeTopicPartitionsRequest,
        TopicRequest,
    )

    version = connection.pick(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    described: dict[str, Any] = {}
    cursor: Cursor | None = None
    while True:
        # A page goes in the order of names, and begins at the cursor's topic: those before it are done.
        page = [
            TopicRequest(name=name) for name in topics or () if cursor is None or name >= cursor.topic_name
        ]
        request = DescribeTopicPartitionsRequest(
            topics=page, response_partition_limit=_PARTITIONS_PER_PAGE, cursor=cursor
        )
        response = await connection.send(request, version)
        for topic in response.topics:
            first_part = described.setdefault(topic.name, topic)
            if first_part is not topic:
                first_part.partitions += topic.partitions
        if response.next_cursor is None:
            return list(described.values())
        # Retriable. An empty page would be asked for again without a pause, or taken for the end.
        if not response.topics:
            raise LeaderNotAvailableError("the broker has just started, and does not know the topics yet")
        cursor = Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )


def _or_none(brokers: list[int] | None) -> tuple[int, ...] | None:
    return None if brokers is None else tuple(brokers)
