"""SCRAM credentials (RFC 5802) as they are kept, and the key of what hides which there are.

Credentials are configs of `users/<name>`, one per mechanism:
`salt=…,stored_key=…,server_key=…,iterations=…`, the first three in base64. No password can be read from them.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from enum import IntEnum

from odradek.cluster.paths import SCRAM_DECOYS
from odradek.cluster.store.store import MetadataStore, NodeExists, NoNode, ensure_path, parent_of
from odradek.sasl.scram_credentials import HASHES, ScramCredential


class Mechanism(IntEnum):
    """The mechanisms; the numbers go over the wire."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def config(self) -> str:
        """The name, which is the config's as well: `SCRAM-SHA-256`, `SCRAM-SHA-512`."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> str:
        """The text that is kept.

        Args:
            salt: as the password was salted with.
            salted_password: what came of it; it is not kept.
            iterations: how often it was hashed for that.
        """
        credential = ScramCredential.of_salted(HASHES[self.config], salt, salted_password, iterations)
        return credential.to_text()


def mechanism_of(number: int) -> Mechanism | None:
    """The mechanism of a number, None for one that is not known."""
    return Mechanism(number) if number in list(Mechanism) else None


def iterations_of(credential: str) -> int:
    """Return how many iterations a kept credential has.

    Raises:
        ValueError: it is none.
    """
    return ScramCredential.from_text(credential).iterations


def load_decoy_key(store: MetadataStore) -> bytes:
    """Return the key that all brokers of a cluster make SCRAM's decoys with (`odradek.sasl.scram_decoys`).

    It stands in the metadata store beside the credentials, and is as secret as they are: who reads it can
    tell which users there are, whom they can read there as well. Kafka's brokers pass the node over.

    Returns:
        32 bytes, of whatever the node holds, which is made by the first broker that asks.

    Raises:
        StoreError: the store cannot be read or written.
    """
    try:
        data, _ = store.get(SCRAM_DECOYS)
    except NoNode:
        ensure_path(store, parent_of(SCRAM_DECOYS))
        with suppress(NodeExists):  # another broker was there first
            store.create(SCRAM_DECOYS, secrets.token_hex(32).encode())
        data, _ = store.get(SCRAM_DECOYS)
    return hashlib.sha256(data or b"").digest()
