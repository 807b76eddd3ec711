"""SCRAM credentials (RFC 5802) as they are kept: configs of `users/<name>`, one per mechanism.

`salt=…,stored_key=…,server_key=…,iterations=…`, the first three in base64. No password can be read from them.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from enum import IntEnum

MAX_ITERATIONS = 16384
MIN_ITERATIONS = 4096


class Mechanism(IntEnum):
    """The mechanisms; the numbers go over the wire."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def config(self) -> str:
        """The name, which is the config's as well: `SCRAM-SHA-256`, `SCRAM-SHA-512`."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def _hash(self) -> str:
        return self.name.replace("_", "").lower()

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> str:
        """The text that is kept.

        Args:
            salt: as the password was salted with.
            salted_password: what came of it; it is not kept.
            iterations: how often it was hashed for that.
        """
        client_key = hmac.digest(salted_password, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        server_key = hmac.digest(salted_password, b"Server Key", self._hash)
        fields = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
        encoded = [f"{name}={b64encode(value).decode()}" for name, value in fields.items()]
        return ",".join([*encoded, f"iterations={iterations}"])


def mechanism_of(number: int) -> Mechanism | None:
    """The mechanism of a number, None for one that is not known."""
    return Mechanism(number) if number in list(Mechanism) else None


def iterations_of(credential: str) -> int:
    """How many iterations a kept credential has.

    Raises:
        ValueError: it is none.
    """
    fields: dict[str, str] = {}
    for token in credential.split(","):
        name, separator, value = token.partition("=")
        if not (name and separator):
            raise ValueError("not a SCRAM credential")
        fields[name] = value
    if fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
        raise ValueError("not a SCRAM credential")
    return int(fields["iterations"])
