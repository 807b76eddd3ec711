"""The configs of a listener about access tokens (`sasl.oauthbearer.*`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.cluster.configs.config_def import ConfigError
from odradek.sasl.http import path_of
from odradek.sasl.jwt import JwtValidator
from odradek.sasl.key_sources import FileKeys, KeySource, UrlKeys
from odradek.sasl.mechanisms import SaslError, ServerMechanism
from odradek.sasl.oauthbearer import OAuthBearerServer
from odradek.sasl.unsecured import UnsecuredValidator

if TYPE_CHECKING:
    from odradek.sasl.jaas import LoginModule

logger = logging.getLogger(__name__)

_VALIDATES = "OAuthBearerValidatorCallbackHandler"


def oauth_maker(
    listener: str, module: LoginModule, text_of: Callable[[str], str | None]
) -> Callable[[], ServerMechanism]:
    """Return what makes the broker's half of an OAUTHBEARER exchange.

    Args:
        listener: whose logins these are.
        module: the login module.
        text_of: a config at this listener and for this mechanism, by its name.

    Raises:
        ConfigError: the keys cannot be read, or are needed and not named.
    """
    url = text_of("sasl.oauthbearer.jwks.endpoint.url")
    if not url:
        if (text_of("sasl.server.callback.handler.class") or "").endswith(_VALIDATES):
            raise ConfigError(
                f"listener {listener}: OAUTHBEARER is to check tokens, and "
                "sasl.oauthbearer.jwks.endpoint.url does not say with which keys (https:… or file:…)"
            )
        logger.warning(
            "access tokens are not checked: whoever connects may say who it is listener=%s. Name the keys in "
            "sasl.oauthbearer.jwks.endpoint.url",
            listener,
        )
        unsecured = UnsecuredValidator(module.options)
        return lambda: OAuthBearerServer(unsecured, blocks=False)
    try:
        validator = JwtValidator(
            _keys(url, text_of),
            issuer=text_of("sasl.oauthbearer.expected.issuer") or None,
            audiences=_listed(text_of("sasl.oauthbearer.expected.audience")),
            clock_skew_s=float(text_of("sasl.oauthbearer.clock.skew.seconds") or 30),
            sub_claim=text_of("sasl.oauthbearer.sub.claim.name") or "sub",
            scope_claim=text_of("sasl.oauthbearer.scope.claim.name") or "scope",
        )
    except SaslError as error:
        raise ConfigError(f"listener {listener}: {error}") from error
    return lambda: OAuthBearerServer(validator)


def _keys(url: str, text_of: Callable[[str], str | None]) -> KeySource:
    if url.startswith("file:"):
        return FileKeys(path_of(url))
    if not url.startswith(("https://", "http://")):
        raise SaslError(f"sasl.oauthbearer.jwks.endpoint.url={url} is neither https:… nor file:…")
    return UrlKeys(
        url,
        refresh_ms=float(text_of("sasl.oauthbearer.jwks.endpoint.refresh.ms") or 3_600_000),
        retry_ms=float(text_of("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") or 100),
        retry_max_ms=float(text_of("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") or 10_000),
        timeout_ms=float(text_of("sasl.login.read.timeout.ms") or 10_000),
    )


def _listed(text: str | None) -> list[str]:
    return [entry.strip() for entry in (text or "").split(",") if entry.strip()]
