"""The API keys, and which header stands in front of which version.

Keys and names are the protocol guide's. Those that exist only inside a KRaft quorum are not here.
"""

from __future__ import annotations

import enum


class ApiKey(enum.IntEnum):
    """An API key; `api_name` is the API's name as Kafka writes it (``"InitProducerId"``).

    `flexible_from` is the first version with compact lengths and tagged fields (KIP-482), None if there is
    none. The declarations say the same; here it is known without importing them.
    """

    api_name: str
    flexible_from: int | None

    def __new__(cls, key: int, api_name: str = "", flexible_from: int | None = None) -> ApiKey:
        """Make the member `key`."""
        member = int.__new__(cls, key)
        member._value_ = key
        member.api_name = api_name
        member.flexible_from = flexible_from
        return member

    PRODUCE = 0, "Produce", 9
    FETCH = 1, "Fetch", 12
    LIST_OFFSETS = 2, "ListOffsets", 6
    METADATA = 3, "Metadata", 9
    LEADER_AND_ISR = 4, "LeaderAndIsr", 4
    STOP_REPLICA = 5, "StopReplica", 2
    UPDATE_METADATA = 6, "UpdateMetadata", 6
    CONTROLLED_SHUTDOWN = 7, "ControlledShutdown", 3
    OFFSET_COMMIT = 8, "OffsetCommit", 8
    OFFSET_FETCH = 9, "OffsetFetch", 6
    FIND_COORDINATOR = 10, "FindCoordinator", 3
    JOIN_GROUP = 11, "JoinGroup", 6
    HEARTBEAT = 12, "Heartbeat", 4
    LEAVE_GROUP = 13, "LeaveGroup", 4
    SYNC_GROUP = 14, "SyncGroup", 4
    DESCRIBE_GROUPS = 15, "DescribeGroups", 5
    LIST_GROUPS = 16, "ListGroups", 3
    SASL_HANDSHAKE = 17, "SaslHandshake", None
    API_VERSIONS = 18, "ApiVersions", 3
    CREATE_TOPICS = 19, "CreateTopics", 5
    DELETE_TOPICS = 20, "DeleteTopics", 4
    DELETE_RECORDS = 21, "DeleteRecords", 2
    INIT_PRODUCER_ID = 22, "InitProducerId", 2
    OFFSET_FOR_LEADER_EPOCH = 23, "OffsetForLeaderEpoch", 4
    ADD_PARTITIONS_TO_TXN = 24, "AddPartitionsToTxn", 3
    ADD_OFFSETS_TO_TXN = 25, "AddOffsetsToTxn", 3
    END_TXN = 26, "EndTxn", 3
    WRITE_TXN_MARKERS = 27, "WriteTxnMarkers", 1
    TXN_OFFSET_COMMIT = 28, "TxnOffsetCommit", 3
    DESCRIBE_ACLS = 29, "DescribeAcls", 2
    CREATE_ACLS = 30, "CreateAcls", 2
    DELETE_ACLS = 31, "DeleteAcls", 2
    DESCRIBE_CONFIGS = 32, "DescribeConfigs", 4
    ALTER_CONFIGS = 33, "AlterConfigs", 2
    ALTER_REPLICA_LOG_DIRS = 34, "AlterReplicaLogDirs", 2
    DESCRIBE_LOG_DIRS = 35, "DescribeLogDirs", 2
    SASL_AUTHENTICATE = 36, "SaslAuthenticate", 2
    CREATE_PARTITIONS = 37, "CreatePartitions", 2
    CREATE_DELEGATION_TOKEN = 38, "CreateDelegationToken", 2
    RENEW_DELEGATION_TOKEN = 39, "RenewDelegationToken", 2
    EXPIRE_DELEGATION_TOKEN = 40, "ExpireDelegationToken", 2
    DESCRIBE_DELEGATION_TOKEN = 41, "DescribeDelegationToken", 2
    DELETE_GROUPS = 42, "DeleteGroups", 2
    ELECT_LEADERS = 43, "ElectLeaders", 2
    INCREMENTAL_ALTER_CONFIGS = 44, "IncrementalAlterConfigs", 1
    ALTER_PARTITION_REASSIGNMENTS = 45, "AlterPartitionReassignments", 0
    LIST_PARTITION_REASSIGNMENTS = 46, "ListPartitionReassignments", 0
    OFFSET_DELETE = 47, "OffsetDelete", None
    DESCRIBE_CLIENT_QUOTAS = 48, "DescribeClientQuotas", 1
    ALTER_CLIENT_QUOTAS = 49, "AlterClientQuotas", 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "DescribeUserScramCredentials", 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, "AlterUserScramCredentials", 0
    DESCRIBE_QUORUM = 55, "DescribeQuorum", 0
    ALTER_PARTITION = 56, "AlterPartition", 0
    UPDATE_FEATURES = 57, "UpdateFeatures", 0
    DESCRIBE_CLUSTER = 60, "DescribeCluster", 0
    DESCRIBE_PRODUCERS = 61, "DescribeProducers", 0
    DESCRIBE_TRANSACTIONS = 65, "DescribeTransactions", 0
    LIST_TRANSACTIONS = 66, "ListTransactions", 0
    ALLOCATE_PRODUCER_IDS = 67, "AllocateProducerIds", 0
    CONSUMER_GROUP_HEARTBEAT = 68, "ConsumerGroupHeartbeat", 0
    CONSUMER_GROUP_DESCRIBE = 69, "ConsumerGroupDescribe", 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, "GetTelemetrySubscriptions", 0
    PUSH_TELEMETRY = 72, "PushTelemetry", 0
    LIST_CONFIG_RESOURCES = 74, "ListConfigResources", 0
    DESCRIBE_TOPIC_PARTITIONS = 75, "DescribeTopicPartitions", 0
    SHARE_GROUP_HEARTBEAT = 76, "ShareGroupHeartbeat", 0
    SHARE_GROUP_DESCRIBE = 77, "ShareGroupDescribe", 0
    SHARE_FETCH = 78, "ShareFetch", 0
    SHARE_ACKNOWLEDGE = 79, "ShareAcknowledge", 0
    INITIALIZE_SHARE_GROUP_STATE = 83, "InitializeShareGroupState", 0
    READ_SHARE_GROUP_STATE = 84, "ReadShareGroupState", 0
    WRITE_SHARE_GROUP_STATE = 85, "WriteShareGroupState", 0
    DELETE_SHARE_GROUP_STATE = 86, "DeleteShareGroupState", 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, "ReadShareGroupStateSummary", 0
    STREAMS_GROUP_HEARTBEAT = 88, "StreamsGroupHeartbeat", 0
    STREAMS_GROUP_DESCRIBE = 89, "StreamsGroupDescribe", 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, "DescribeShareGroupOffsets", 0
    ALTER_SHARE_GROUP_OFFSETS = 91, "AlterShareGroupOffsets", 0
    DELETE_SHARE_GROUP_OFFSETS = 92, "DeleteShareGroupOffsets", 0
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93, "StreamsGroupTopologyDescriptionUpdate", 0

    @property
    def module(self) -> str:
        """The name of its module in `odradek.wire.messages`."""
        return self.name.lower()


_FLEXIBLE_FROM = {int(key): key.flexible_from for key in ApiKey}


def _flexible_from(key: int) -> int | None:
    try:
        return _FLEXIBLE_FROM[key]
    except KeyError:
        raise ValueError(f"API key {key} is not known") from None


def request_header_version(key: int, version: int) -> int:
    """The version of the header in front of a request: 2 if the request is flexible, else 1.

    ControlledShutdown 0 has version 0, which carries no client id.

    Raises:
        ValueError: no such key.
    """
    flexible_from = _flexible_from(key)
    if key == 7 and version == 0:
        return 0
    return 2 if flexible_from is not None and version >= flexible_from else 1


def response_header_version(key: int, version: int) -> int:
    """The version of the header in front of a response: 1 if the response is flexible, else 0.

    ApiVersions always has 0: who asks does not know yet what the broker can read (KIP-511).

    Raises:
        ValueError: no such key.
    """
    flexible_from = _flexible_from(key)
    if key == 18:
        return 0
    return 1 if flexible_from is not None and version >= flexible_from else 0
