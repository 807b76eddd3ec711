"""AddOffsetsToTxn: a group's offsets join a transaction."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import int16, int32, int64, string
from odradek.wire.message import Message, request, response


@request(ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    """The group."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@response(ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    """The error if it did not join."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
