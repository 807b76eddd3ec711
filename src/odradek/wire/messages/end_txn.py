"""EndTxn: commit or abort a transaction.

From version 5 on every transaction has an epoch of its own (KIP-890).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import boolean, int16, int32, int64, string
from odradek.wire.message import Message, request, response


@request(ApiKey.END_TXN, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    """The transaction, and how it ends."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@response(ApiKey.END_TXN, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    """The epoch to go on with."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
