"""The configs that DescribeConfigs lists, and their order: as Kafka does, in the release that the broker is.

Kafka puts all configs into a hash map and answers in the order in which it comes out again. From 4.2 on, and
before 2.6, that map is Java's, whose entries of one place keep the order in which they came: the table's,
then what was given besides. From 2.6 to 4.1 it is Scala's, which has them by hash. Where configs are asked
for by name, Kafka before 4.2 puts these into a map of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from odradek.broker.config.table import BROKER_CONFIGS, GONE_CONFIGS, INTERNAL_CONFIGS
from odradek.broker.kafka_versions.config_names import knows_broker_config, knows_topic_config
from odradek.broker.kafka_versions.release import Release, find
from odradek.cluster.configs.topic_config import TOPIC_CONFIGS

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

TODAY = "4.3"
"""The release whose configs a broker lists that is told to be none."""

_SMALLEST_MAP = 16


def release_of(config: BrokerConfig) -> Release:
    """The release as which a broker lists its configs."""
    return config.release if config.release is not None else find(TODAY)


def listed_broker_configs(config: BrokerConfig, wanted: Collection[str] | None = None) -> list[str]:
    """The names of a broker's configs, in order: those of its release, and what was given besides.

    Args:
        config: the broker's.
        wanted: those that are asked for; None for all.
    """
    release = release_of(config)
    given = (*config.given, *config.dynamic_names())
    known = (*BROKER_CONFIGS, *GONE_CONFIGS)
    names = dict.fromkeys((*(name for name in known if name in given or _is_shown(name, release)), *given))
    return in_kafkas_order(list(names), release, wanted)


def _is_shown(name: str, release: Release) -> bool:
    return name not in INTERNAL_CONFIGS and knows_broker_config(release, name)


def listed_topic_configs(
    config: BrokerConfig, overrides: Iterable[str], wanted: Collection[str] | None = None
) -> list[str]:
    """The names of a topic's configs, in order; `overrides` are its own."""
    release = release_of(config)
    known = (name for name in TOPIC_CONFIGS if knows_topic_config(release, name))
    own = (name for name in overrides if name in TOPIC_CONFIGS)
    return in_kafkas_order(list(dict.fromkeys((*known, *own))), release, wanted)


def in_kafkas_order(names: Sequence[str], release: Release, wanted: Collection[str] | None) -> list[str]:
    """Names in the order in which a release answers.

    Args:
        names: all that there are, in the order in which they come into the map.
        release: the release.
        wanted: those that are asked for; None for all.
    """
    asked = names if wanted is None else [name for name in names if name in wanted]
    if release.at_least("4.2"):
        place = _places(len(names))
        return sorted(asked, key=lambda name: place(_hash(name)))
    place = _places(len(asked))
    if not release.at_least("2.6"):
        return sorted(asked, key=lambda name: place(_hash(name)))
    return sorted(asked, key=lambda name: (place(_hash(name)), _signed(_hash(name))))


def _places(count: int) -> Callable[[int], int]:
    """Return the function that places a hash in a map of that many entries, at most three quarters full."""
    size = _SMALLEST_MAP
    while count > size * 3 // 4:
        size *= 2
    return lambda value: value & (size - 1)


def _hash(name: str) -> int:
    """Java's hash of a text, as the maps spread it."""
    value = 0
    for letter in name:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value ^ (value >> 16)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
