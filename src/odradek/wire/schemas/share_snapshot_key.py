"""__share_group_state: the key of a whole state."""

from __future__ import annotations

from odradek.wire.fields import int32, string, uuid
from odradek.wire.message import Data, record_key


@record_key(record_type=0, versions="0")
class ShareSnapshotKey(Data):
    """Group, topic and partition."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()
