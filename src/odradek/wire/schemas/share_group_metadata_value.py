"""__consumer_offsets: a share group."""

from __future__ import annotations

from odradek.wire.fields import int32, int64
from odradek.wire.message import Data, record_value


@record_value(versions="0", flexible="0+")
class ShareGroupMetadataValue(Data):
    """Epoch and hash of the group."""

    epoch: int = int32()
    metadata_hash: int = int64()
