"""__consumer_offsets: the key of the target assignment of a streams group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey(Data):
    """The group."""

    group_id: str = string()
