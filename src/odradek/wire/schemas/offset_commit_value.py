"""__consumer_offsets: a committed offset."""

from __future__ import annotations

from odradek.wire.fields import int32, int64, string, uuid
from odradek.wire.message import Data, record_value


@record_value(versions="0-4", flexible="4+")
class OffsetCommitValue(Data):
    """The offset; version 3 has the leader epoch, 4 the topic's id."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", ignorable=True, tag=0)
