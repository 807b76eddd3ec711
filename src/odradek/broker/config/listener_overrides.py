"""Configs of one listener: `listener.name.<name>.<config>` is stronger than `<config>` (KIP-103, KIP-226)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.security.ssl_configs import SSL_CONFIGS

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

CLIENT_AUTH = "ssl.client.auth"
_MAPPING_RULES = "ssl.principal.mapping.rules"


def listener_prefix(listener_name: str) -> str:
    """Return what the names of a listener's own configs begin with."""
    return f"listener.name.{listener_name.lower()}."


def listener_config(config: BrokerConfig, listener_name: str, name: str) -> str | None:
    """Return the text of a config as it holds for a listener; None where it has none."""
    text = config.text_of(listener_prefix(listener_name) + name)
    return config.text_of(name) if text is None else text


def listener_values(config: BrokerConfig, listener_name: str, names: Iterable[str]) -> dict[str, str]:
    """Return those of the configs that have a value for a listener."""
    texts = ((name, listener_config(config, listener_name, name)) for name in names)
    return {name: text for name, text in texts if text is not None}


@dataclass(frozen=True)
class ListenerSsl:
    """A listener's TLS, as its configs say it.

    Attributes:
        configs: `ssl.*`, those of the listener's own before those for all.
        mapping_rules: `ssl.principal.mapping.rules`.
        names_principals: whether a client's certificate says who it is: of SSL, not of SASL_SSL.
        allow_dn_changes, allow_san_changes: what a renewed certificate may differ in.
    """

    configs: Mapping[str, str]
    mapping_rules: str | None = None
    names_principals: bool = True
    allow_dn_changes: bool = False
    allow_san_changes: bool = False

    @classmethod
    def of(cls, config: BrokerConfig, listener_name: str, protocol: str) -> ListenerSsl:
        """Gather the configs of a listener with this security protocol."""
        configs = listener_values(config, listener_name, SSL_CONFIGS)
        if protocol == "SSL":
            auth = listener_config(config, listener_name, CLIENT_AUTH)
        else:
            # As in Kafka, who logs in need not show a certificate only because clients of SSL have to.
            auth = config.text_of(listener_prefix(listener_name) + CLIENT_AUTH)
        if auth is not None:
            configs[CLIENT_AUTH] = auth
        return cls(
            configs=configs,
            mapping_rules=listener_config(config, listener_name, _MAPPING_RULES),
            names_principals=protocol == "SSL",
            allow_dn_changes=_is_true(listener_config(config, listener_name, "ssl.allow.dn.changes")),
            allow_san_changes=_is_true(listener_config(config, listener_name, "ssl.allow.san.changes")),
        )

    def __repr__(self) -> str:
        # Values may be passwords.
        return f"ListenerSsl({', '.join(sorted(self.configs))})"


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
