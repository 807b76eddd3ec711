"""__share_group_state: the whole state of a share partition."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int16, int32, int64
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class StateBatch(Struct):
    """An element of `ShareSnapshotValue.state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@record_value(versions="0", flexible="0+")
class ShareSnapshotValue(Data):
    """Where the partition starts, and which batches are in flight."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)
