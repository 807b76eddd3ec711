"""__consumer_offsets: a resolved regular expression of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import array, int64, string
from odradek.wire.message import Data, record_value


@record_value(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Data):
    """The topics that the expression matches."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
