"""The key that all brokers of a cluster make SCRAM's decoys with (`odradek.sasl.scram_decoys`).

It stands in the metadata store beside the credentials, and is as secret as they are: who reads it can tell
which users there are, whom they can read there as well. Kafka's brokers pass the node over.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress

from odradek.cluster.paths import SCRAM_DECOYS
from odradek.cluster.store.store import MetadataStore, NodeExists, NoNode, ensure_path, parent_of


def load_decoy_key(store: MetadataStore) -> bytes:
    """Return the key, which is made by the first broker that asks. 32 bytes, of whatever the node holds.

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
