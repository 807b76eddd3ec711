"""Where a client's access tokens are from: a function, a file, or an identity provider.

All of them may wait; the login calls them where that is allowed. A token is used again until its time is
nearly over.
"""

from __future__ import annotations

import base64
import json
import math
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from odradek.sasl.http import HttpError, fetch_json, path_of
from odradek.sasl.mechanisms import OAUTHBEARER, ClientMechanism, LoginError, SaslError
from odradek.sasl.oauthbearer import OAuthBearerClient

TokenProvider = Callable[[], str]

_EXTENSION = "extension_"
_REFRESH_AT = 0.8
"""The share of a token's life after which another one is asked for, as Kafka's default has it."""


class OAuthBearerLogin:
    """Shows access tokens.

    Args:
        provider: gives one, each time it is called.
        extensions: further pairs for the broker (KIP-342).
    """

    mechanism = OAUTHBEARER

    def __init__(self, provider: TokenProvider, extensions: Mapping[str, str] | None = None) -> None:
        self._provider = provider
        self._extensions = dict(extensions or {})
        OAuthBearerClient(provider, self._extensions)  # what cannot be sent is found now

    def start(self, host: str) -> ClientMechanism:  # noqa: ARG002
        """See `Login.start`."""
        return OAuthBearerClient(self._token, self._extensions)

    def _token(self) -> str:
        try:
            token = self._provider()
        except SaslError:
            raise
        except Exception as error:
            raise SaslError(f"no access token: {type(error).__name__}: {error}") from error
        if not isinstance(token, str) or not token.strip():
            raise SaslError("no access token: the provider gave none")
        return token.strip()


class FileTokens:
    """A token from a file, read anew for each login: whoever renews it writes the file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __call__(self) -> str:
        """The token."""
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise SaslError(f"no access token: {self._path} cannot be read: {error}") from error


class ClientCredentials:
    """OAuth's client credentials (RFC 6749, section 4.4): a token for an id and a secret.

    Args:
        url: the token endpoint.
        client_id, client_secret: of this client.
        scope: what is asked for; None for what the provider gives.
        timeout_ms: for the provider's answer.
        now_s: wall clock in seconds.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        scope: str | None = None,
        *,
        timeout_ms: float = 10_000,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._secret = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._scope = scope
        self._timeout_ms = timeout_ms
        self._now_s = now_s
        self._token = ""
        self._good_until_s = 0.0
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        client_id, _, secret = base64.b64decode(self._secret).decode().partition(":")
        return _credentials, (self._url, client_id, secret, self._scope, self._timeout_ms)

    def __call__(self) -> str:
        """The token."""
        with self._lock:
            now_s = self._now_s()
            if now_s < self._good_until_s:
                return self._token
            form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
            try:
                answer = fetch_json(
                    self._url,
                    body=urllib.parse.urlencode(form).encode(),
                    headers={
                        "Authorization": f"Basic {self._secret}",
                        "Content-Type": "application/x-www-form-urlencoded",
                    },
                    timeout_ms=self._timeout_ms,
                )
            except HttpError as error:
                raise SaslError(f"no access token: {error}") from error
            token = answer.get("access_token") if isinstance(answer, dict) else None
            if not isinstance(token, str) or not token:
                raise SaslError(f"no access token: the answer of {self._url} has no access_token")
            life_s = answer.get("expires_in")
            if not isinstance(life_s, int | float) or isinstance(life_s, bool):
                life_s = _expires_at_s(token) - now_s
            self._token, self._good_until_s = token, now_s + _REFRESH_AT * max(0.0, life_s)
            return token


def _credentials(
    url: str, client_id: str, secret: str, scope: str | None, timeout_ms: float
) -> ClientCredentials:
    return ClientCredentials(url, client_id, secret, scope, timeout_ms=timeout_ms)


class UnsecuredTokens:
    """Tokens that nobody has signed, for tests, from Kafka's `unsecuredLogin…` options."""

    def __init__(self, options: Mapping[str, str], now_s: Callable[[], float] = time.time) -> None:
        self._options = dict(options)
        self._now_s = now_s

    def __reduce__(self) -> Any:
        return UnsecuredTokens, (self._options,)

    def __call__(self) -> str:
        """The token."""
        now_s = self._now_s()
        life_s = float(self._options.get("unsecuredLoginLifetimeSeconds", "3600"))
        # Brokers round up, and allow for no difference of clocks: a token is never from the future.
        claims: dict[str, Any] = {"iat": math.floor(now_s), "exp": now_s + life_s}
        for key, value in self._options.items():
            if key.startswith("unsecuredLoginStringClaim_"):
                claims[key.partition("_")[2]] = value
            elif key.startswith("unsecuredLoginNumberClaim_"):
                claims[key.partition("_")[2]] = float(value)
            elif key.startswith("unsecuredLoginListClaim_") and value:
                claims[key.partition("_")[2]] = value[1:].split(value[0])
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _expires_at_s(token: str) -> float:
    """When a JWT says that it ends; 0 where it does not say."""
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims.get("exp", 0))
    except (IndexError, ValueError, AttributeError, TypeError):
        return 0.0


def oauth_login_of(options: Mapping[str, str], configs: Mapping[str, Any]) -> OAuthBearerLogin:
    """The login that JAAS options and `sasl.oauthbearer.*` configs ask for.

    In this order: `sasl.oauth.token.provider`, a function or an object with a method `token`;
    `sasl.oauthbearer.token.endpoint.url`, a `file:` or an identity provider's address; Kafka's unsecured
    tokens, from the JAAS options.

    Raises:
        LoginError: something is missing.
    """
    extensions = {
        key.removeprefix(_EXTENSION): value for key, value in options.items() if key.startswith(_EXTENSION)
    }
    try:
        return OAuthBearerLogin(_provider_of(options, configs), extensions)
    except SaslError as error:
        raise LoginError(str(error)) from error


def _provider_of(options: Mapping[str, str], configs: Mapping[str, Any]) -> TokenProvider:
    provider = configs.get("sasl.oauth.token.provider")
    if provider is not None:
        found = provider if callable(provider) else getattr(provider, "token", None)
        if not callable(found):
            raise LoginError("sasl_oauth_token_provider is neither a function nor has it a method token")
        called: TokenProvider = found
        return called
    url = configs.get("sasl.oauthbearer.token.endpoint.url")
    if url:
        if url.startswith("file:"):
            return FileTokens(path_of(url))
        client_id = options.get("clientId") or configs.get("sasl.oauthbearer.client.credentials.client.id")
        secret = options.get("clientSecret") or configs.get(
            "sasl.oauthbearer.client.credentials.client.secret"
        )
        if not client_id or not secret:
            raise LoginError(
                "sasl.oauthbearer.token.endpoint.url needs a client id and secret: clientId and clientSecret "
                "in sasl.jaas.config, or sasl.oauthbearer.client.credentials.client.id and .secret"
            )
        scope = options.get("scope") or configs.get("sasl.oauthbearer.scope")
        timeout_ms = float(configs.get("sasl.login.read.timeout.ms") or 10_000)
        return ClientCredentials(url, client_id, secret, scope, timeout_ms=timeout_ms)
    if any(key.startswith("unsecuredLoginStringClaim_") for key in options):
        return UnsecuredTokens(options)
    raise LoginError(
        "sasl.mechanism=OAUTHBEARER needs tokens: sasl_oauth_token_provider, or "
        "sasl.oauthbearer.token.endpoint.url (https:… or file:…)"
    )
