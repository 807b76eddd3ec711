"""__consumer_offsets: the key of a streams group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=17, versions="0")
class StreamsGroupMetadataKey(Data):
    """The group."""

    group_id: str = string()
