"""Subscriptions to clients' metrics (KIP-714): the configs of a `client-metrics` entity. Pure.

A subscription names prefixes of metrics, how often they are pushed, and which clients push them. Names,
limits and words are those of Kafka's `ClientMetricsConfigs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.cluster.configs.config_def import ConfigKey, ConfigType
from odradek.cluster.paths import desanitize, sanitize
from odradek.errors import InvalidConfigurationError, InvalidRequestError

METRICS, INTERVAL_MS, MATCH = "metrics", "interval.ms", "match"
DEFAULT_INTERVAL_MS = 300_000
_INTERVALS_MS = range(100, 3_600_001)
ALL_METRICS = "*"

CLIENT_METRICS = "client-metrics"
"""The type of these entities, as in `client-metrics/NAME`."""
_PREFIX = f"{CLIENT_METRICS}/"


def entity_of(name: str) -> str:
    """Return the path below `/config` of a subscription."""
    return _PREFIX + sanitize(name)


def subscriptions(configs: Iterable[str]) -> dict[str, str]:
    """Return the names of all subscriptions and their paths, sorted.

    Args:
        configs: the paths of all entities that have configs.
    """
    return dict(
        sorted((desanitize(path.removeprefix(_PREFIX)), path) for path in configs if path.startswith(_PREFIX))
    )


CLIENT_METRICS_CONFIGS: Mapping[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(METRICS, ConfigType.LIST, ""),
        ConfigKey(INTERVAL_MS, ConfigType.INT, str(DEFAULT_INTERVAL_MS)),
        ConfigKey(MATCH, ConfigType.LIST, ""),
    )
}

MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The attributes of a client by which a subscription may choose it."""

_LONGEST_PATTERN = 256


class Subscription(NamedTuple):
    """One subscription.

    Attributes:
        metrics: prefixes of names; `*` for all.
        interval_ms: how often they are pushed.
        patterns: for attributes of a client; all of them have to match in full.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, re.Pattern[str]]

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether a client with these attributes is meant."""
        return all(pattern.fullmatch(client.get(name, "")) for name, pattern in self.patterns.items())


def check_subscription(name: str, configs: Mapping[str, str]) -> None:
    """Check the configs of a subscription.

    Raises:
        InvalidRequestError: it has no name, a config is not known, or the interval is out of bounds.
        InvalidConfigurationError: a pattern is none.
        ConfigError: a value is not of its type.
    """
    if not name:
        raise InvalidRequestError("Subscription name can't be empty")
    for config_name in configs:
        if config_name not in CLIENT_METRICS_CONFIGS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {config_name}")
    subscription = parse_subscription(configs)
    if subscription.interval_ms not in _INTERVALS_MS:
        raise InvalidRequestError(
            f"Invalid value {subscription.interval_ms} for {INTERVAL_MS}, interval must be between 100 and "
            "3600000 (1 hour)"
        )


def parse_subscription(configs: Mapping[str, str]) -> Subscription:
    """Read the configs of a subscription.

    Raises:
        InvalidConfigurationError: a pattern is none.
        ConfigError: a value is not of its type.
    """
    values = {name: key.parse(configs.get(name, key.default)) for name, key in CLIENT_METRICS_CONFIGS.items()}
    interval_ms = values[INTERVAL_MS]
    assert isinstance(interval_ms, int)
    return Subscription(
        tuple(_texts(values[METRICS])), interval_ms, dict(map(_pattern, _texts(values[MATCH])))
    )


def _texts(value: object) -> Iterable[str]:
    assert isinstance(value, list)
    return value


def _pattern(text: str) -> tuple[str, re.Pattern[str]]:
    parts = text.rstrip("=").split("=")
    name = parts[0].strip()
    if len(parts) != 2 or name not in MATCHED or len(text) > _LONGEST_PATTERN:
        raise InvalidConfigurationError(f"Illegal client matching pattern: {text}")
    try:
        return name, re.compile(parts[1].strip())
    except re.error as error:
        raise InvalidConfigurationError(f"Illegal client matching pattern: {text}") from error
