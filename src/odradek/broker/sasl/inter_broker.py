"""The logins of this broker at the others of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.config.listener_overrides import listener_config
from odradek.cluster.configs.config_def import ConfigError
from odradek.sasl.mechanisms import MODULE_OF, LoginError

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.sasl.logins import Login


def inter_broker_login(config: BrokerConfig, listener: str) -> Login | None:
    """The login by `sasl.mechanism.inter.broker.protocol`; None where the brokers' listener has no SASL.

    Args:
        config: of this broker.
        listener: that brokers talk to each other by.

    Raises:
        ConfigError: the mechanism is not enabled there, or its login module has no name and password.
    """
    protocols = {endpoint.listener: endpoint.security_protocol for endpoint in config.listener_endpoints}
    if not protocols.get(listener, listener).startswith("SASL_"):
        return None
    from odradek.broker.sasl.settings import server_module
    from odradek.sasl.logins import login_of

    mechanism = listener_config(config, listener, "sasl.mechanism.inter.broker.protocol") or ""
    enabled = (listener_config(config, listener, "sasl.enabled.mechanisms") or "").replace(" ", "").split(",")
    if mechanism not in enabled or mechanism not in MODULE_OF:
        raise ConfigError(
            f"sasl.mechanism.inter.broker.protocol={mechanism}: it must be one of the mechanisms that are "
            f"enabled at the brokers' listener {listener}: {', '.join(enabled)}"
        )
    module = server_module(config, listener, mechanism)
    configs = {
        name: text
        for name in config.given
        if name.startswith(("sasl.oauthbearer.", "sasl.kerberos."))
        and (text := listener_config(config, listener, name))
    }
    try:
        return login_of(mechanism, module=module, configs=configs)
    except LoginError as error:
        raise ConfigError(f"login among the brokers at {listener}: {error}") from error
