"""The settings of a console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ConsoleSettings:
    """The choices that a console is started with.

    Args:
        client_configs: the configs of its clients, `bootstrap_servers` among them.
        token: whoever knows it is let in. None: users log in as SASL users of the cluster, each with a client
            of their own, so that the cluster's ACLs hold for them.
        read_only: whether the console refuses to change anything.
        allowed_hosts: the names by which browsers may call it, beside addresses and `localhost`.
        schema_registry: the configs of the client of a schema registry; None without one.
        metrics_urls: of the metrics ports of brokers, which tell their applications.
        config_file: the properties file of `--command-config`, for the command lines that pages show.
    """

    client_configs: Mapping[str, Any]
    token: str | None
    read_only: bool = False
    allowed_hosts: frozenset[str] = frozenset()
    config_file: str | None = None
    schema_registry: Mapping[str, Any] | None = None
    metrics_urls: tuple[str, ...] = ()

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that are asked first."""
        return str(self.client_configs["bootstrap_servers"])
