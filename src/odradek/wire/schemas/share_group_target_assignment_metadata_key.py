"""__consumer_offsets: the key of the target assignment of a share group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey(Data):
    """The group."""

    group_id: str = string()
