"""__consumer_offsets: the key of partitions with share state of a share group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=15, versions="0")
class ShareGroupStatePartitionMetadataKey(Data):
    """The group."""

    group_id: str = string()
