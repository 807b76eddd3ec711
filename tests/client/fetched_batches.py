"""Batches as a broker sends them, for the tests of what was fetched."""

from __future__ import annotations

from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec


def batch(base: int, *values: bytes, producer_id: int = -1, epoch: int = 4) -> bytes:
    """A batch of values; of a transaction where there is a producer id."""
    builder = BatchBuilder(
        Codec.NONE,
        base_offset=base,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )
    for value in values:
        builder.append(1_000, None, value, ())
    return builder.build()
