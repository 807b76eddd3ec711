"""Configs from what `odradek server` was given: a file of Kafka's, `--set`, `--host` and `--port`.

What is given on the command line is stronger than the file. `--host` and `--port` say where the broker
listens *and* what it advertises: they take the place of `listeners` and `advertised.listeners` in the file,
which keep a say in what the options leave open. `--set advertised.listeners=…` is the last word in what is
advertised.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from odradek.broker.config.broker_config import BrokerConfig, read_properties
from odradek.broker.config.listeners import ALL_ADDRESSES, parse_listeners, parse_protocol_map
from odradek.broker.config.names import known_names
from odradek.broker.config.protection import unkept_promises
from odradek.broker.config.table import BROKER_CONFIGS
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.nodes import Endpoint

logger = logging.getLogger("odradek.broker.config")

#: How alike names have to be (difflib's ratio) for one to be told instead of another.
NEAR = 0.75
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092

_WHERE = ("listeners", "host.name", "port")
_ADVERTISED = ("advertised.listeners", "advertised.host.name", "advertised.port")
_PROTOCOLS = "listener.security.protocol.map"


def read_config(
    file: Path | None, settings: Mapping[str, str], *, host: str | None = None, port: int | None = None
) -> BrokerConfig:
    """Read the configs of a broker.

    Args:
        file: a `server.properties`.
        settings: what `--set` and options for single configs say, by Kafka's name.
        host, port: of `--host` and `--port`.

    Raises:
        ConfigError: the file cannot be read, or a value is wrong; the file is named.
    """
    given = {**({} if file is None else read_properties(file)), **settings}
    try:
        has_address = port is not None or host is not None
        if has_address or not any(name in given for name in _WHERE):
            given = _placed(given, settings, host, port)
        return BrokerConfig(given)
    except ConfigError as error:
        if file is None:
            raise
        raise ConfigError(f"{file}: {error}") from error


def warn_of(config: BrokerConfig) -> None:
    """Log the given configs that nobody knows, with the nearest names, and those that change nothing."""
    if config.unknown:
        # Here, as it is hardly ever needed.
        from difflib import get_close_matches

        names = sorted(known_names())
        for name in config.unknown:
            if near := get_close_matches(name, names, n=3, cutoff=NEAR):
                logger.warning("unknown config is ignored name=%s nearest=%s", name, ",".join(near))
            else:
                logger.warning("unknown config is ignored name=%s", name)
    # Those that ask for protection have a line of their own, or the start is refused.
    promises = {promise.name for promise in unkept_promises(config)}
    for name in config.without_effect():
        if name not in promises:
            logger.warning("config has no effect here name=%s", name)


def _placed(
    given: Mapping[str, str], settings: Mapping[str, str], host: str | None, port: int | None
) -> dict[str, str]:
    """The configs with one listener, where the options want it."""
    before = _listeners(given)
    first = before[0] if before else Endpoint("PLAINTEXT", DEFAULT_HOST, DEFAULT_PORT)
    for dropped in before[1:]:
        logger.warning("listener gives way to --host or --port name=%s", dropped.listener)
    listener = first._replace(
        host=first.host if host is None else host, port=first.port if port is None else port
    )
    placed = {name: text for name, text in given.items() if name not in _WHERE}
    placed["listeners"] = listener.connection_string
    if not any(name in settings for name in _ADVERTISED):
        for name in _ADVERTISED:
            placed.pop(name, None)
        advertised = _advertised(given, listener, host, port)
        if advertised != listener:
            placed["advertised.listeners"] = advertised.connection_string
    return placed


def _listeners(given: Mapping[str, str]) -> tuple[Endpoint, ...]:
    if given.get("listeners", "").strip():
        return parse_listeners("listeners", given["listeners"], _protocols(given))
    if "host.name" in given or "port" in given:
        config = BrokerConfig({name: given[name] for name in ("host.name", "port") if name in given})
        return (Endpoint("PLAINTEXT", config.host_name, config.port),)
    return ()


def _advertised(given: Mapping[str, str], listener: Endpoint, host: str | None, port: int | None) -> Endpoint:
    """Return the advertised address of `listener`: the options', else the file's, else its own."""
    advertised = listener
    if given.get("advertised.listeners", "").strip():
        of_file = parse_listeners(
            "advertised.listeners", given["advertised.listeners"], _protocols(given), distinct_ports=False
        )
        advertised = next(
            (endpoint for endpoint in of_file if endpoint.listener == listener.listener), listener
        )
    elif "advertised.host.name" in given or "advertised.port" in given:
        names = [name for name in ("advertised.host.name", "advertised.port") if name in given]
        config = BrokerConfig({name: given[name] for name in names})
        advertised = listener._replace(
            host=config.advertised_host_name or listener.host, port=config.advertised_port or listener.port
        )
    if host is not None and host not in ALL_ADDRESSES:
        advertised = advertised._replace(host=host)
    elif host is not None and advertised.host in ALL_ADDRESSES:
        advertised = advertised._replace(host="")  # this machine's name, as for `PLAINTEXT://:9092`
    return advertised._replace(port=advertised.port if port is None else port)


def _protocols(given: Mapping[str, str]) -> Mapping[str, str]:
    # Not by way of a `BrokerConfig`, which checks the listeners that are about to be replaced.
    return parse_protocol_map(given.get(_PROTOCOLS) or BROKER_CONFIGS[_PROTOCOLS].default or "")
