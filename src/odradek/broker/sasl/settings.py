"""The configs about logins at one listener.

A listener's own configs (`listener.name.<listener>.…`) come before those of all listeners; a mechanism's
login module is looked for in `listener.name.<listener>.<mechanism>.sasl.jaas.config`, then in the JAAS file
(`odradek.jaas.config.file`), in its contexts `<listener>.KafkaServer` and `KafkaServer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.config.listener_overrides import listener_config
from odradek.cluster.configs.config_def import ConfigError
from odradek.sasl.jaas import JaasError, LoginModule, parse_jaas, parse_jaas_file
from odradek.sasl.mechanisms import GSSAPI, MODULE_OF, PLAIN, SaslError, ServerMechanism
from odradek.sasl.plain import PlainServer
from odradek.sasl.scram import FindCredential, ScramServer
from odradek.sasl.scram_credentials import HASHES
from odradek.sasl.scram_decoys import MakeDecoy

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

_USER = "user_"


class ListenerSasl(NamedTuple):
    """Logins at one listener.

    Attributes:
        mechanisms: makes the broker's half of an exchange, by mechanism, in the order of the config.
        max_receive_size: `sasl.server.max.receive.size`, bytes.
        failure_delay_ms: `connection.failed.authentication.delay.ms`.
        timeout_ms: `odradek.authentication.timeout.ms`.
        reauth_ms: `connections.max.reauth.ms` by mechanism; 0 for no bound.
    """

    mechanisms: Mapping[str, Callable[[], ServerMechanism]]
    max_receive_size: int
    failure_delay_ms: int
    timeout_ms: int
    reauth_ms: Mapping[str, int]


def listener_sasl(
    config: BrokerConfig,
    listener: str,
    find_credential: Callable[[str], FindCredential],
    *,
    make_decoys: Callable[[str], MakeDecoy | None] = lambda _: None,
    has_tokens: bool = False,
) -> ListenerSasl:
    """Read the configs of a listener.

    Args:
        config: the broker's.
        listener: its name.
        find_credential: SCRAM mechanism → finds what the cluster knows.
        make_decoys: SCRAM mechanism → what names that the cluster does not know are told.
        has_tokens: whether it knows delegation tokens, for which it takes its time.

    Raises:
        ConfigError: a mechanism that is not known here, or has no login module, or one that does not fit.
    """
    enabled = listener_config(config, listener, "sasl.enabled.mechanisms") or ""
    names = list(dict.fromkeys(name.strip() for name in enabled.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"listener {listener}: sasl.enabled.mechanisms is empty: nobody could log in")
    makers: dict[str, Callable[[], ServerMechanism]] = {}
    reauth: dict[str, int] = {}
    for mechanism in names:
        if mechanism not in MODULE_OF:
            raise ConfigError(
                f"listener {listener}: sasl.enabled.mechanisms has {mechanism}, which is not there; "
                f"{', '.join(MODULE_OF)} are"
            )
        module = server_module(config, listener, mechanism)
        if mechanism in HASHES:
            makers[mechanism] = partial(
                ScramServer,
                mechanism,
                find_credential(mechanism),
                make_decoy=make_decoys(mechanism),
                blocks=has_tokens,
            )
        else:
            makers[mechanism] = _maker(config, listener, mechanism, module)
        own = config.text_of(
            f"listener.name.{listener.lower()}.{mechanism.lower()}.connections.max.reauth.ms"
        )
        reauth[mechanism] = int(own or listener_config(config, listener, "connections.max.reauth.ms") or 0)
    return ListenerSasl(
        mechanisms=makers,
        max_receive_size=int(listener_config(config, listener, "sasl.server.max.receive.size") or 0),
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
        timeout_ms=config.odradek_authentication_timeout_ms,
        reauth_ms=reauth,
    )


def server_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    """The login module of a mechanism at a listener.

    Raises:
        ConfigError: there is none.
    """
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.text_of(name)
    module_name = MODULE_OF[mechanism]
    if text:
        try:
            modules = parse_jaas(text)
        except JaasError as error:
            raise ConfigError(f"{name}: {error}") from error
        where = name
    else:
        modules = modules_in_file(config, f"{listener.lower()}.KafkaServer", "KafkaServer")
        where = "the JAAS file"
    for module in modules:
        if module.short_name == module_name:
            return module
    if mechanism in HASHES and not modules:
        # Its users are in the metadata store: there is nothing to say of them.
        return LoginModule(module_name, "required", {})
    others = f"; {where} has {', '.join(module.short_name for module in modules)}" if modules else ""
    raise ConfigError(
        f"listener {listener}: {mechanism} is enabled and has no login module{others}. Give it one: "
        f"{name}=org.apache.kafka.common.security.….{module_name} required …;"
    )


def _maker(
    config: BrokerConfig,
    listener: str,
    mechanism: str,
    module: LoginModule,
) -> Callable[[], ServerMechanism]:
    if mechanism == PLAIN:
        users = {
            key.removeprefix(_USER): value for key, value in module.options.items() if key.startswith(_USER)
        }
        return lambda: PlainServer(users)
    if mechanism == GSSAPI:
        rules = listener_config(config, listener, "sasl.kerberos.principal.to.local.rules") or "DEFAULT"
        return _kerberos_maker(listener, module, rules)
    from odradek.broker.sasl.oauth import oauth_maker

    def text_of(name: str) -> str | None:
        own = config.text_of(f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}")
        return listener_config(config, listener, name) if own is None else own

    return oauth_maker(listener, module, text_of)


def _kerberos_maker(listener: str, module: LoginModule, rules: str) -> Callable[[], ServerMechanism]:
    from odradek.sasl.gssapi import GssapiServer, PrincipalRules, accepting_credentials

    principal, keytab = module.options.get("principal", ""), module.options.get("keyTab", "")
    if not principal or not keytab or "@" not in principal:
        raise ConfigError(
            f"listener {listener}: GSSAPI needs a keyTab and a principal with its realm in the login module"
        )
    try:
        principal_rules = PrincipalRules(_split_rules(rules), principal.rpartition("@")[2])
        credentials = accepting_credentials(principal, keytab)
    except SaslError as error:
        raise ConfigError(f"listener {listener}: {error}") from error
    return lambda: GssapiServer(credentials, principal_rules)


def _split_rules(text: str) -> list[str]:
    """The rules of a list; there may be commas within brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [rule.strip() for rule in parts if rule.strip()]


def modules_in_file(config: BrokerConfig, *contexts: str) -> list[LoginModule]:
    """Return the login modules of the first of these contexts that the file has; none without a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = config.odradek_jaas_config_file
    if not path:
        return []
    try:
        modules = parse_jaas_file(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"odradek.jaas.config.file: {path} cannot be read: {error}") from error
    except JaasError as error:
        raise ConfigError(f"odradek.jaas.config.file: {path}: {error}") from error
    return next((modules[context] for context in contexts if modules.get(context)), [])
