"""__consumer_offsets: the target assignment of a share group."""

from __future__ import annotations

from odradek.wire.fields import int32, int64
from odradek.wire.message import Data, record_value


@record_value(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Data):
    """The epoch of the target assignment."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)
