"""The cluster's features as ApiVersions tells them (KIP-584), by release.

Features of KRaft belong to what we do not have; those whose requests a broker of ours does not serve are left
out as their requests are.

Sources: `MetadataVersion` and `BrokerFeatures` of 3.3 to 3.9; the enums `MetadataVersion` and `Feature` of
4.0.0, 4.1.0, 4.2.0, 4.3.1 and 4.4.0; recorded answers of a real 3.9.1 with ZooKeeper and a real 4.4.0.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.wire.epochs import NO_EPOCH

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import Release


class Feature(NamedTuple):
    """A feature: the levels that the broker supports, and the one in force; 0 is not in force."""

    name: str
    least: int
    most: int
    level: int


_METADATA: Mapping[str, tuple[int, int]] = {
    "3.3": (1, 7),
    "3.4": (1, 8),
    "3.5": (1, 11),
    "3.6": (1, 14),
    "3.7": (1, 19),
    "3.8": (1, 20),
    "3.9": (1, 21),
    "4.0": (7, 25),
    "4.1": (7, 27),
    "4.2": (7, 29),
    "4.3": (7, 30),
    "4.4": (7, 33),
}
"""Supported levels of `metadata.version`; the highest is in force in a cluster that the release has made."""

_OTHERS: Mapping[str, tuple[tuple[str, int, int], ...]] = {
    # from a release on: highest level, level in force
    "kraft.version": (("3.9", 1, 0), ("4.0", 1, 1)),
    "transaction.version": (("4.0", 2, 2),),
    "group.version": (("4.0", 1, 1),),
    "eligible.leader.replicas.version": (("4.0", 1, 0), ("4.1", 1, 1)),
    "share.version": (("4.1", 1, 0), ("4.2", 1, 1), ("4.4", 2, 2)),
    "streams.version": (("4.2", 1, 1),),
}

_NEEDS = {"transaction.version": 28, "group.version": 68, "share.version": 78, "streams.version": 88}
"""The API without which a feature would be an empty promise."""


def features_of(release: Release, served: Container[int]) -> list[Feature]:
    """The features that a broker of a release supports.

    Args:
        release: the release.
        served: the API keys that are really served.
    """
    if not release.kraft or release.name not in _METADATA:
        return []
    least, most = _METADATA[release.name]
    supported = [Feature("metadata.version", least, most, most)]
    for name, steps in _OTHERS.items():
        reached = [(highest, level) for since, highest, level in steps if release.at_least(since)]
        if reached and (name not in _NEEDS or _NEEDS[name] in served):
            supported.append(Feature(name, 0, *reached[-1]))
    return supported


def finalized_epoch(release: Release) -> int:
    """The epoch of the finalized features, `NO_EPOCH` before there were any.

    With ZooKeeper it is the version of a node that is written once; with KRaft it is an offset, for which
    0 stands here.
    """
    return 0 if release.at_least("2.7") else NO_EPOCH
