"""The configs of a client of a schema registry, read from what an application gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.client.config import python_name
from odradek.client.errors import ConfigError
from odradek.client.names_elsewhere import ELSEWHERE
from odradek.security.ssl_configs import SSL_CONFIGS
from odradek.serdes.registry_config import RegistryConfig
from odradek.util.java_text import java_trim

_JAVAS_PREFIX = "schema.registry."
"""What the serializers for Java have before the configs that are for the registry."""
_ELSEWHERE = {
    "timeout": "request.timeout.ms, in milliseconds",
    "http.connect.timeout.ms": "request.timeout.ms",
    "http.read.timeout.ms": "request.timeout.ms",
    "latest.cache.ttl.sec": "cache.latest.ttl.sec",
    "proxy": "the environment variable https_proxy",
}


def registry_config(configs: Mapping[str, Any]) -> RegistryConfig:
    """Make the configs of what an application gives.

    Args:
        configs: the names of confluent-kafka's client of registries, Kafka's `ssl.*`, or either with
            `schema.registry.` before it; in Kafka's spelling or Python's.

    Raises:
        ConfigError: a config cannot be used, or is not known.
    """
    given: dict[str, Any] = {}
    for as_given, value in configs.items():
        name = python_name(as_given).replace("_", ".").removeprefix(_JAVAS_PREFIX)
        if name in given:
            raise ConfigError(f"{name} is given twice")
        given[name] = java_trim(value) if isinstance(value, str) else value
    urls = _addresses(given.pop("url", None))
    ssl = {name: str(given.pop(name)) for name in sorted(SSL_CONFIGS & given.keys())}
    if ssl and not any(url.startswith("https://") for url in urls):
        raise ConfigError(f"{next(iter(ssl))} is for TLS: url must begin with https://")
    ttl = given.pop("cache.latest.ttl.sec", None)
    config = RegistryConfig(
        urls,
        _user_info(given.pop("basic.auth.user.info", "")),
        str(given.pop("bearer.auth.token", "")),
        tuple((str(name), str(value)) for name, value in dict(given.pop("headers", {})).items()),
        tuple(ssl.items()),
        _number(given, "request.timeout.ms", 10_000, 1),
        _number(given, "max.retries", 3, 0),
        _number(given, "retries.wait.ms", 200, 0),
        _number(given, "retries.max.wait.ms", 20_000, 0),
        _number(given, "cache.capacity", 1000, 1),
        None if ttl is None else float(ttl),
    )
    if config.user_info and config.bearer_token:
        raise ConfigError("basic.auth.user.info and bearer.auth.token exclude each other")
    for name in given:
        raise ConfigError(f"{name}: no such config of a schema registry's client is known{_hint(name)}")
    return config


def _addresses(value: Any) -> tuple[str, ...]:
    if value is None:
        raise ConfigError("url is missing: say where the schema registry is")
    parts = value.split(",") if isinstance(value, str) else list(value)
    urls = tuple(str(part).strip().rstrip("/") for part in parts if str(part).strip())
    if not urls:
        raise ConfigError("url is empty: say where the schema registry is")
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"url must begin with http:// or https://, got {url!r}")
    return urls


def _user_info(value: Any) -> str:
    text = ":".join(value) if isinstance(value, tuple) else str(value)
    if text and ":" not in text:
        raise ConfigError("basic.auth.user.info must be user:password")
    return text


def _number(given: dict[str, Any], name: str, default: int, least: int) -> int:
    value = given.pop(name, default)
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={value!r}: not a whole number") from None
    if number < least:
        raise ConfigError(f"{name}={number}: must be at least {least}")
    return number


def _hint(name: str) -> str:
    if name in _ELSEWHERE:
        return f"; it is {_ELSEWHERE[name]} here"
    here = ELSEWHERE.get(python_name(name))
    if here is None or not here.config:
        return ""
    return f"; did you mean {here.config}?" + (f" ({here.remark})" if here.remark else "")
