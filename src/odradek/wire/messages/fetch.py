"""Fetch: read records from partitions, waiting for some if there are none.

Consumers and followers both use it (`replica_id`). Version 4 brings transactions' visibility (KIP-98), 7
fetch sessions (KIP-227), 9 fencing by leader epoch (KIP-320), 10 zstd (KIP-110), 11 reading from the
nearest replica (KIP-392), 12 detection of divergence (KIP-595), 13 topic ids (KIP-516), 16 the new leaders'
addresses (KIP-951), 18 the follower's high watermark (KIP-1166).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import Records, array, int8, int16, int32, int64, nested, records, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class ReplicaState(Struct):
    """The struct in `FetchRequest.replica_state`."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@struct
class FetchPartition(Struct):
    """An element of `FetchTopic.partitions`."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=2**63 - 1, ignorable=True, tag=1)


@struct
class FetchTopic(Struct):
    """An element of `FetchRequest.topics`."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic(Struct):
    """An element of `FetchRequest.forgotten_topics_data`."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32, "7+")


@request(ApiKey.FETCH, versions="0-18", flexible="12+")
class FetchRequest(Message):
    """From where to read, and how many bytes to wait for and to return at most."""

    cluster_id: str | None = string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = nested(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


@struct
class EpochEndOffset(Struct):
    """The struct in `PartitionData.diverging_epoch`."""

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    """The struct in `PartitionData.current_leader`."""

    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@struct
class SnapshotId(Struct):
    """The struct in `PartitionData.snapshot_id`."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction(Struct):
    """An element of `PartitionData.aborted_transactions`."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


@struct
class PartitionData(Struct):
    """An element of `FetchableTopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records = records(nullable="0+")


@struct
class FetchableTopicResponse(Struct):
    """An element of `FetchResponse.responses`."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint(Struct):
    """An element of `FetchResponse.node_endpoints`."""

    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


@response(ApiKey.FETCH, versions="0-18", flexible="12+")
class FetchResponse(Message):
    """Records as they lie in the log: the last batch may be cut off."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
