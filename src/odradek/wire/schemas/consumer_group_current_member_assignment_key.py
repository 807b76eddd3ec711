"""ConsumerGroupCurrentMemberAssignmentKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Data):
    """ConsumerGroupCurrentMemberAssignmentKey."""

    group_id: str = string()
    member_id: str = string()
