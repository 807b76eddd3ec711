"""__consumer_offsets: a streams group."""

from __future__ import annotations

from odradek.wire.fields import array, int32, int64, string
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class LastAssignmentConfig(Struct):
    """An element of `StreamsGroupMetadataValue.last_assignment_configs`."""

    key: str = string()
    value: str = string()


@record_value(versions="0", flexible="0+")
class StreamsGroupMetadataValue(Data):
    """Epoch and hash of the group."""

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", tag=1
    )
    stored_description_topology_epoch: int = int32(default=-1, tag=2)
    failed_description_topology_epoch: int = int32(default=-1, tag=3)
