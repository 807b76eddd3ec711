"""The versions of the requests that brokers send each other, and of some nodes they write, as
`inter.broker.protocol.version` has them.

The controller, a follower's fetcher and the sender of markers do not ask for ApiVersions; whoever joins a
cluster serves exactly these (Kafka: `AbstractControllerBrokerRequestBatch`, `BrokersFetchRequest`,
`MetadataVersion`). Requests *to* the controller begin with ApiVersions instead.
"""

from __future__ import annotations

import re
from functools import lru_cache

from odradek.wire.api import ApiKey

Level = tuple[int, int, int, int]
"""A metadata version as numbers that compare: 2.7-IV1 is (2, 7, 0, 1), 0.10.0-IV1 is (0, 10, 0, 1).
Without `-IV` it is the newest of its release."""

_NEWEST_IV = 99

_RULES: dict[ApiKey, tuple[tuple[str, int], ...]] = {
    ApiKey.LEADER_AND_ISR: (
        ("3.4-IV0", 7),
        ("3.2-IV0", 6),
        ("2.8-IV1", 5),
        ("2.4-IV1", 4),
        ("2.4-IV0", 3),
        ("2.2-IV0", 2),
        ("1.0-IV0", 1),
    ),
    ApiKey.STOP_REPLICA: (("3.4-IV0", 4), ("2.6-IV0", 3), ("2.4-IV1", 2), ("2.2-IV0", 1)),
    ApiKey.UPDATE_METADATA: (
        ("3.4-IV0", 8),
        ("2.8-IV1", 7),
        ("2.4-IV1", 6),
        ("2.2-IV0", 5),
        ("1.0-IV0", 4),
        ("0.10.2-IV0", 3),
        ("0.10.0-IV1", 2),
        ("0.9.0", 1),
    ),
    ApiKey.FETCH: (
        ("3.9-IV0", 17),
        ("3.7-IV4", 16),
        ("3.5-IV1", 15),
        ("3.5-IV0", 14),
        ("3.1-IV0", 13),
        ("2.7-IV1", 12),
        ("2.3-IV1", 11),
        ("2.1-IV2", 10),
        ("2.0-IV1", 8),
        ("1.1-IV0", 7),
        ("0.11.0-IV1", 5),
        ("0.11.0-IV0", 4),
        ("0.10.1-IV1", 3),
        ("0.10.0-IV0", 2),
        ("0.9.0", 1),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (("2.8-IV0", 4), ("2.3-IV1", 3), ("2.1-IV1", 2), ("2.0-IV0", 1)),
    ApiKey.LIST_OFFSETS: (
        ("3.9-IV0", 9),
        ("3.5-IV0", 8),
        ("3.0-IV1", 7),
        ("2.8-IV0", 6),
        ("2.2-IV1", 5),
        ("2.1-IV1", 4),
        ("2.0-IV1", 3),
        ("0.11.0-IV0", 2),
        ("0.10.1-IV2", 1),
    ),
    ApiKey.WRITE_TXN_MARKERS: (("2.8-IV0", 1),),
    ApiKey.CONTROLLED_SHUTDOWN: (("2.4-IV1", 3), ("2.2-IV0", 2), ("0.9.0", 1)),
}


@lru_cache(maxsize=64)
def parse_level(text: str) -> Level:
    """The level that a text such as `2.7-IV1`, `0.10.2` or `3.9` names.

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:[.\d]*)(?:-IV(\d+))?", text)
    if match is None:
        raise ValueError(f"{text!r} is no version of the inter-broker protocol, as 2.7-IV1 or 3.9 are")
    major, minor, patch, iv = match.groups()
    # Since 1.0 a level is named after two numbers; what follows is a bug fix of the same level.
    third = int(patch or 0) if major == "0" else 0
    return int(major), int(minor), third, _NEWEST_IV if iv is None else int(iv)


def at_least(ibp: str, level: str) -> bool:
    """Return whether a version of the inter-broker protocol is `level` (with its `-IV`) or newer."""
    parsed_level = parse_level(level)
    # A level without -IV stands for the first of its release where it is asked for.
    return parse_level(ibp) >= (parsed_level if parsed_level[3] != _NEWEST_IV else (*parsed_level[:3], 0))


@lru_cache(maxsize=256)
def request_version(api: ApiKey, ibp: str) -> int:
    """The version in which a broker with this `inter.broker.protocol.version` sends a request.

    Raises:
        KeyError: brokers negotiate the version of this request.
    """
    return next((version for level, version in _RULES[api] if at_least(ibp, level)), 0)


def registration_version(ibp: str) -> int:
    """The version in which a broker writes its registration."""
    return 5 if has_features(ibp) else 4 if at_least(ibp, "0.10.0-IV1") else 2


def has_features(ibp: str) -> bool:
    """Return whether features have versions in a cluster (KIP-584), which its `/feature` node says."""
    return at_least(ibp, "2.7-IV0")


def has_topic_ids(ibp: str) -> bool:
    """Return whether topics are given ids (KIP-516)."""
    return at_least(ibp, "2.8-IV0")


def writes_isr_itself(ibp: str) -> bool:
    """Return whether leaders write the ISR into the state node instead of asking the controller (KIP-497)."""
    return not at_least(ibp, "2.7-IV2")


def truncates_on_fetch(ibp: str) -> bool:
    """Return whether followers learn from Fetch itself where their log has left the leader's (KIP-595)."""
    return at_least(ibp, "2.7-IV1")
