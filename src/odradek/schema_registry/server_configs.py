"""The configs of a schema registry: the names are those of Confluent's (`schema-registry.properties`)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from odradek.errors import OdradekError
from odradek.schema_registry.compatibility import DEFAULT_LEVEL, LEVELS

_STORE = "kafkastore."
_SCHEMES = ("http", "https")


class ServerConfigError(OdradekError):
    """A config that cannot be used; the message names it."""


@dataclass(frozen=True)
class ServerConfig:
    """The configs that a registry is started with.

    Attributes:
        host, port, is_https: where it listens (`listeners`).
        store: configs of the clients that read and write the topic, under Kafka's names; empty: in memory.
        topic: `kafkastore.topic`.
        replication_factor: `kafkastore.topic.replication.factor`.
        timeout_s, init_timeout_s: `kafkastore.timeout.ms`, `kafkastore.init.timeout.ms`.
        level: `schema.compatibility.level`, for subjects whose config says none.
        are_modes_mutable: `mode.mutability`.
        user_info: `odradek.basic.auth.user.info`, `user:password` that requests have to bring.
        ssl: `ssl.*` of the listener.
    """

    host: str = "127.0.0.1"
    port: int = 8081
    is_https: bool = False
    store: Mapping[str, Any] = field(default_factory=dict)
    topic: str = "_schemas"
    replication_factor: int = 3
    timeout_s: float = 30
    init_timeout_s: float = 60
    level: str = DEFAULT_LEVEL
    are_modes_mutable: bool = True
    user_info: str = field(default="", repr=False)
    ssl: Mapping[str, str] = field(default_factory=dict, repr=False)


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("it is to be positive")
    return number


def _seconds(text: str) -> float:
    return _number(text) / 1000


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _level(text: str) -> str:
    level = text.strip().upper()
    if level not in LEVELS:
        raise ValueError(f"one of {', '.join(level.lower() for level in LEVELS)}")
    return level


def _user_info(text: str) -> str:
    if not text.partition(":")[0] or ":" not in text:
        raise ValueError("user:password")
    return text


#: Config → (attribute of `ServerConfig`, how it is read).
_CONFIGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "kafkastore.topic": ("topic", str.strip),
    "kafkastore.topic.replication.factor": ("replication_factor", _number),
    "kafkastore.timeout.ms": ("timeout_s", _seconds),
    "kafkastore.init.timeout.ms": ("init_timeout_s", _seconds),
    "schema.compatibility.level": ("level", _level),
    "avro.compatibility.level": ("level", _level),
    "mode.mutability": ("are_modes_mutable", _truth),
    "odradek.basic.auth.user.info": ("user_info", _user_info),
}
#: Configs of Confluent's that change nothing here.
_IGNORED = (
    "host.name",
    "inter.instance.",
    "leader.",
    "master.",
    "schema.registry.group.id",
    "debug",
    "metric",
)
_CLIENTS = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")


def read_server_config(properties: Mapping[str, str]) -> ServerConfig:
    """Return the config that properties say.

    Raises:
        ServerConfigError: one has a value that it cannot have, or is not known.
    """
    read: dict[str, Any] = {"store": {}, "ssl": {}}
    for name, text in properties.items():
        if name == "listeners":
            read["host"], read["port"], read["is_https"] = _listener(text)
        elif name in _CONFIGS:
            attribute, reader = _CONFIGS[name]
            try:
                read[attribute] = reader(text)
            except (ValueError, KeyError) as problem:
                shown = "" if attribute == "user_info" else f" not {text!r}:"
                raise ServerConfigError(f"{name}:{shown} {problem}") from None
        elif name.startswith(_STORE) and name.removeprefix(_STORE).startswith(_CLIENTS):
            read["store"][name.removeprefix(_STORE)] = text
        elif name.startswith("ssl."):
            read["ssl"][name] = text
        elif not name.startswith((*_IGNORED, "config.providers")):
            near = difflib.get_close_matches(name, [*_CONFIGS, "listeners", f"{_STORE}bootstrap.servers"], 1)
            raise ServerConfigError(
                f"{name} is no config of a schema registry" + (f"; {near[0]}?" if near else "")
            )
    servers = read["store"].get("bootstrap.servers")
    if servers is not None:
        # As Confluent has them: PLAINTEXT://host:9092,SSL://…
        read["store"]["bootstrap.servers"] = ",".join(
            s.rpartition("://")[2].strip() for s in servers.split(",")
        )
    elif read["store"]:
        raise ServerConfigError(f"{_STORE}bootstrap.servers is missing: which brokers have the topic?")
    return ServerConfig(**read)


def _listener(text: str) -> tuple[str, int, bool]:
    if "," in text:
        raise ServerConfigError(f"listeners: one address, not {text!r}")
    parts = urlsplit(text.strip())
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in _SCHEMES or port is None or parts.path.strip("/"):
        raise ServerConfigError(f"listeners: http://HOST:PORT or https://HOST:PORT, not {text!r}")
    return parts.hostname or "0.0.0.0", port, parts.scheme == "https"
