"""__consumer_offsets: the key of a member of a streams group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=19, versions="0")
class StreamsGroupMemberMetadataKey(Data):
    """The group and the member."""

    group_id: str = string()
    member_id: str = string()
