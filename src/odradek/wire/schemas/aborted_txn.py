"""The entry of a transaction index: one aborted transaction of a segment."""

from __future__ import annotations

from odradek.wire.fields import int64
from odradek.wire.message import Data, data


@data(versions="0")
class AbortedTxn(Data):
    """An aborted transaction's producer and offsets."""

    producer_id: int = int64()
    first_offset: int = int64()
    last_offset: int = int64()
    last_stable_offset: int = int64()
