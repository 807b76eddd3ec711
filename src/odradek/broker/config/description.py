"""Configs as DescribeConfigs shows them: value, where it comes from, what else gives it a value, what it is
for.

Passwords, and what has no known type, are shown without a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.broker.config.broker_config import BrokerConfig, ConfigSource, Synonym
from odradek.broker.config.kafka_kinds import shown_mode_in, type_in
from odradek.broker.config.listing import (
    in_kafkas_order,
    listed_broker_configs,
    listed_topic_configs,
    release_of,
)
from odradek.broker.config.names import find_key, update_mode
from odradek.cluster.configs.config_def import ConfigError, ConfigKey, ConfigType, to_text
from odradek.cluster.configs.topic_config import SYNONYMS, TOPIC_CONFIGS


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
    wanted = None if names is None else frozenset(names)
    return [
        _topic_entry(config, TOPIC_CONFIGS[name], overrides)
        for name in listed_topic_configs(config, overrides, wanted)
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
    wanted = None if names is None else frozenset(names)
    return [
        _broker_entry(config, name, config.synonyms(name)) for name in listed_broker_configs(config, wanted)
    ]


def describe_cluster_defaults(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """The dynamic configs that hold for all brokers."""
    defaults = config.dynamic_defaults()
    wanted = None if names is None else frozenset(names)
    entries: list[ConfigEntry] = []
    for name in in_kafkas_order(list(defaults), release_of(config), wanted):
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
