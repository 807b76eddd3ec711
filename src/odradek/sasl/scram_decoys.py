"""Decoys: the salt and the iterations that a SCRAM server tells of a name that it does not know.

Who asks for a name twice, at two brokers, or before and after a restart, must see what a user's salt would
be: the same. So a decoy is made of the name and a key that all brokers of a cluster keep for this alone. And
it must look like those of the users that there are: their iterations, and how long their salts are, come by
how many users have them, whatever tool has made them.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.sasl.scram_credentials import MIN_ITERATIONS, ScramCredential

_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Kafka's tools make salts that are numbers in this base, as text."""


class Decoy(NamedTuple):
    """The first answer about a name that is not known."""

    salt: bytes
    iterations: int


class Shape(NamedTuple):
    """The look of credentials of one kind, to whoever asks for them."""

    iterations: int = MIN_ITERATIONS
    salt_bytes: int = 24
    is_text: bool = False

    @classmethod
    def of(cls, credential: ScramCredential) -> Shape:
        """The shape of a user's credential."""
        return cls(
            credential.iterations, len(credential.salt), all(byte in _DIGITS for byte in credential.salt)
        )


MakeDecoy = Callable[[str, bool], Decoy]
"""Name, and whether it is a delegation token's → its decoy."""


def count_shapes(credentials: Iterable[ScramCredential]) -> dict[Shape, int]:
    """Return how many there are of each shape; those that nobody can log in by do not count."""
    shapes: dict[Shape, int] = {}
    for credential in credentials:
        if credential.iterations >= MIN_ITERATIONS:
            shape = Shape.of(credential)
            shapes[shape] = shapes.get(shape, 0) + 1
    return shapes


def decoy(key: bytes, mechanism: str, name: str, shapes: Mapping[Shape, int]) -> Decoy:
    """Return the decoy of a name.

    Args:
        key: secret, and the same on all brokers.
        mechanism: what the name wants to log in by.
        name: of a user or a delegation token.
        shapes: how many credentials there are of each; none: as our own tools make them. When these
            change, the decoys of few names do (rendezvous hashing with weights).
    """
    shape = max(
        shapes,
        key=lambda candidate: _draw(key, mechanism, name, candidate, shapes[candidate]),
        default=Shape(),
    )
    salt = _stream(key, f"salt {mechanism} {name}".encode(), shape.salt_bytes)
    if shape.is_text:
        salt = bytes(_DIGITS[byte % len(_DIGITS)] for byte in salt)
    return Decoy(salt, shape.iterations)


def _draw(key: bytes, mechanism: str, name: str, shape: Shape, count: int) -> float:
    seed = f"shape {shape.iterations} {shape.salt_bytes} {shape.is_text} {mechanism} {name}"
    number = int.from_bytes(hmac.digest(key, seed.encode(), "sha256")[:7], "big")
    return count / -math.log((number + 1) / (2**56 + 1))


def _stream(key: bytes, seed: bytes, size: int) -> bytes:
    stream = b""
    while len(stream) < size:
        stream += hmac.digest(key, len(stream).to_bytes(4, "big") + seed, "sha256")
    return stream[:size]


def decoys_of_process(mechanism: str) -> MakeDecoy:
    """Return decoys for a server that is alone for as long as its process lives."""
    return lambda name, _is_token: decoy(_process_key, mechanism, name, {})


_process_key = secrets.token_bytes(32)
