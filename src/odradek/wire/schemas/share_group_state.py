"""Keys and values of `__share_group_state`: what became of the records of share partitions (KIP-932)."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int16, int32, int64, string, uuid
from odradek.wire.message import Data, Struct, record_key, record_value, struct


@record_key(record_type=0, versions="0")
class ShareSnapshotKey(Data):
    """The key of the whole state of a share partition."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@struct
class StateBatch(Struct):
    """An element of `state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@record_value(versions="0", flexible="0+")
class ShareSnapshotValue(Data):
    """The whole state of a share partition."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@record_key(record_type=1, versions="0")
class ShareUpdateKey(Data):
    """The key of a change since the last whole state."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@record_value(versions="0", flexible="0+")
class ShareUpdateValue(Data):
    """A change since the last whole state."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch)
