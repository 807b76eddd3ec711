"""InitProducerId: get a producer id, or fence the former user of a transactional id (KIP-98).

Version 3 lets a producer go on after an error (KIP-360); 6 takes part in two-phase commits (KIP-939).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import boolean, int16, int32, int64, string
from odradek.wire.message import Message, request, response


@request(ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+")
class InitProducerIdRequest(Message):
    """The transactional id, or null for idempotence alone."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@response(ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    """Producer id and epoch."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
