# compiled: mypyc
"""A timestamp and where it is, as appends, indexes and searches hand it on."""

from __future__ import annotations

from typing import Final, final

NO_TIMESTAMP: Final = -1


@final
class TimestampOffset:
    """A timestamp (ms since the epoch, -1 for none) and the last offset of the batch that holds it."""

    __slots__ = ("offset", "timestamp")

    def __init__(self, timestamp: int, offset: int) -> None:
        self.timestamp = timestamp
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TimestampOffset)
            and self.timestamp == other.timestamp
            and self.offset == other.offset
        )

    def __hash__(self) -> int:
        return hash((self.timestamp, self.offset))

    def __repr__(self) -> str:
        return f"TimestampOffset(timestamp={self.timestamp}, offset={self.offset})"
