"""The releases of Kafka that brought each version of an API: for messages, and for brokers that cannot say.

Brokers before 0.10.0 have no ApiVersions. What 0.9.0 and 0.8.2 know is written down here.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey

#: The releases that brought version 0, 1, 2 … of each API that this client speaks.
BROUGHT_BY: dict[int, str] = {
    ApiKey.PRODUCE: "0.8.2 0.9.0 0.10.0 0.11.0 1.0 1.0 2.0 2.1 2.4 2.8 3.7 3.8 4.0",
    ApiKey.FETCH: "0.8.2 0.9.0 0.10.0 0.10.1 0.11.0 0.11.0 1.0 1.1 2.0 2.1 2.1 2.3 2.7 3.1 3.5 3.5 3.7 3.9",
    ApiKey.LIST_OFFSETS: "0.8.2 0.10.1 0.11.0 2.0 2.1 2.2 2.8 3.0 3.5 3.9",
    ApiKey.METADATA: "0.8.2 0.10.0 0.10.1 0.11.0 0.11.0 1.0 2.0 2.1 2.3 2.4 2.8 2.8 3.1",
    ApiKey.OFFSET_COMMIT: "0.8.2 0.8.2 0.9.0 0.11.0 2.0 2.1 2.1 2.3 2.4 3.7",
    ApiKey.OFFSET_FETCH: "0.8.2 0.8.2 0.10.2 0.11.0 2.0 2.1 2.4 2.5 3.0 3.7",
    ApiKey.FIND_COORDINATOR: "0.8.2 0.11.0 2.0 2.4 3.0",
    ApiKey.JOIN_GROUP: "0.9.0 0.10.1 0.11.0 2.0 2.2 2.3 2.4 2.5 3.2 3.2",
    ApiKey.HEARTBEAT: "0.9.0 0.11.0 2.0 2.3 2.4",
    ApiKey.LEAVE_GROUP: "0.9.0 0.11.0 2.0 2.4 2.4 3.2",
    ApiKey.SYNC_GROUP: "0.9.0 0.11.0 2.0 2.3 2.4 2.5",
    ApiKey.DESCRIBE_GROUPS: "0.9.0 0.11.0 2.0 2.3 2.4 2.4",
    ApiKey.LIST_GROUPS: "0.9.0 0.11.0 2.0 2.4 2.6 3.8",
    ApiKey.API_VERSIONS: "0.10.0 0.11.0 2.0 2.4 3.9",
    ApiKey.CREATE_TOPICS: "0.10.1 0.10.2 0.11.0 2.0 2.4 2.4 2.7 2.8",
    ApiKey.DELETE_TOPICS: "0.10.1 0.11.0 2.0 2.1 2.4 2.7 2.8",
    ApiKey.DELETE_RECORDS: "0.11.0 2.0 2.6",
    # Version 6 (KIP-939) is in no release yet but as an unstable version.
    ApiKey.INIT_PRODUCER_ID: "0.11.0 2.0 2.4 2.5 2.7 3.8",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0.11.0 2.0 2.7 2.8",
    ApiKey.ADD_OFFSETS_TO_TXN: "0.11.0 2.0 2.7 2.8 3.8",
    ApiKey.END_TXN: "0.11.0 2.0 2.7 2.8 3.8 4.0",
    ApiKey.WRITE_TXN_MARKERS: "0.11.0 2.8 4.2",
    ApiKey.TXN_OFFSET_COMMIT: "0.11.0 2.0 2.1 2.5 3.8 4.0",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "0.11.0 2.0 2.1 2.3 2.8",
    ApiKey.DESCRIBE_ACLS: "0.11.0 2.0 2.5 3.3",
    ApiKey.CREATE_ACLS: "0.11.0 2.0 2.5 3.3",
    ApiKey.DELETE_ACLS: "0.11.0 2.0 2.5 3.3",
    ApiKey.DESCRIBE_CONFIGS: "0.11.0 1.1 2.0 2.6 2.8",
    ApiKey.ALTER_CONFIGS: "0.11.0 2.0 2.8",
    ApiKey.CREATE_PARTITIONS: "1.0 2.0 2.5 2.7",
    ApiKey.CREATE_DELEGATION_TOKEN: "1.1 2.0 2.4 3.3",
    ApiKey.RENEW_DELEGATION_TOKEN: "1.1 2.0 2.5",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "1.1 2.0 2.5",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "1.1 2.0 2.5 3.3",
    ApiKey.DELETE_GROUPS: "1.1 2.0 2.4",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3 2.4",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1.0 2.0 2.8",
    ApiKey.DESCRIBE_LOG_DIRS: "1.0 2.0 2.6 3.2 3.3",
    ApiKey.ELECT_LEADERS: "2.2 2.4 2.4",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.OFFSET_DELETE: "2.4",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6 2.8",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.6 2.8",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.DESCRIBE_CLUSTER: "2.8 3.7",
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0 3.8 4.1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "3.8",
}

_GROUPS: dict[int, tuple[int, int]] = {
    ApiKey.JOIN_GROUP: (0, 0),
    ApiKey.HEARTBEAT: (0, 0),
    ApiKey.LEAVE_GROUP: (0, 0),
    ApiKey.SYNC_GROUP: (0, 0),
    ApiKey.DESCRIBE_GROUPS: (0, 0),
    ApiKey.LIST_GROUPS: (0, 0),
}

#: What brokers of 0.8.2 answer.
KAFKA_0_8_2: dict[int, tuple[int, int]] = {
    ApiKey.PRODUCE: (0, 0),
    ApiKey.FETCH: (0, 0),
    ApiKey.LIST_OFFSETS: (0, 0),
    ApiKey.METADATA: (0, 0),
    ApiKey.OFFSET_COMMIT: (0, 1),
    ApiKey.OFFSET_FETCH: (0, 1),
    ApiKey.FIND_COORDINATOR: (0, 0),
}

#: What brokers of 0.9.0 answer.
KAFKA_0_9_0: dict[int, tuple[int, int]] = {
    **KAFKA_0_8_2,
    **_GROUPS,
    ApiKey.PRODUCE: (0, 1),
    ApiKey.FETCH: (0, 1),
    ApiKey.OFFSET_COMMIT: (0, 2),
}


def brought_by(key: int, version: int) -> str | None:
    """The first release whose brokers answer that version of an API, None if it is not known."""
    releases = BROUGHT_BY.get(key, "").split()
    return releases[version] if version < len(releases) else None
