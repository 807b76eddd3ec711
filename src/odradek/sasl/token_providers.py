"""The sources of a client's access tokens: a function, a file, or an identity provider.

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

from odradek.sasl.assertions import PREFIX, Assertion, assertion_of
from odradek.sasl.http import HttpError, fetch_json, path_of
from odradek.sasl.mechanisms import OAUTHBEARER, ClientMechanism, LoginError, SaslError
from odradek.sasl.oauthbearer import OAuthBearerClient

TokenProvider = Callable[[], str]

_EXTENSION = "extension_"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_RETRIEVERS = (
    "DefaultJwtRetriever",
    "ClientCredentialsJwtRetriever",
    "JwtBearerJwtRetriever",
    "FileJwtRetriever",
)
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
        return OAuthBearerClient(self.token, self._extensions)

    def token(self) -> str:
        """The provider's token, without white space around it.

        Raises:
            SaslError: the provider failed, or gave none.
        """
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


class AskedTokens:
    """Tokens that an identity provider is asked for; one is used again until its time is nearly over.

    Args:
        url: the token endpoint.
        scope: what is asked for; None for what the provider gives.
        timeout_ms: for the provider's answer.
        now_s: wall clock in seconds.
    """

    def __init__(
        self,
        url: str,
        scope: str | None = None,
        *,
        timeout_ms: float = 10_000,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._scope = scope
        self._timeout_ms = timeout_ms
        self._now_s = now_s
        self._token = ""
        self._good_until_s = 0.0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_now_s")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._now_s = time.time

    def _form(self) -> dict[str, str]:
        """Return the form that is posted, without the scope."""
        raise NotImplementedError

    def _headers(self) -> dict[str, str]:
        """Return the headers that say who asks, where one does."""
        return {}

    def __call__(self) -> str:
        """The token."""
        with self._lock:
            now_s = self._now_s()
            if now_s < self._good_until_s:
                return self._token
            form = self._form() | ({"scope": self._scope} if self._scope else {})
            try:
                answer = fetch_json(
                    self._url,
                    body=urllib.parse.urlencode(form).encode(),
                    headers={**self._headers(), "Content-Type": "application/x-www-form-urlencoded"},
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


class ClientCredentials(AskedTokens):
    """OAuth's client credentials (RFC 6749, section 4.4): a token for an id and a secret.

    Args:
        client_id, client_secret: of this client.
        is_quoted: whether these are percent-encoded first (`sasl.oauthbearer.header.urlencode`).
        url, scope, more: see `AskedTokens`.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        scope: str | None = None,
        *,
        is_quoted: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(url, scope, **more)
        quoted = urllib.parse.quote_plus if is_quoted else str
        self._secret = base64.b64encode(f"{quoted(client_id)}:{quoted(client_secret)}".encode()).decode()

    def _form(self) -> dict[str, str]:
        return {"grant_type": "client_credentials"}

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Basic {self._secret}"}


class ClientAssertion(AskedTokens):
    """The same with an assertion in place of the secret (RFC 7523, section 2.2; KIP-1258).

    Args:
        assertion: makes one.
        client_id: of this client; None where the assertion says it.
        url, scope, more: see `AskedTokens`.
    """

    def __init__(
        self,
        url: str,
        assertion: Assertion,
        scope: str | None = None,
        *,
        client_id: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(url, scope, **more)
        self._assertion, self._client_id = assertion, client_id

    def _form(self) -> dict[str, str]:
        form = {
            "grant_type": "client_credentials",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": self._assertion(),
        }
        return form | ({"client_id": self._client_id} if self._client_id else {})


class JwtBearer(AskedTokens):
    """A token for an assertion (RFC 7523, section 2.1; KIP-1139).

    Args:
        assertion: makes one.
        url, scope, more: see `AskedTokens`.
    """

    def __init__(self, url: str, assertion: Assertion, scope: str | None = None, **more: Any) -> None:
        super().__init__(url, scope, **more)
        self._assertion = assertion

    def _form(self) -> dict[str, str]:
        return {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": self._assertion(),
        }


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
    """Return when a JWT says that it ends; 0 where it does not say."""
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
        method = provider if callable(provider) else getattr(provider, "token", None)
        if not callable(method):
            raise LoginError("sasl_oauth_token_provider is neither a function nor has it a method token")
        called: TokenProvider = method
        return called
    url = configs.get("sasl.oauthbearer.token.endpoint.url")
    if url:
        return _by_retriever(url, options, configs)
    if any(key.startswith("unsecuredLoginStringClaim_") for key in options):
        return UnsecuredTokens(options)
    raise LoginError(
        "sasl.mechanism=OAUTHBEARER needs tokens: sasl_oauth_token_provider, or "
        "sasl.oauthbearer.token.endpoint.url (https:… or file:…)"
    )


def _by_retriever(url: str, options: Mapping[str, str], configs: Mapping[str, Any]) -> TokenProvider:
    """Return what `sasl.oauthbearer.jwt.retriever.class` names; else what the other configs are for."""
    name = str(configs.get(_RETRIEVER) or "DefaultJwtRetriever").rpartition(".")[2]
    if name not in _RETRIEVERS:
        raise LoginError(
            f"{_RETRIEVER}: {name} is not one of {', '.join(_RETRIEVERS)}; give sasl_oauth_token_provider, a "
            "function"
        )
    if name == "FileJwtRetriever" or (name == "DefaultJwtRetriever" and url.startswith("file:")):
        return FileTokens(path_of(url))
    more = {"timeout_ms": float(configs.get("sasl.login.read.timeout.ms") or 10_000)}
    scope = options.get("scope") or configs.get("sasl.oauthbearer.scope")
    if name == "JwtBearerJwtRetriever":
        return JwtBearer(url, assertion_of(configs), scope, **more)
    client_id = options.get("clientId") or configs.get("sasl.oauthbearer.client.credentials.client.id")
    if any(configs.get(PREFIX + name) for name in ("file", "claim.iss")):
        return ClientAssertion(url, assertion_of(configs), scope, client_id=client_id, **more)
    secret = options.get("clientSecret") or configs.get("sasl.oauthbearer.client.credentials.client.secret")
    if not client_id or not secret:
        raise LoginError(
            "sasl.oauthbearer.token.endpoint.url needs a client id and secret: clientId and clientSecret "
            "in sasl.jaas.config, or sasl.oauthbearer.client.credentials.client.id and .secret; or an "
            f"assertion: {PREFIX}file, or {PREFIX}claim.iss with {PREFIX}private.key.file"
        )
    is_quoted = str(configs.get("sasl.oauthbearer.header.urlencode") or "").strip().lower() == "true"
    return ClientCredentials(url, client_id, secret, scope, is_quoted=is_quoted, **more)
