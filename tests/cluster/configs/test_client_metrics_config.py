"""Subscriptions to clients' metrics: Kafka's limits and words."""

from __future__ import annotations

import pytest

from odradek.cluster.configs.client_metrics_config import check_subscription, parse_subscription
from odradek.cluster.configs.config_def import ConfigError
from odradek.errors import InvalidConfigurationError, InvalidRequestError


def test_defaults() -> None:
    check_subscription("all", {})
    assert parse_subscription({}) == ((), 300_000, {})


def test_which_clients_are_meant() -> None:
    subscription = parse_subscription({"match": "client_id = shop-[0-9]+ ,client_software_version=3\\..*"})
    assert subscription.matches({"client_id": "shop-12", "client_software_version": "3.9"})
    assert not subscription.matches({"client_id": "shop-12x", "client_software_version": "3.9"})
    assert not subscription.matches({"client_id": "shop-12"})


@pytest.mark.parametrize(
    ("name", "configs", "kind", "message"),
    [
        ("", {}, InvalidRequestError, "Subscription name can't be empty"),
        (
            "s",
            {"retention.ms": "1"},
            InvalidRequestError,
            "Unknown client metrics configuration: ret",
        ),
        (
            "s",
            {"interval.ms": "99"},
            InvalidRequestError,
            "Invalid value 99 for interval.ms, inter",
        ),
        ("s", {"interval.ms": "3600001"}, InvalidRequestError, "between 100 and 3600000"),
        ("s", {"interval.ms": "x"}, ConfigError, "Invalid value x for configuration interval.ms"),
        (
            "s",
            {"match": "client_id"},
            InvalidConfigurationError,
            "Illegal client matching pattern: client",
        ),
        ("s", {"match": "principal=x"}, InvalidConfigurationError, "Illegal client matching pattern"),
        ("s", {"match": "client_id=a=b"}, InvalidConfigurationError, "Illegal client matching pattern"),
        ("s", {"match": "client_id=("}, InvalidConfigurationError, "Illegal client matching pattern"),
    ],
)
def test_what_is_refused(name: str, configs: dict[str, str], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        check_subscription(name, configs)
