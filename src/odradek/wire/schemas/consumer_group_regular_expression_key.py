"""__consumer_offsets: the key of a resolved regular expression of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=16, versions="0")
class ConsumerGroupRegularExpressionKey(Data):
    """The group and the expression."""

    group_id: str = string()
    regular_expression: str = string()
