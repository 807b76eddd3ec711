"""Logins: what a client keeps for all of its connections, and how its configs say it.

A `Login` makes the mechanism for one connection. `login_of` reads Kafka's configs; where a client also knows
friendlier names for user and password, it hands them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from odradek.sasl.jaas import JaasError, LoginModule, parse_jaas
from odradek.sasl.mechanisms import (
    GSSAPI,
    MODULE_OF,
    OAUTHBEARER,
    PLAIN,
    ClientMechanism,
    LoginError,
    SaslError,
)
from odradek.sasl.plain import PlainClient
from odradek.sasl.scram import SaltedPasswords, ScramClient


class Login(Protocol):
    """Makes the client's half of an exchange.

    Attributes:
        mechanism: its name.
    """

    @property
    def mechanism(self) -> str:
        """See the class."""
        ...

    def start(self, host: str) -> ClientMechanism:
        """A new exchange with the broker at `host`."""
        ...


class PlainLogin:
    """A name and a password, sent as they are."""

    mechanism = PLAIN

    def __init__(self, username: str, password: str) -> None:
        self._username, self._password = username, password

    def start(self, host: str) -> ClientMechanism:  # noqa: ARG002
        """See `Login.start`."""
        return PlainClient(self._username, self._password)


class ScramLogin:
    """A name and a password, or a delegation token, that are proved.

    Args:
        mechanism: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        username, password: of a delegation token its id and its HMAC in base64.
        is_token: whether they are one's.
    """

    def __init__(self, mechanism: str, username: str, password: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism
        self._username, self._password, self._is_token = username, password, is_token
        self._salted = SaltedPasswords()

    def start(self, host: str) -> ClientMechanism:  # noqa: ARG002
        """See `Login.start`."""
        return ScramClient(
            self.mechanism, self._username, self._password, self._salted, is_token=self._is_token
        )


def _kerberos_login(options: Mapping[str, str], configs: Mapping[str, str]) -> Login:
    from odradek.sasl.gssapi import GssapiLogin

    service = configs.get("sasl.kerberos.service.name") or options.get("serviceName")
    if not service:
        raise LoginError(
            "sasl.mechanism=GSSAPI needs sasl.kerberos.service.name, the first part of the brokers' principal"
        )
    keytab = options.get("keyTab") if options.get("useKeyTab", "").lower() == "true" else None
    if keytab is not None and not options.get("principal"):
        raise LoginError("the login module has a keyTab, and no principal")
    try:
        return GssapiLogin(service, options.get("principal"), keytab)
    except SaslError as error:
        raise LoginError(str(error)) from error


def _module_for(mechanism: str, jaas: str) -> LoginModule:
    module_name = MODULE_OF[mechanism]
    try:
        modules = parse_jaas(jaas)
    except JaasError as error:
        raise LoginError(f"sasl.jaas.config: {error}") from error
    for module in modules:
        if module.short_name == module_name:
            return module
    short_names = ", ".join(module.short_name for module in modules)
    raise LoginError(f"sasl.jaas.config has {short_names}, where {mechanism} wants {module_name}")


def login_of(
    mechanism: str,
    *,
    jaas: str | None = None,
    username: str | None = None,
    password: str | None = None,
    module: LoginModule | None = None,
    configs: Mapping[str, str] | None = None,
) -> Login:
    """The login that configs ask for.

    Args:
        mechanism: `sasl.mechanism`.
        jaas: `sasl.jaas.config`; `module`: the same, read already.
        username, password: in place of it.
        configs: further `sasl.*` configs by Kafka's names.

    Raises:
        LoginError: something is missing, or not known.
    """
    mechanism = mechanism.upper()
    if mechanism not in MODULE_OF:
        raise LoginError(f"sasl.mechanism={mechanism} is not known here; {', '.join(MODULE_OF)} are")
    if module is None and jaas:
        module = _module_for(mechanism, jaas)
    options = {} if module is None else module.options
    if mechanism == OAUTHBEARER:
        from odradek.sasl.token_providers import oauth_login_of

        return oauth_login_of(options, configs or {})
    if mechanism == GSSAPI:
        return _kerberos_login(options, configs or {})
    username = options.get("username") if username is None else username
    password = options.get("password") if password is None else password
    if not username or not password:
        raise LoginError(
            f"sasl.mechanism={mechanism} needs a username and a password: in sasl.jaas.config "
            f'("…{MODULE_OF[mechanism]} required username=\\"…\\" password=\\"…\\";"), or as '
            "sasl_plain_username and sasl_plain_password"
        )
    if mechanism == PLAIN:
        return PlainLogin(username, password)
    return ScramLogin(
        mechanism, username, password, is_token=options.get("tokenauth", "").strip().lower() == "true"
    )
