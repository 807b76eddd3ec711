"""The names of broker configs: as attributes, under a listener's prefix, and those that mean one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.broker.config.table import (
    BROKER_CONFIGS,
    CLUSTER_WIDE,
    DYNAMIC_ONLY_CONFIGS,
    GONE_CONFIGS,
    OWN_CONFIGS,
    PER_BROKER,
    UPDATE_MODES,
)
from odradek.cluster.configs.config_def import ConfigKey
from odradek.util.java_text import java_trim

KNOWN: Mapping[str, ConfigKey] = {
    **BROKER_CONFIGS,
    **GONE_CONFIGS,
    **DYNAMIC_ONLY_CONFIGS,
    **OWN_CONFIGS,
}
AUTHORIZER_CONFIGS = ("super.users", "allow.everyone.if.no.acl.found")
"""Configs of the authorizer's: to the broker they are unknown, as they are in Kafka, whose DescribeConfigs
therefore hides their values."""

NAME_OF = {name.replace(".", "_"): name for name in KNOWN}

_SAME = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_BACKED = {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}

_CLUSTER_LEVEL_LISTENER = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def config_name(attribute: str) -> str:
    """Kafka's name for an attribute: `num_partitions` → `num.partitions`; unknown ones are turned alike."""
    return NAME_OF.get(attribute, attribute.replace("_", "."))


def base_name(name: str) -> str:
    """The config that `listener.name.<listener>.[<mechanism>.]<config>` is about, else `name` itself."""
    if not name.startswith("listener.name."):
        return name
    base = name.split(".", 3)[-1]
    return next((suffix for suffix in _PER_MECHANISM if base.endswith(suffix)), base)


def is_about_a_listener(name: str) -> bool:
    """Return whether a config stands under a listener's prefix."""
    return name.startswith("listener.name.")


def find_key(name: str) -> ConfigKey | None:
    """The table's row for a config, also under a listener's prefix; None if there is none."""
    return KNOWN.get(name) or KNOWN.get(base_name(name))


def trimmed(configs: Mapping[str, str]) -> dict[str, str]:
    """Return configs with the values of those that are known as Kafka parses them: without blanks around.

    Whoever reads the text of a config reads this: key stores, logins, the way to ZooKeeper.
    """
    return {name: text if find_key(name) is None else java_trim(text) for name, text in configs.items()}


def might_be(name: str) -> bool:
    """Return whether somebody reads a config of this name: the broker, its authorizer, or a provider."""
    is_of_provider = name.startswith("config.providers.")
    return find_key(name) is not None or name in AUTHORIZER_CONFIGS or is_of_provider


def known_names() -> Iterable[str]:
    """The names of all configs that there are."""
    return (*KNOWN, *AUTHORIZER_CONFIGS)


def synonyms_of(name: str) -> tuple[str, ...]:
    """The names under which a config's value may be given, the strongest first."""
    for group in _SAME:
        if name in group:
            return group
    base = base_name(name)
    return _BACKED.get(name, (name,) if base == name else (name, base))


def update_mode(name: str) -> str | None:
    """`CLUSTER_WIDE`, `PER_BROKER`, or None for what cannot change while the broker runs."""
    base = base_name(name)
    if base != name:
        return CLUSTER_WIDE if base in _CLUSTER_LEVEL_LISTENER else PER_BROKER
    if name in DYNAMIC_ONLY_CONFIGS:
        return CLUSTER_WIDE
    return UPDATE_MODES.get(name)
