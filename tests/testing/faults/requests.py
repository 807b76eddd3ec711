"""A request of each of some APIs that means something to a broker with the topics `orders` and `clicks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from odradek.records.builder import build_batch
from odradek.wire.api import ApiKey
from odradek.wire.messages import add_partitions_to_txn as txn
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Ids = dict[str, bytes]
Make = Callable[[int, Ids, Sequence[str]], Any]
ORDERS = ("orders",)


def produce(version: int, ids: Ids, topics: Sequence[str] = ORDERS, acks: int = 1) -> Any:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                **_named(topic, ids, version >= 13),
                partition_data=[
                    PartitionProduceData(index=index, records=_records(version)) for index in (0, 1)
                ],
            )
            for topic in topics
        ],
    )


def _records(version: int) -> Any:
    if version >= 3:
        return b"".join(bytes(part) for part in _as_parts(build_batch([(0, b"k", b"v", ())])))
    return _message_set()


def _as_parts(built: Any) -> list[Any]:
    return built if isinstance(built, list) else [built]


def _message_set() -> bytes:
    """One message of magic 0."""
    import zlib

    body = b"\0\0" + (-1).to_bytes(4, "big", signed=True) + (1).to_bytes(4, "big") + b"v"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(message).to_bytes(4, "big") + message


def _named(topic: str, ids: Ids, by_id: bool, field: str = "name") -> dict[str, Any]:
    return {"topic_id": ids[topic]} if by_id else {field: topic}


def fetch(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                **_named(topic, ids, version >= 13, "topic"),
                partitions=[FetchPartition(partition=index, partition_max_bytes=1000) for index in (0, 1)],
            )
            for topic in topics
        ],
    )


def list_offsets(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
    if version == 0:
        for partition in partitions:
            partition.max_num_offsets = 1
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic in topics]
    )


def metadata(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])


def offset_commit(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                **_named(topic, ids, version >= 10),
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                    for index in (0, 1)
                ],
            )
            for topic in topics
        ],
    )


def offset_fetch(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    if version < 8:
        return OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1]) for topic in topics],
        )
    asked = [
        OffsetFetchRequestTopics(**_named(topic, ids, version >= 10), partition_indexes=[0, 1])
        for topic in topics
    ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)])


def find_coordinator(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])


def heartbeat(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def api_versions(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="test", client_software_version="1")


def create_topics(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1) for topic in topics],
        timeout_ms=1000,
    )


def init_producer_id(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


def add_partitions_to_txn(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    asked = [txn.AddPartitionsToTxnTopic(name=topic, partitions=[0, 1]) for topic in topics]
    if version < 4:
        return txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=asked,
        )
    transaction = txn.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=1, producer_epoch=0, topics=asked
    )
    return txn.AddPartitionsToTxnRequest(transactions=[transaction])


def describe_configs(version: int, ids: Ids, topics: Sequence[str] = ORDERS) -> Any:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=["retention.ms"])
            for topic in topics
        ]
    )


REQUESTS: dict[ApiKey, tuple[Make, str]] = {
    ApiKey.PRODUCE: (produce, "NOT_ENOUGH_REPLICAS"),
    ApiKey.FETCH: (fetch, "NOT_LEADER_OR_FOLLOWER"),
    ApiKey.LIST_OFFSETS: (list_offsets, "NOT_LEADER_OR_FOLLOWER"),
    ApiKey.METADATA: (metadata, "LEADER_NOT_AVAILABLE"),
    ApiKey.OFFSET_COMMIT: (offset_commit, "NOT_COORDINATOR"),
    ApiKey.OFFSET_FETCH: (offset_fetch, "COORDINATOR_LOAD_IN_PROGRESS"),
    ApiKey.FIND_COORDINATOR: (find_coordinator, "COORDINATOR_NOT_AVAILABLE"),
    ApiKey.HEARTBEAT: (heartbeat, "REBALANCE_IN_PROGRESS"),
    ApiKey.API_VERSIONS: (api_versions, "INVALID_REQUEST"),
    ApiKey.CREATE_TOPICS: (create_topics, "NOT_CONTROLLER"),
    ApiKey.INIT_PRODUCER_ID: (init_producer_id, "COORDINATOR_NOT_AVAILABLE"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (add_partitions_to_txn, "CONCURRENT_TRANSACTIONS"),
    ApiKey.DESCRIBE_CONFIGS: (describe_configs, "UNKNOWN_SERVER_ERROR"),
}
"""By API: a request of it, and an error that a Kafka may answer it with."""
