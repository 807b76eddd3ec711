"""The version of each API that is spoken with a broker: the newest that both sides know (KIP-35, KIP-511).

`SPOKEN` is what this client speaks, from Kafka 0.8.2 on, `BROUGHT_BY` which release brought it, for messages.
Brokers before 0.10.0 have no ApiVersions; how they are told apart stands in `handshake`, and what they know
is written down here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import ErrorCode, ProtocolError
from odradek.wire.api import ApiKey

#: Lowest and highest version spoken. Offsets are committed to the topic (OffsetCommit and OffsetFetch 1),
#: never to ZooKeeper (version 0). A ceiling below Kafka's newest is a version whose meaning the code that
#: sends the request does not have (topic ids in Produce 13, TxnOffsetCommit 6, OffsetCommit and OffsetFetch
#: 10), or is for brokers (AddPartitionsToTxn 4).
SPOKEN: dict[int, tuple[int, int]] = {
    ApiKey.PRODUCE: (0, 12),
    ApiKey.FETCH: (0, 17),
    ApiKey.LIST_OFFSETS: (0, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_COMMIT: (1, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (0, 7),
    ApiKey.DELETE_TOPICS: (0, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (0, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (0, 3),
    ApiKey.CREATE_ACLS: (0, 3),
    ApiKey.DELETE_ACLS: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (0, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (0, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (0, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 4),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}

HANDSHAKE_VERSION = SPOKEN[ApiKey.API_VERSIONS][1]


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
    ApiKey.DESCRIBE_QUORUM: "2.7 3.3 3.9",
    ApiKey.UPDATE_FEATURES: "2.7 3.3 4.0",
    ApiKey.DESCRIBE_CLUSTER: "2.8 3.7 4.0",
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0 3.8 4.1",
    ApiKey.LIST_CONFIG_RESOURCES: "3.7 4.1",
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


@dataclass(frozen=True)
class NodeVersions:
    """The versions that one broker advertised: key → (lowest, highest version).

    `release`: of a broker that advertises nothing, what it was taken for. `features`: the levels that the
    cluster has finalised, as of `features_epoch` (KIP-584).
    """

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    release: str | None = None
    features: dict[str, int] = field(default_factory=dict)
    features_epoch: int = -1

    @classmethod
    def from_response(cls, response: Any) -> NodeVersions:
        """From an ApiVersionsResponse."""
        return cls(
            {k.api_key: (k.min_version, k.max_version) for k in response.api_keys},
            features={f.name: f.max_version_level for f in response.finalized_features},
            features_epoch=response.finalized_features_epoch,
        )

    def highest(self, key: int) -> int:
        """The newest version of `key` that the broker knows, whether or not we do; -1 for none."""
        return self.ranges.get(key, (0, -1))[1]

    def has(self, key: int) -> bool:
        """Return whether there is a version of `key` that both sides know."""
        theirs = self.ranges.get(key)
        ours = SPOKEN.get(key)
        return theirs is not None and ours is not None and max(theirs[0], ours[0]) <= min(theirs[1], ours[1])

    def pick(self, key: int, at_most: int | None = None, at_least: int | None = None) -> int:
        """The newest common version of `key`, within the caller's own bounds.

        Raises:
            UnsupportedByBrokerError: there is none; names both ranges, and the release that brought what is
                missing.
        """
        theirs = self.ranges.get(key)
        if theirs is None:
            raise self._missing(key, at_least or 0)
        low, high = SPOKEN[key]
        low = max(low, at_least or 0)
        if at_most is not None:
            high = min(high, at_most)
        version = min(high, theirs[1])
        if version < max(low, theirs[0]):
            raise self._out_of_reach(key, low, high, theirs)
        return version

    @property
    def _who(self) -> str:
        return f"the broker (Kafka {self.release})" if self.release else "the broker"

    def _missing(self, key: int, at_least: int) -> UnsupportedByBrokerError:
        text = f"{self._who} does not offer {ApiKey(key).api_name}"
        release = brought_by(key, at_least)
        return UnsupportedByBrokerError(f"{text}, which Kafka {release} brought" if release else text)

    def _out_of_reach(
        self, key: int, low: int, high: int, theirs: tuple[int, int]
    ) -> UnsupportedByBrokerError:
        text = (
            f"{ApiKey(key).api_name}: this call needs a version from {low} to {high}, {self._who} offers "
            f"{theirs[0]} to {theirs[1]}"
        )
        release = brought_by(key, low) if theirs[1] < low else None
        return UnsupportedByBrokerError(f"{text}; Kafka {release} brought version {low}" if release else text)


def v2_if_known(brokers: Iterable[NodeVersions | None]) -> bool | None:
    """Return whether the cluster has finalised KIP-890's transactions; None if no broker is known.

    The newest word of any of these brokers counts.
    """
    known_versions = [versions for versions in brokers if versions is not None]
    newest = max(known_versions, key=lambda versions: versions.features_epoch, default=None)
    return None if newest is None else newest.features.get("transaction.version", 0) >= 2


def transactions_v2(brokers: Iterable[NodeVersions | None]) -> bool:
    """As `v2_if_known`; False where nothing is."""
    return bool(v2_if_known(brokers))


V0_9_0 = NodeVersions(KAFKA_0_9_0, "0.9.0")
V0_8_2 = NodeVersions(KAFKA_0_8_2, "0.8.2")


def handshake_retry_version(frame: bytes | memoryview, sent_version: int) -> int | None:
    """Return what to do with an answer to ApiVersions: None to decode it, or the version to ask again with.

    A broker that does not know the version asked for answers in version 0 with UNSUPPORTED_VERSION; brokers
    since 2.4 add the range that they do know, older ones add nothing and mean 0 (KIP-511).

    Args:
        frame: the whole response frame without its size; the header of this response is version 0 always.
        sent_version: the version that was asked with.
    """
    if len(frame) < 10:
        raise ProtocolError(f"an ApiVersions response of {len(frame)} bytes is too short")
    if int.from_bytes(frame[4:6], "big", signed=True) != ErrorCode.UNSUPPORTED_VERSION or sent_version == 0:
        return None
    count = int.from_bytes(frame[6:10], "big", signed=True)
    for index in range(max(0, count)):
        entry = bytes(frame[10 + 6 * index : 16 + 6 * index])
        if len(entry) == 6 and int.from_bytes(entry[:2], "big", signed=True) == ApiKey.API_VERSIONS:
            highest = int.from_bytes(entry[4:6], "big", signed=True)
            return max(0, min(highest, sent_version - 1))
    return 0
