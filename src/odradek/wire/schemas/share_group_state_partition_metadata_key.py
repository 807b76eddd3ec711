"""ShareGroupStatePartitionMetadataKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=15, versions="0")
class ShareGroupStatePartitionMetadataKey(Data):
    """ShareGroupStatePartitionMetadataKey."""

    group_id: str = string()
