"""The levels of the cluster's features, in the node `/feature` (KIP-584).

Kafka with ZooKeeper keeps them there, as JSON of version 2 (1 has lowest levels, too, which are always 1);
the epoch of the levels is the version of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from odradek.cluster import nodes, paths
from odradek.cluster.store.store import BadVersion, MetadataStore, NoNode

_ENABLED = 1
_LEVEL = "max_version_level"
_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """The feature levels in force.

    Attributes:
        levels: by feature; one that is not named was never set.
        epoch: goes up with every change; -1 before there was any.
    """

    levels: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    epoch: int = -1


def read_features(store: MetadataStore) -> FeatureLevels:
    """The levels as they are.

    Raises:
        NodeFormatError: the node does not hold what Kafka writes there.
        StoreUnavailable: the store cannot be read.
    """
    try:
        data, stat = store.get(paths.FEATURE)
    except NoNode:
        return FeatureLevels()
    return FeatureLevels(_decode(data), stat.version)


def _decode(data: bytes | None) -> Mapping[str, int]:
    node = nodes.load(paths.FEATURE, data)
    if node.get("status") != _ENABLED:
        return _NOTHING
    try:
        return {name: int(levels[_LEVEL]) for name, levels in (node.get("features") or {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise nodes.NodeFormatError(paths.FEATURE, f"a level is missing or no number: {error!r}") from error


def write_features(store: MetadataStore, before: FeatureLevels, levels: Mapping[str, int]) -> FeatureLevels:
    """Put levels in force.

    Args:
        store: has them afterwards.
        before: as they were read.
        levels: all of them.

    Raises:
        BadVersion: somebody else has changed them since.
        StoreUnavailable: the store cannot be written.
    """
    if before.epoch < 0:
        raise BadVersion(paths.FEATURE)
    features = {name: {_LEVEL: level} for name, level in levels.items()}
    node = {"features": features, "version": 2, "status": _ENABLED}
    store.set(paths.FEATURE, nodes.dump(node), before.epoch)
    return FeatureLevels(dict(levels), before.epoch + 1)
