"""ConsumerGroupTargetAssignmentMemberKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Data):
    """ConsumerGroupTargetAssignmentMemberKey."""

    group_id: str = string()
    member_id: str = string()
