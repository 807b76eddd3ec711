# compiled: mypyc
"""The place of a batch or message in its segment, as walks and searches tell."""

from __future__ import annotations

from typing import final


@final
class SegmentEntry:
    """The place of an entry in its segment, and its offsets. Of a wrapper both are its last offset.

    Attributes:
        position: of its first byte in the segment.
        size: its bytes.
        base_offset, last_offset: of its records.
        max_timestamp: ms since the epoch, -1 for none or where it was not looked for.
    """

    __slots__ = ("base_offset", "last_offset", "max_timestamp", "position", "size")

    def __init__(
        self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp

    def __repr__(self) -> str:
        return (
            f"SegmentEntry(position={self.position}, size={self.size}, base_offset={self.base_offset}, "
            f"last_offset={self.last_offset}, max_timestamp={self.max_timestamp})"
        )
