"""StreamsGroupCurrentMemberAssignmentKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey(Data):
    """StreamsGroupCurrentMemberAssignmentKey."""

    group_id: str = string()
    member_id: str = string()
