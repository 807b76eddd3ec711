"""Whether what an index says is so: a look at the batch that an entry names, before the entry is trusted.

Index files have no checksums. An entry that names a wrong position would have records left out of what is
read, a wrong time would have a segment expire too early, a wrong transaction would show aborted records. All
entries of a healthy index pass, also of one that Kafka wrote or cleaned.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.log.offset_index import OffsetPosition
from odradek.log.time_index import TimestampOffset
from odradek.log.walking import Step
from odradek.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, BatchHeader
from odradek.records.message_set import INT32, INT64, MIN_LENGTH

PRead = Callable[[int, int], bytes]
"""`(size, position) -> bytes`, fewer only at the end of the file."""


def begins_there(pread: PRead, entry: OffsetPosition, base_offset: int, end: int) -> bool:
    """Whether an append that ends with the entry's offset can begin at its position.

    Args:
        pread: reads the segment.
        entry: of the segment's offset index.
        base_offset: the segment's.
        end: its bytes.

    Raises `OSError`.
    """
    if not 0 <= entry.position < end:
        return False
    left = end - entry.position
    head = pread(min(HEADER_BYTES, left), entry.position)
    if len(head) <= MAGIC_AT:
        return False
    magic = head[MAGIC_AT]
    first: int = INT64.unpack_from(head, 0)[0]
    length: int = INT32.unpack_from(head, 8)[0]
    if not base_offset <= first <= entry.offset or length + LOG_OVERHEAD > left:
        return False
    if magic < MAGIC_V2:
        return length >= MIN_LENGTH[magic]
    if magic > MAGIC_V2 or len(head) < HEADER_BYTES or length + LOG_OVERHEAD < HEADER_BYTES:
        return False
    header = BatchHeader.parse(head)
    return first <= header.last_offset <= entry.offset


def holds_time(step: Step | None, entry: TimestampOffset) -> bool:
    """Whether the batch that an entry of a time index names has that timestamp as its largest.

    Args:
        step: the first batch that reaches the entry's offset, with its largest timestamp.
        entry: of the time index.
    """
    return (
        step is not None
        and step.base_offset <= entry.offset <= step.last_offset
        and step.max_timestamp == entry.timestamp
    )
