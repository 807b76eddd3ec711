"""A check of an index: a look at the batch that an entry names, before the entry is trusted.

Index files have no checksums. An entry that names a wrong position would have records left out of what is
read, a wrong time would have a segment expire too early, a wrong transaction would show aborted records. All
entries of a healthy index pass, also of one that Kafka wrote or cleaned.
"""

from __future__ import annotations

from odradek.log.segments.batch_walk import MESSAGE, SPAN, PRead
from odradek.log.segments.offset_index import OffsetPosition
from odradek.log.segments.segment_entry import SegmentEntry
from odradek.log.segments.timestamp_offset import TimestampOffset
from odradek.records.batch import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2
from odradek.records.message_sets.message_set import MESSAGE_ATTRIBUTES_AT, MIN_LENGTH

"""`(size, position) -> bytes`, fewer only at the end of the file."""

SPAN_BYTES = SPAN.size


def begins_there(pread: PRead, entry: OffsetPosition, base_offset: int, end: int) -> bool:
    """Return whether an append that the entry tells of can begin at its position.

    Its offset is that of the append's last record; before Kafka 2.0 of its first.

    Args:
        pread: reads the segment.
        entry: of the segment's offset index.
        base_offset: the segment's.
        end: its bytes.

    Raises:
        OSError: the segment cannot be read.
    """
    first: int
    length: int
    offset, position = entry
    left = end - position
    if position < 0 or left <= MAGIC_AT:
        return False
    head = pread(min(SPAN_BYTES, left), position)
    if head[MAGIC_AT] < MAGIC_V2:
        first, length, magic = MESSAGE.unpack_from(head)
        smallest = MIN_LENGTH[magic]
        if len(head) > MESSAGE_ATTRIBUTES_AT and head[MESSAGE_ATTRIBUTES_AT] & CODEC_MASK:
            # A wrapper has the offset of its last message; the entry may be of its first.
            first = min(first, max(offset, base_offset))
    elif len(head) < SPAN_BYTES:
        return False
    else:
        first, length, magic, delta = SPAN.unpack_from(head)
        smallest = HEADER_BYTES - LOG_OVERHEAD
        if magic != MAGIC_V2 or delta < 0:
            return False
    return base_offset <= first <= offset and smallest <= length <= left - LOG_OVERHEAD


def holds_time(step: SegmentEntry | None, entry: TimestampOffset) -> bool:
    """Return whether the batch that an entry of a time index names has that timestamp as its largest.

    Args:
        step: the first batch that reaches the entry's offset, with its largest timestamp.
        entry: of the time index.
    """
    return (
        step is not None
        and step.base_offset <= entry.offset <= step.last_offset
        and step.max_timestamp == entry.timestamp
    )
