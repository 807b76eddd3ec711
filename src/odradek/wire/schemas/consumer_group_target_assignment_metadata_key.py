"""__consumer_offsets: the key of the target assignment of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Data):
    """The group."""

    group_id: str = string()
