"""__share_group_state: a change since the last whole state."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int16, int32, int64
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class StateBatch(Struct):
    """An element of `ShareUpdateValue.state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@record_value(versions="0", flexible="0+")
class ShareUpdateValue(Data):
    """What changed."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch)
