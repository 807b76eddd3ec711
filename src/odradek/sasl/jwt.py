"""Checks access tokens that are JWTs (RFC 7519), as Kafka's `BrokerJwtValidator` does, through PyJWT.

A token is good when one of the provider's keys has signed it, with a public key's algorithm; when it has not
expired, has begun, says when it was made, for whom and with which scope; and when issuer and audience are
those that are expected, where something is expected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.sasl.oauthbearer import Token, TokenRefused
from odradek.sasl.pyjwt import import_pyjwt

if TYPE_CHECKING:
    from odradek.sasl.key_sources import KeySource

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Those of public keys. `none`, and those of a shared secret, for which a public key could be passed off, are
not among them."""

MAX_TOKEN_CHARACTERS = 64 * 1024


class JwtValidator:
    """Checks signed tokens.

    Args:
        keys: of the provider.
        issuer: `iss`, None for any.
        audiences: one of which `aud` must have; empty for any.
        clock_skew_s: by how much clocks may differ.
        sub_claim, scope_claim: the claims with the user's name and with the scope.
        required_scope: what the scope must have.
        now_s: wall clock in seconds.

    Raises:
        SaslError: PyJWT is missing.
    """

    def __init__(
        self,
        keys: KeySource,
        *,
        issuer: str | None = None,
        audiences: Sequence[str] = (),
        clock_skew_s: float = 30,
        sub_claim: str = "sub",
        scope_claim: str = "scope",
        required_scope: Sequence[str] = (),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._jwt = import_pyjwt()
        self._keys = keys
        self._issuer = issuer
        self._audiences = tuple(audiences)
        self._clock_skew_s = clock_skew_s
        self._sub_claim = sub_claim
        self._scope_claim = scope_claim
        self._required_scope = tuple(required_scope)
        self._now_s = now_s

    def __call__(self, text: str) -> Token:
        """Check a token. May wait for keys.

        Raises:
            TokenRefused: it is not good; the message says why, without the token.
        """
        jwt = self._jwt
        if len(text) > MAX_TOKEN_CHARACTERS:
            raise TokenRefused(f"a token of more than {MAX_TOKEN_CHARACTERS} characters")
        try:
            header = jwt.get_unverified_header(text)
        except jwt.PyJWTError as error:
            raise TokenRefused(f"not a signed JWT: {type(error).__name__}") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused("the token's algorithm is not one of a public key")
        failure = "no key of the provider is the token's"
        for key in self._keys.find(key_id if isinstance(key_id, str) else None):
            if key.key_type not in _KEY_TYPES[algorithm[:2]]:
                continue
            try:
                # Times are looked at below, by the clock that was handed in.
                claims = jwt.decode(text, key.key, algorithms=[algorithm], options=_ONLY_SIGNATURE)
            except jwt.PyJWTError as error:
                failure = f"the signature does not fit: {type(error).__name__}"
                continue
            except Exception as error:
                failure = f"the token cannot be read: {type(error).__name__}"
                continue
            return self._checked(claims)
        raise TokenRefused(failure)

    def _checked(self, claims: Mapping[str, Any]) -> Token:
        now_s, skew_s = self._now_s(), self._clock_skew_s
        expires_s = claim_number(claims, "exp")
        if expires_s is None:
            raise TokenRefused("the token has no exp")
        if now_s >= expires_s + skew_s:
            raise TokenRefused("the token has expired")
        issued_s = claim_number(claims, "iat")
        if issued_s is None:
            raise TokenRefused("the token has no iat")
        begins_s = claim_number(claims, "nbf")
        if now_s < max(issued_s, issued_s if begins_s is None else begins_s) - skew_s:
            raise TokenRefused("the token is not valid yet")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise TokenRefused("the token is of another issuer")
        if self._audiences:
            given = claims.get("aud")
            of_token = [given] if isinstance(given, str) else given if isinstance(given, list) else []
            if not any(audience in self._audiences for audience in of_token):
                raise TokenRefused("the token is for another audience")
        return token_of(claims, expires_s, self._sub_claim, self._scope_claim, self._required_scope)


_ONLY_SIGNATURE = {
    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss"), False),
    **dict.fromkeys(("verify_sub", "verify_jti"), False),
    "verify_signature": True,
}
_KEY_TYPES = {"RS": ("RSA",), "PS": ("RSA",), "ES": ("EC",), "Ed": ("OKP",)}


def claim_number(claims: Mapping[str, Any], name: str) -> float | None:
    """A claim that is a time in seconds; None where there is none.

    Raises:
        TokenRefused: it is something else.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise TokenRefused(f"the token's {name} is no time")
    return float(value)


def token_of(
    claims: Mapping[str, Any],
    expires_s: float,
    sub_claim: str,
    scope_claim: str,
    required_scope: Sequence[str],
) -> Token:
    """Return what a token says, once it is known to be good.

    Raises:
        TokenRefused: it names nobody, or has not the scope.
    """
    user = claims.get(sub_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenRefused(f"the token's {sub_claim} names nobody")
    given = claims.get(scope_claim)
    if isinstance(given, str):
        scope = tuple(given.split())
    else:
        scope = tuple(word for word in given if isinstance(word, str)) if isinstance(given, list) else ()
    missing = [scope_word for scope_word in required_scope if scope_word not in scope]
    if missing:
        raise TokenRefused(
            f"the token's scope lacks {' '.join(missing)}", "insufficient_scope", " ".join(required_scope)
        )
    return Token(user, int(expires_s * 1000), scope)
