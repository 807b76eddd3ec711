"""Producer ids as they stand in `/latest_producer_id_block`: blocks of a thousand, each claimed once."""

from __future__ import annotations

from odradek.cluster.nodes import ProducerIdBlock

PRODUCER_ID_BLOCK_SIZE = 1000

MAX_PRODUCER_ID = 2**63 - 1

BELIEVED_BELOW = 2**48
"""An id above this was never given out. A log may have it all the same, as clients may write any: going on
above it, they would be used up."""


def block_with(broker_id: int, producer_id: int) -> ProducerIdBlock:
    """The block that an id belongs to, as if this broker had claimed it."""
    first = producer_id - producer_id % PRODUCER_ID_BLOCK_SIZE
    return ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
