"""SCRAM credentials as brokers keep them (RFC 5802, section 3): enough to check a password, not to know it.

As text they are Kafka's: `salt=…,stored_key=…,server_key=…,iterations=…`, the first three in base64.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import NamedTuple

from odradek.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512

HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""Mechanism → the name of its hash."""

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Kafka's bounds for credentials that are made (KIP-554)."""

_FIELDS = {"salt", "stored_key", "server_key", "iterations"}


class ScramCredential(NamedTuple):
    """The part of a password that a broker keeps."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_salted(cls, hash_name: str, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
        """The credential of a password that has been salted and hashed."""
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        return cls(salt, stored_key, hmac.digest(salted, b"Server Key", hash_name), iterations)

    @classmethod
    def of_password(
        cls, mechanism: str, password: str, iterations: int = MIN_ITERATIONS, salt: bytes | None = None
    ) -> ScramCredential:
        """The credential of a password. Takes milliseconds, as it is meant to.

        Args:
            mechanism: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
            password: in clear.
            iterations: how often it is hashed.
            salt: random if None.
        """
        hash_name = HASHES[mechanism]
        salt = secrets.token_bytes(24) if salt is None else salt
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        return cls.of_salted(hash_name, salt, salted, iterations)

    @classmethod
    def from_text(cls, text: str) -> ScramCredential:
        """Read Kafka's form.

        Raises:
            ValueError: it is something else.
        """
        fields: dict[str, str] = {}
        for token in text.split(","):
            name, separator, value = token.partition("=")
            if not (name and separator):
                raise ValueError("not a SCRAM credential")
            fields[name] = value
        if fields.keys() != _FIELDS:
            raise ValueError("not a SCRAM credential")
        try:
            salt, stored_key, server_key = (
                b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
            return cls(salt, stored_key, server_key, int(fields["iterations"]))
        except ValueError:
            raise ValueError("not a SCRAM credential") from None

    def to_text(self) -> str:
        """Kafka's form."""
        salt, stored, server = (b64encode(part).decode() for part in self[:3])
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    def __repr__(self) -> str:
        """Say nothing of the keys: they let a broker be impersonated."""
        return f"ScramCredential(iterations={self.iterations})"
