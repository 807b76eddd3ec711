"""ConsumerGroupRegularExpressionKey."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=16, versions="0")
class ConsumerGroupRegularExpressionKey(Data):
    """ConsumerGroupRegularExpressionKey."""

    group_id: str = string()
    regular_expression: str = string()
