"""The addresses at which the broker listens and those that it tells others to connect to: `listeners`,
`advertised.listeners` and the names that stood for them before 3.0 (`host.name`, `port`,
`advertised.host.name`, `advertised.port`).
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.nodes import Endpoint
from odradek.util.hosts import same_host

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

ALL_ADDRESSES = ("0.0.0.0", "::")
"""Hosts to listen on that nobody can connect to from elsewhere."""


def parse_protocol_map(text: str) -> dict[str, str]:
    """Read `listener.security.protocol.map`: listener name to security protocol.

    Raises:
        ConfigError: an entry is not `NAME:PROTOCOL`, or names no known protocol.
    """
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.partition(":")
        protocol = protocol.strip().upper()
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError.invalid(
                "listener.security.protocol.map", text, f"{entry} is not a listener and its security protocol"
            )
        protocols[name.strip().upper()] = protocol
    return protocols


def parse_listeners(
    config: str, text: str, protocols: Mapping[str, str], *, distinct_ports: bool = True
) -> tuple[Endpoint, ...]:
    """Read `listeners` or `advertised.listeners`.

    Args:
        config: the config's name, for complaints.
        text: such as `PLAINTEXT://127.0.0.1:9092,INTERNAL://:9093`.
        protocols: security protocols by listener name.
        distinct_ports: whether two listeners must not have the same port (0 excepted).

    Raises:
        ConfigError: an entry is not `NAME://HOST:PORT`, its name has no security protocol, or names or ports
            come twice.
    """
    endpoints: list[Endpoint] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = entry.partition("://")
        host, colon, port_text = address.rpartition(":")
        name = name.upper()
        port_ok = port_text.isascii() and port_text.isdigit() and int(port_text) <= 65535
        if not separator or not name or not colon or not port_ok:
            raise ConfigError.invalid(config, text, f"{entry} is not NAME://HOST:PORT")
        if name not in protocols:
            raise ConfigError.invalid(
                config,
                text,
                f"No security protocol defined for listener {name} in listener.security.protocol.map",
            )
        host = host.removeprefix("[").removesuffix("]")
        endpoints.append(Endpoint(name, host, int(port_text), protocols[name]))
    names = [endpoint.listener for endpoint in endpoints]
    ports = [endpoint.port for endpoint in endpoints if endpoint.port]
    if len(set(names)) < len(names):
        raise ConfigError.invalid(config, text, "Each listener must have a different name")
    if distinct_ports and len(set(ports)) < len(ports):
        raise ConfigError.invalid(config, text, "Each listener must have a different port")
    return tuple(endpoints)


def parse_ip_overrides(text: str) -> tuple[tuple[str, int], ...]:
    """Read `max.connections.per.ip.overrides`: addresses, and how many connections each may have.

    Raises:
        ConfigError: an entry is not `HOST:NUMBER`.
    """
    overrides = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, colon, limit = part.rpartition(":")
        if not colon or not host or not (limit.isascii() and limit.isdigit()):
            raise ConfigError(f"max.connections.per.ip.overrides: {part!r} is not host:number")
        overrides.append((same_host(host), int(limit)))
    return tuple(overrides)


def advertise(
    advertised: tuple[Endpoint, ...], bound_ports: Mapping[str, int], default_host: str
) -> tuple[Endpoint, ...]:
    """The endpoints to register: port 0 becomes the port that was bound, an empty host `default_host`."""
    return tuple(
        endpoint._replace(
            host=endpoint.host or default_host,
            port=endpoint.port or bound_ports.get(endpoint.listener, 0),
        )
        for endpoint in advertised
    )
