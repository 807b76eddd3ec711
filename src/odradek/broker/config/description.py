"""Configs as DescribeConfigs shows them: which, in which order, their values and where those come from.

Passwords, and what has no known type, are shown without a value.

The order is that of the release which the broker is. Kafka puts all configs into a hash map and answers in
the order in which it comes out again. From 4.2 on, and before 2.6, that map is Java's, whose entries of one
place keep the order in which they came: the table's, then what was given besides. From 2.6 to 4.1 it is
Scala's, which has them by hash. Where configs are asked for by name, Kafka before 4.2 puts these into a map
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.broker.config.broker_config import BrokerConfig, ConfigSource, Synonym
from odradek.broker.config.kafka_kinds import shown_mode_in, type_in
from odradek.broker.config.names import find_key, update_mode
from odradek.broker.config.table import BROKER_CONFIGS, GONE_CONFIGS, INTERNAL_CONFIGS
from odradek.broker.kafka_versions.config_names import knows_broker_config, knows_topic_config
from odradek.broker.kafka_versions.release import Release, find
from odradek.cluster.configs.config_def import ConfigError, ConfigKey, ConfigType, to_text
from odradek.cluster.configs.topic_config import SYNONYMS, TOPIC_CONFIGS

TODAY = "4.3"
"""The release whose configs a broker lists that is told to be none."""

_SMALLEST_MAP = 16


def release_of(config: BrokerConfig) -> Release:
    """The release as which a broker lists its configs."""
    return config.release if config.release is not None else find(TODAY)


def listed_broker_configs(config: BrokerConfig, wanted_names: Collection[str] | None = None) -> list[str]:
    """The names of a broker's configs, in order: those of its release, and what was given besides.

    Args:
        config: the broker's.
        wanted_names: those that are asked for; None for all.
    """
    release = release_of(config)
    given = (*config.given, *config.dynamic_names())
    config_names = (*BROKER_CONFIGS, *GONE_CONFIGS)
    names = dict.fromkeys(
        (*(name for name in config_names if name in given or _is_shown(name, release)), *given)
    )
    return in_kafkas_order(list(names), release, wanted_names)


def _is_shown(name: str, release: Release) -> bool:
    return name not in INTERNAL_CONFIGS and knows_broker_config(release, name)


def listed_topic_configs(
    config: BrokerConfig, overrides: Iterable[str], wanted_names: Collection[str] | None = None
) -> list[str]:
    """The names of a topic's configs, in order; `overrides` are its own."""
    release = release_of(config)
    config_names = (name for name in TOPIC_CONFIGS if knows_topic_config(release, name))
    own = (name for name in overrides if name in TOPIC_CONFIGS)
    return in_kafkas_order(list(dict.fromkeys((*config_names, *own))), release, wanted_names)


def in_kafkas_order(
    names: Sequence[str], release: Release, wanted_names: Collection[str] | None
) -> list[str]:
    """Names in the order in which a release answers.

    Args:
        names: all that there are, in the order in which they come into the map.
        release: the release.
        wanted_names: those that are asked for; None for all.
    """
    listed = names if wanted_names is None else [name for name in names if name in wanted_names]
    if release.at_least("4.2"):
        place = _places(len(names))
        return sorted(listed, key=lambda name: place(_hash(name)))
    place = _places(len(listed))
    if not release.at_least("2.6"):
        return sorted(listed, key=lambda name: place(_hash(name)))
    return sorted(listed, key=lambda name: (place(_hash(name)), _signed(_hash(name))))


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


class ConfigEntry(NamedTuple):
    """One config of a topic or a broker.

    Attributes:
        name: Kafka's.
        value: as text; None when there is none or it must not be shown.
        source: what gives it this value.
        sensitive: whether the value is hidden.
        read_only: whether it cannot be changed while the broker runs.
        synonyms: everything that gives it a value, the strongest first.
        type: of its values; None when unknown.
    """

    name: str
    value: str | None
    source: ConfigSource
    sensitive: bool
    read_only: bool
    synonyms: tuple[Synonym, ...]
    type: ConfigType | None


def describe_topic_configs(
    config: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """The configs of a topic.

    Args:
        config: of the broker, for what the topic does not override.
        overrides: the topic's own.
        names: the configs that are asked for; None for all.
    """
    wanted_names = None if names is None else frozenset(names)
    return [
        _topic_entry(config, TOPIC_CONFIGS[name], overrides)
        for name in listed_topic_configs(config, overrides, wanted_names)
    ]


def _topic_entry(config: BrokerConfig, key: ConfigKey, overrides: Mapping[str, str]) -> ConfigEntry:
    brokers = SYNONYMS.get(key.name, ())
    synonyms = [_hidden(s, key.is_sensitive) for s in config.synonyms(brokers[0][0])] if brokers else []
    if key.name in overrides:
        value = _value(key, overrides[key.name])
        synonyms.insert(0, Synonym(key.name, value, ConfigSource.TOPIC_CONFIG))
    else:
        value = to_text(config.topic_defaults()[key.name])
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(
        key.name,
        None if key.is_sensitive else value,
        source,
        key.is_sensitive,
        False,
        tuple(synonyms),
        key.type,
    )


def describe_broker_configs(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """The configs of this broker; `names` are those that are asked for, None for all."""
    wanted_names = None if names is None else frozenset(names)
    return [
        _broker_entry(config, name, config.synonyms(name))
        for name in listed_broker_configs(config, wanted_names)
    ]


def describe_cluster_defaults(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """The dynamic configs that hold for all brokers."""
    defaults = config.dynamic_defaults()
    wanted_names = None if names is None else frozenset(names)
    entries: list[ConfigEntry] = []
    for name in in_kafkas_order(list(defaults), release_of(config), wanted_names):
        text = defaults[name]
        synonyms = [Synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]
        entry = _broker_entry(config, name, synonyms)
        key = find_key(name)
        entries.append(entry._replace(value=None if key is None else _value(key, text)))
    return entries


def _broker_entry(config: BrokerConfig, name: str, synonyms: list[Synonym]) -> ConfigEntry:
    key, release = find_key(name), release_of(config)
    sensitive = key is None or key.is_sensitive
    text = config.text_of(name)
    return ConfigEntry(
        name,
        None if key is None or sensitive or text is None else _value(key, text),
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        sensitive,
        shown_mode_in(release, name, update_mode(name)) is None,
        tuple(_hidden(synonym, sensitive) for synonym in synonyms),
        None if key is None else type_in(release, name, key.type),
    )


def _hidden(synonym: Synonym, sensitive: bool) -> Synonym:
    return synonym._replace(value=None) if sensitive else synonym


def _value(key: ConfigKey, text: str) -> str | None:
    """A value in the form in which Kafka prints it."""
    try:
        return to_text(key.parse(text))
    except ConfigError:
        # Written into the store by somebody who did not check: shown as it stands there.
        return text
