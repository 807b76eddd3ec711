"""Which version of each API is spoken with a broker: the newest that both sides know (KIP-35, KIP-511).

`SPOKEN` is what this client speaks. Its floor is that of brokers 0.11 and newer for records (record batches
v2) and of 0.10 for the rest; older brokers, which have no ApiVersions, are met by a table of their own later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import ErrorCode, ProtocolError
from odradek.wire.api import ApiKey

#: Lowest and highest version spoken. A ceiling below Kafka's newest is a version whose meaning the code that
#: sends the request does not have (topic ids in Produce 13 and in OffsetCommit and OffsetFetch 10).
SPOKEN: dict[int, tuple[int, int]] = {
    ApiKey.PRODUCE: (3, 12),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.METADATA: (1, 12),
    ApiKey.OFFSET_COMMIT: (2, 9),
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
    ApiKey.INIT_PRODUCER_ID: (0, 4),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 1),
}

HANDSHAKE_VERSION = SPOKEN[ApiKey.API_VERSIONS][1]


@dataclass(frozen=True)
class NodeVersions:
    """What one broker advertised: key → (lowest, highest version)."""

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def from_response(cls, api_keys: Iterable[object]) -> NodeVersions:
        """From the `api_keys` of an ApiVersionsResponse."""
        return cls({k.api_key: (k.min_version, k.max_version) for k in api_keys})  # type: ignore[attr-defined]

    def has(self, key: int) -> bool:
        """Whether there is a version of `key` that both sides know."""
        theirs = self.ranges.get(key)
        ours = SPOKEN.get(key)
        return theirs is not None and ours is not None and max(theirs[0], ours[0]) <= min(theirs[1], ours[1])

    def pick(self, key: int, at_most: int | None = None, at_least: int | None = None) -> int:
        """The newest common version of `key`, within the caller's own bounds.

        Raises `UnsupportedByBrokerError`, which names both ranges.
        """
        name = ApiKey(key).api_name
        theirs = self.ranges.get(key)
        if theirs is None:
            raise UnsupportedByBrokerError(f"the broker does not offer {name}")
        low, high = SPOKEN[key]
        low = max(low, at_least or 0)
        if at_most is not None:
            high = min(high, at_most)
        version = min(high, theirs[1])
        if version < max(low, theirs[0]):
            raise UnsupportedByBrokerError(
                f"{name}: this call needs a version from {low} to {high}, the broker offers {theirs[0]} "
                f"to {theirs[1]}"
            )
        return version


def handshake_retry_version(frame: bytes | memoryview, sent_version: int) -> int | None:
    """What to do with an answer to ApiVersions: None to decode it, or the version to ask again with.

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
