"""StreamsGroupTargetAssignmentMemberKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey(Data):
    """StreamsGroupTargetAssignmentMemberKey."""

    group_id: str = string()
    member_id: str = string()
