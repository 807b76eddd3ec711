"""Tokens that nobody has signed (RFC 7519, section 6), as Kafka has them for developers.

Whoever connects may say who it is. A broker takes them only where OAUTHBEARER is enabled and nothing says
whose keys tokens are signed with, as Kafka does; it warns of it.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from odradek.sasl.jwt import MAX_TOKEN_CHARACTERS, claim_number, token_of
from odradek.sasl.oauthbearer import Token, TokenRefused


class UnsecuredValidator:
    """Reads unsecured tokens, by Kafka's `unsecuredValidator…` options.

    Args:
        options: of the login module.
        now_s: wall clock in seconds.
    """

    def __init__(self, options: Mapping[str, str], now_s: Callable[[], float] = time.time) -> None:
        self._sub_claim = options.get("unsecuredValidatorPrincipalClaimName", "sub")
        self._scope_claim = options.get("unsecuredValidatorScopeClaimName", "scope")
        self._required_scope = options.get("unsecuredValidatorRequiredScope", "").split()
        self._skew_s = int(options.get("unsecuredValidatorAllowableClockSkewMs", "0")) / 1000
        self._now_s = now_s

    def __call__(self, text: str) -> Token:
        """Read a token.

        Raises:
            TokenRefused: it is none, is signed, has expired or has not begun.
        """
        header, claims = _read(text)
        if header.get("alg") != "none" or not text.endswith("."):
            raise TokenRefused("the token is signed, and there are no keys to check it with")
        expires_s, issued_s, now_s = claim_number(claims, "exp"), claim_number(claims, "iat"), self._now_s()
        if expires_s is None:
            raise TokenRefused("the token has no exp")
        if now_s >= expires_s + self._skew_s:
            raise TokenRefused("the token has expired")
        if issued_s is not None and now_s < issued_s - self._skew_s:
            raise TokenRefused("the token is not valid yet")
        return token_of(claims, expires_s, self._sub_claim, self._scope_claim, self._required_scope)


def _read(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    parts = text.split(".")
    if len(parts) != 3 or len(text) > MAX_TOKEN_CHARACTERS:
        raise TokenRefused("not a JWT")
    parts_read = []
    for part in parts[:2]:
        try:
            content = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        except (ValueError, RecursionError):
            raise TokenRefused("not a JWT") from None
        if not isinstance(content, dict):
            raise TokenRefused("not a JWT")
        parts_read.append(content)
    return parts_read[0], parts_read[1]
