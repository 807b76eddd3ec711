"""The grouping of neighbouring segments that become one: as many as fit a segment, its indexes and its
offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.log.cleaner.job import Source

MAX_OFFSETS = 2**31 - 1
"""How far offsets may be from a segment's base offset."""


def group_segments(
    sources: Sequence[Source], max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[list[Source]]:
    """The segments, in runs that become one segment each (Kafka: Cleaner.groupSegmentsBySize).

    Args:
        sources: in the order of their offsets.
        max_bytes: of a segment; a larger one stays alone.
        max_index_bytes: of each of its indexes.
        end_offset: where the segment after the last one begins.
    """
    groups: list[list[Source]] = []
    for number, source in enumerate(sources):
        following = sources[number + 1].base_offset if number + 1 < len(sources) else end_offset
        if groups and _fits(groups[-1], source, following - 1, max_bytes, max_index_bytes):
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def _fits(
    group: list[Source], source: Source, last_offset: int, max_bytes: int, max_index_bytes: int
) -> bool:
    return (
        sum(segment.size for segment in group) + source.size <= max_bytes
        and sum(segment.index_bytes for segment in group) + source.index_bytes <= max_index_bytes
        and sum(segment.time_index_bytes for segment in group) + source.time_index_bytes <= max_index_bytes
        and (source.size == 0 or last_offset - group[0].base_offset <= MAX_OFFSETS)
    )
