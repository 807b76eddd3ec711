"""__consumer_offsets: the key of a committed offset."""

from __future__ import annotations

from odradek.wire.fields import int32, string
from odradek.wire.message import Data, record_key


@record_key(record_type=1, versions="0")
class OffsetCommitKey(Data):
    """Group, topic and partition."""

    group: str = string()
    topic: str = string()
    partition: int = int32()
