"""ConsumerGroupPartitionMetadataKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=4, versions="0")
class ConsumerGroupPartitionMetadataKey(Data):
    """ConsumerGroupPartitionMetadataKey."""

    group_id: str = string()
