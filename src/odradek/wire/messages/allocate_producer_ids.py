"""AllocateProducerIds: a broker takes a block of producer ids from the controller (KIP-730).

Brokers of a ZooKeeper cluster use it too, from 3.0 on.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import int16, int32, int64
from odradek.wire.message import Message, request, response


@request(ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+")
class AllocateProducerIdsRequest(Message):
    """The broker that asks."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@response(ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    """The block."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
