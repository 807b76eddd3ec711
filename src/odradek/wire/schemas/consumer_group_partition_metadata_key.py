"""__consumer_offsets: the key of partition counts of subscribed topics of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=4, versions="0")
class ConsumerGroupPartitionMetadataKey(Data):
    """The group."""

    group_id: str = string()
