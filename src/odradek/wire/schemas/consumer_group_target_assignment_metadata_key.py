"""ConsumerGroupTargetAssignmentMetadataKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Data):
    """ConsumerGroupTargetAssignmentMetadataKey."""

    group_id: str = string()
