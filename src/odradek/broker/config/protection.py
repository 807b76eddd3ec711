"""Configs that ask for protection, or for a cluster of KRaft, that this release does not have.

A broker that passed over them would serve everybody, in plain text, while its operator believes otherwise.
So it does not start, unless `odradek.insecure` says that this is meant
(docs/decisions/security-configs-refuse-the-start.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.config.names import base_name
from odradek.cluster.configs.config_def import ConfigError

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig

INSECURE = "odradek.insecure"

_NOT_ENCRYPTED = "nothing is encrypted"
_NOT_AUTHENTICATED = "nobody is authenticated"
_NOT_AUTHORIZED = "everybody may do everything"
_NO_POLICY = "no class has a say in what is created or changed"
_NO_CLUSTER = "the broker is alone, a cluster of its own: one of several takes zookeeper.connect"


class Unkept(NamedTuple):
    """A config whose promise is not kept: its name, and what holds instead."""

    name: str
    instead: str


def _always(_text: str) -> bool:
    return True


AUTHORIZERS = frozenset(
    (
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    )
)
"""Kafka's authorizers, all of which mean the one that is here."""


def _is_not_ours(text: str) -> bool:
    return text.strip() not in AUTHORIZERS


def _unless(harmless: str) -> Callable[[str], bool]:
    return lambda text: text.strip().lower() != harmless.lower()


def _several(text: str) -> bool:
    return sum(1 for part in text.split(",") if part.strip()) > 1


def _is_half_a_node(text: str) -> bool:
    return {part.strip().lower() for part in text.split(",")} != {"broker", "controller"}


_PROMISES: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "authorizer.class.name": (_is_not_ours, _NOT_AUTHORIZED),
    "authorizer.zookeeper.url": (_always, "the ACLs are where the rest of the metadata is"),
    "security.providers": (_always, _NOT_ENCRYPTED),
    "ssl.engine.factory.class": (_always, _NOT_ENCRYPTED),
    "connections.max.reauth.ms": (_unless("0"), _NOT_AUTHENTICATED),
    "delegation.token.master.key": (_always, _NOT_AUTHENTICATED),
    "delegation.token.secret.key": (_always, _NOT_AUTHENTICATED),
    "principal.builder.class": (
        _unless("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        _NOT_AUTHENTICATED,
    ),
    "create.topic.policy.class.name": (_always, _NO_POLICY),
    "alter.config.policy.class.name": (_always, _NO_POLICY),
    "process.roles": (_is_half_a_node, _NO_CLUSTER),
    "controller.quorum.voters": (_several, _NO_CLUSTER),
    "controller.quorum.bootstrap.servers": (_several, _NO_CLUSTER),
}
"""Config → which values promise something, and what holds instead; also under a listener's prefix."""

_OF_THE_AUTHORIZER: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "super.users": (_always, _NOT_AUTHORIZED),
    "allow.everyone.if.no.acl.found": (_unless("true"), _NOT_AUTHORIZED),
}
"""Promises that are kept where there is an authorizer."""

_PREFIXES = {"sasl.": _NOT_AUTHENTICATED}

_OF_JAVA = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
"""Configs that name classes to log in by. Kafka's own for OAUTHBEARER say nothing new; others are Java's."""

_OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer."


def _has_logins(config: BrokerConfig) -> bool:
    return any(endpoint.security_protocol.startswith("SASL") for endpoint in config.listener_endpoints)


def _is_kept(base: str, text: str, has_logins: bool) -> bool:
    """Return whether a config's promise is kept by the logins at a SASL listener."""
    if base in _OF_JAVA:
        return has_logins and text.strip().startswith(_OAUTH_HANDLER)
    return has_logins and (
        base.startswith(("sasl.", "delegation.token.")) or base == "connections.max.reauth.ms"
    )


def is_kept_class(base: str, text: str) -> bool:
    """Return whether this broker has the class that a config names, or the config promises nothing."""
    promise = _PROMISES.get(base)
    return promise is None or not promise[0](text)


def unkept_promises(config: BrokerConfig) -> list[Unkept]:
    """The given configs whose promise is not kept, by name. An empty value promises nothing."""
    warnings = []
    has_authorizer = config.authorizer_class_name.strip() in AUTHORIZERS
    promises = _PROMISES if has_authorizer else {**_PROMISES, **_OF_THE_AUTHORIZER}
    has_logins = _has_logins(config)
    for name, text in sorted(config.given.items()):
        if not text.strip():
            continue
        base = base_name(name)
        if _is_kept(base, text, has_logins):
            continue
        promise = promises.get(base)
        if promise is None:
            promise = next(
                ((_always, why) for prefix, why in _PREFIXES.items() if base.startswith(prefix)), None
            )
        if promise is not None and promise[0](text):
            warnings.append(Unkept(name, promise[1]))
    return warnings


def check_promises(config: BrokerConfig) -> list[Unkept]:
    """The promises that are not kept, and need not be: `odradek.insecure` is set.

    Raises:
        ConfigError: it is not set; the message names the configs, what holds instead, and the remedy. No
            value is shown, as some are passwords.
    """
    unkept = unkept_promises(config)
    if not unkept or config.odradek_insecure:
        return unkept
    reasons: dict[str, list[str]] = {}
    for name, instead in unkept:
        reasons.setdefault(instead, []).append(name)
    complaints = "; ".join(f"{', '.join(names)} ({instead})" for instead, names in reasons.items())
    raise ConfigError(
        f"these configs ask for what is not there yet: {complaints}. "
        f"Remove them, or say with --insecure ({INSECURE}=true) that the broker may do without. "
        "Nothing was started."
    )
