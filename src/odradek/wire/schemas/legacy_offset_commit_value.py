"""__consumer_offsets: a committed offset in its first form."""

from __future__ import annotations

from odradek.wire.fields import int64, string
from odradek.wire.message import Data, record_value


@record_value(versions="0")
class LegacyOffsetCommitValue(Data):
    """The offset, the metadata and when it was committed."""

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()
