"""A client's security towards brokers: `security.protocol`, with what `ssl.*` and `sasl.*` say of it.

    protocol         TLS   SASL
    PLAINTEXT        no    no
    SSL              yes   no
    SASL_PLAINTEXT   no    yes
    SASL_SSL         yes   yes

TLS lies below the connection, which sees the bytes inside. SASL is a state above the frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odradek.client.errors import ConfigError
from odradek.sasl.mechanisms import LoginError
from odradek.security.ssl_configs import SSL_CONFIGS, TlsConfigError

if TYPE_CHECKING:
    import ssl

    from odradek.sasl.logins import Login

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ALIASES = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.plain.username",
    "sasl.password": "sasl.plain.password",
}
"""Other clients' names."""

_ASSERTION = (
    "algorithm",
    "claim.aud",
    "claim.exp.seconds",
    "claim.iss",
    "claim.jti.include",
    "claim.nbf.seconds",
    "claim.sub",
    "file",
    "private.key.file",
    "private.key.passphrase",
    "template.file",
)

SASL_CONFIGS = frozenset(
    {
        *_ALIASES,
        "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.mechanism",
        "sasl.oauth.token.provider",
        *(f"sasl.oauthbearer.assertion.{name}" for name in _ASSERTION),
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.plain.password",
        "sasl.plain.username",
    }
)
"""The client's `sasl.*` configs that have a meaning."""

_TAKES = {
    "sasl.login.connect.timeout.ms": "int",
    "sasl.login.read.timeout.ms": "int",
    "sasl.oauth.token.provider": "TokenProvider | HasToken",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "int",
    "sasl.oauthbearer.assertion.claim.jti.include": "bool",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "int",
    "sasl.oauthbearer.header.urlencode": "bool",
    "ssl.cipher.suites": "str | Sequence[str]",
    "ssl.enabled.protocols": "str | Sequence[str]",
}
"""The types of those that are no text."""


def takes() -> dict[str, str]:
    """Return the names of all `ssl.*` and `sasl.*` configs that have a meaning, and the type that each takes
    as a keyword, in Python's spelling.
    """
    return {name: _TAKES.get(name, "str") for name in sorted(SSL_CONFIGS | SASL_CONFIGS)}


_OF_JAVA = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.jwt.validator.class",
    }
)
"""Those that are taken and change nothing: what they say to Java's clients goes without saying here."""


@dataclass(frozen=True)
class SecurityConfig:
    """The settings that a client needs to open a connection.

    Attributes:
        protocol: `security.protocol`, one of `PROTOCOLS`.
        configs: the `ssl.*` and `sasl.*` configs that were given, under Kafka's names.
    """

    protocol: str = "PLAINTEXT"
    configs: Mapping[str, Any] = field(default_factory=dict)
    _made: list[ssl.SSLContext] = field(default_factory=list, compare=False)
    _logins: list[Login] = field(default_factory=list, compare=False)

    @property
    def uses_tls(self) -> bool:
        """True if bytes are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """True if the client logs in after connecting."""
        return self.protocol.startswith("SASL")

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context of the client's connections, made once; None without TLS.

        Raises:
            ConfigError: a config of TLS cannot be used.
        """
        if not self.uses_tls:
            return None
        if not self._made:
            from odradek.security.ssl_contexts import client_context

            try:
                self._made.append(client_context(self.configs))
            except TlsConfigError as error:
                raise ConfigError(str(error)) from error
        return self._made[0]

    def login(self) -> Login | None:
        """Return the login of the connections, made once; None without SASL.

        Raises:
            ConfigError: a config of the login is missing, or cannot be used.
        """
        if not self.uses_sasl:
            return None
        if not self._logins:
            from odradek.sasl.logins import login_of

            configs = {_ALIASES.get(name, name): value for name, value in self.configs.items()}
            mechanism = configs.get("sasl.mechanism")
            if not mechanism:
                raise ConfigError(f"security.protocol={self.protocol} needs a sasl.mechanism")
            try:
                login = login_of(
                    str(mechanism),
                    jaas=configs.get("sasl.jaas.config"),
                    username=configs.get("sasl.plain.username"),
                    password=configs.get("sasl.plain.password"),
                    configs=configs,
                )
            except LoginError as error:
                raise ConfigError(str(error)) from error
            self._logins.append(login)
        return self._logins[0]

    def __repr__(self) -> str:
        # Values may be passwords.
        return f"SecurityConfig({self.protocol}, {', '.join(sorted(self.configs))})"

    def __reduce__(self) -> Any:
        # A context does not travel to other processes; what it is made of does.
        return SecurityConfig, (self.protocol, dict(self.configs))


def security_config(protocol: str, configs: Mapping[str, Any]) -> SecurityConfig:
    """Check the configs, and read what they name.

    Args:
        protocol: `security.protocol`, in any case.
        configs: `ssl.*` and `sasl.*`.

    Raises:
        ConfigError: the protocol is none of Kafka's, or its configs cannot be used.
    """
    security = SecurityConfig(protocol.strip().upper(), configs)
    if security.protocol not in PROTOCOLS:
        raise ConfigError(f"security.protocol={protocol}: must be one of {', '.join(PROTOCOLS)}")
    security.ssl_context()
    security.login()
    return security


def is_security_config(name: str) -> bool:
    """Return whether a config, under Kafka's name, is one that `SecurityConfig.configs` takes."""
    return name in SSL_CONFIGS or name in SASL_CONFIGS or name in _OF_JAVA
