"""Assertions: what a client shows an identity provider in place of a secret, signed by a key of its own.

Made of Kafka's `sasl.oauthbearer.assertion.*` configs (RFC 7523, KIP-1139, KIP-1258). Claims come from three
places, each over the one before: `claim.aud`, `.iss` and `.sub`; `template.file`; what is of the moment.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from odradek.sasl.mechanisms import LoginError, SaslError
from odradek.sasl.pyjwt import import_pyjwt

Assertion = Callable[[], str]

PREFIX = "sasl.oauthbearer.assertion."
_ALGORITHMS = ("RS256", "ES256")
_EXP_S, _NBF_S = 300, 60


class FileAssertion:
    """An assertion that somebody else makes, read anew each time."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __call__(self) -> str:
        """The assertion.

        Raises:
            SaslError: it cannot be read.
        """
        return _read(self._path, PREFIX + "file").decode("utf-8", "replace").strip()


class SignedAssertion:
    """Assertions signed here. The key is read anew each time: whoever renews it writes the file.

    Args:
        key_file: of a private key, PEM (PKCS#8).
        passphrase: of the key; None where it has none.
        algorithm: `RS256` or `ES256`.
        header, claims: given ones.
        exp_s, nbf_s: for how long after, and from how long before, an assertion holds.
        has_jti: whether each has an id.
        now_s: wall clock in seconds.
    """

    def __init__(
        self,
        key_file: str,
        *,
        passphrase: str | None = None,
        algorithm: str = "RS256",
        header: Mapping[str, Any] | None = None,
        claims: Mapping[str, Any] | None = None,
        exp_s: int = _EXP_S,
        nbf_s: int = _NBF_S,
        has_jti: bool = False,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._key_file = Path(key_file)
        self._passphrase = passphrase
        self._algorithm = algorithm
        self._header = dict(header or {})
        self._claims = dict(claims or {})
        self._exp_s, self._nbf_s, self._has_jti = exp_s, nbf_s, has_jti
        self._now_s = now_s

    def __call__(self) -> str:
        """An assertion.

        Raises:
            SaslError: it cannot be signed; the message has nothing of the key.
        """
        now_s = int(self._now_s())
        claims = {**self._claims, "iat": now_s, "exp": now_s + self._exp_s, "nbf": now_s - self._nbf_s}
        if self._has_jti:
            claims["jti"] = str(uuid.uuid4())
        jwt = import_pyjwt()
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        pem = _read(self._key_file, PREFIX + "private.key.file")
        password = None if self._passphrase is None else self._passphrase.encode()
        try:
            key = load_pem_private_key(pem, password)
            assertion: str = jwt.encode(claims, key, algorithm=self._algorithm, headers=self._header)
        except (ValueError, TypeError, jwt.PyJWTError) as error:
            raise SaslError(
                f"no access token: {self._key_file} cannot sign by {self._algorithm}: is it a private key of "
                f"that kind, and {PREFIX}private.key.passphrase right?"
            ) from error
        return assertion


def assertion_of(configs: Mapping[str, Any]) -> Assertion:
    """The assertions that configs ask for.

    Raises:
        LoginError: there is neither an assertion nor a key, or a config cannot be used.
    """

    def of(name: str) -> str | None:
        value = configs.get(PREFIX + name)
        return None if value is None or not str(value).strip() else str(value).strip()

    def seconds(name: str, default: int, most: int) -> int:
        text = of(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or int(text[:10]) > most:
            raise LoginError(f"{PREFIX}{name} is no number of seconds from 0 to {most}: {text}")
        return int(text)

    if (file := of("file")) is not None:
        return FileAssertion(file)
    key_file = of("private.key.file")
    if key_file is None:
        raise LoginError(f"assertions need {PREFIX}private.key.file, or {PREFIX}file")
    algorithm = (of("algorithm") or "RS256").upper()
    if algorithm not in _ALGORITHMS:
        raise LoginError(f"{PREFIX}algorithm={algorithm} is not one of {', '.join(_ALGORITHMS)}")
    header, claims = _template(of("template.file"))
    given = {claim: text for claim in ("aud", "iss", "sub") if (text := of(f"claim.{claim}")) is not None}
    return SignedAssertion(
        key_file,
        passphrase=of("private.key.passphrase"),
        algorithm=algorithm,
        header=header,
        claims=given | claims,
        exp_s=seconds("claim.exp.seconds", _EXP_S, 86_400),
        nbf_s=seconds("claim.nbf.seconds", _NBF_S, 3_600),
        has_jti=(of("claim.jti.include") or "false").lower() == "true",
    )


def _template(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a template's file."""
    if path is None:
        return {}, {}
    config = PREFIX + "template.file"
    try:
        template = json.loads(_read(Path(path), config))
    except SaslError as error:
        raise LoginError(str(error)) from error
    except ValueError as error:
        raise LoginError(f"{config}: {path} is no JSON") from error
    parts = [template.get(name, {}) if isinstance(template, dict) else None for name in ("header", "payload")]
    if not all(isinstance(part, dict) for part in parts):
        raise LoginError(f'{config}: {path} is not {{"header": {{…}}, "payload": {{…}}}}')
    header, claims = parts
    return dict(header or {}), dict(claims or {})


def _read(path: Path, config: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SaslError(f"{config}: {path} cannot be read: {error.strerror or error}") from error
