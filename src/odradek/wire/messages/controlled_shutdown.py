"""ControlledShutdown: a broker asks the controller to move its leaderships away.

Sent between the brokers of a ZooKeeper cluster only. Version 0 is the one request with header version 0.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    """The broker that wants to stop."""

    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


@struct
class RemainingPartition(Struct):
    """An element of `ControlledShutdownResponse.remaining_partitions`."""

    topic_name: str = string()
    partition_index: int = int32()


@response(ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    """The partitions that it still leads."""

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
