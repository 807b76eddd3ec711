"""Access tokens, and the keys of whoever makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

NOW_S = 1_700_000_000
ISSUER = "https://id.example.com"


class Provider:
    """An identity provider with one key."""

    def __init__(self, key_id: str = "one", algorithm: str = "RS256") -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.key: Any = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if algorithm.startswith(("RS", "PS"))
            else ec.generate_private_key(ec.SECP256R1())
        )

    @property
    def jwk(self) -> dict[str, Any]:
        """Its public key."""
        made = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.key.public_key(), as_dict=True)
        return {**made, "kid": self.key_id, "use": "sig"}

    def token(self, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good at `NOW_S`; claims that are None are left out."""
        content = {
            "sub": "alice",
            "iss": ISSUER,
            "aud": "kafka",
            "scope": "read write",
            "iat": NOW_S - 10,
            "exp": NOW_S + 600,
            **claims,
        }
        content = {name: value for name, value in content.items() if value is not None}
        return jwt.encode(content, self.key, self.algorithm, {"kid": self.key_id, **(headers or {})})


def jwks(*providers: Provider) -> dict[str, Any]:
    """The key set of providers."""
    return {"keys": [one.jwk for one in providers]}


def write_jwks(path: Path, *providers: Provider) -> str:
    """Write a key set to a file; returns its address."""
    path.write_text(json.dumps(jwks(*providers)), encoding="utf-8")
    return path.as_uri()
