"""From a stream of bytes to frames, read straight into the memory that the frames stay in.

A fetch answer has megabytes, and what is read of it keeps pointing into it. So it is never put together from
pieces: the socket writes into one block, which belongs to the frame once that is complete. Small frames are
copied out, and the block serves on.
"""

from __future__ import annotations

from odradek.client.core.kernel import unfilled
from odradek.errors import ProtocolError

_BLOCK = 64 * 1024
_GROWTH = 8
_COPIED = 8 * 1024
"""Frames of up to this many bytes are copied out."""


class InboundFrames:
    """Use: write into `space()`, tell `written(n)`, which gives the frames that are complete.

    A peer that announces a large frame and sends nothing gets nothing: a block is at most `_GROWTH` times as
    large as what has arrived of its frame, or `_BLOCK`.

    Args:
        max_size: the largest frame in bytes that is taken.
    """

    __slots__ = ("_filled", "_max_size", "_view")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._view = memoryview(b"")
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """The bytes of an unfinished frame that are kept, its size included."""
        return self._filled

    @property
    def announced(self) -> int | None:
        """The size of an unfinished frame, as far as it has come: None where it has not."""
        return int.from_bytes(self._view[:4], "big", signed=True) if self._filled >= 4 else None

    def space(self) -> memoryview:
        """Return the room for the next bytes: at least one of room."""
        if self._filled == len(self._view):
            size = _BLOCK
            if self._filled >= 4:
                size = 4 + self._size(0)
            self._move(0, min(size, max(_BLOCK, _GROWTH * self._filled)))
        return self._view[self._filled :]

    def written(self, count: int) -> list[memoryview | bytes]:
        """`count` bytes were written into what `space` gave.

        Returns: the frames that are complete now, without their size, in order.

        Raises:
            ProtocolError: a size that is negative or above the maximum. The stream cannot be read on.
        """
        self._filled += count
        frames: list[memoryview | bytes] = []
        view = self._view
        position, end = 0, self._filled
        lends_views = False
        while end - position >= 4:
            size = self._size(position)
            start, stop = position + 4, position + 4 + size
            if stop > end:
                break
            if size <= _COPIED:
                frames.append(bytes(view[start:stop]))
            else:
                frames.append(view[start:stop].toreadonly())
                lends_views = True
            position = stop
        if lends_views:
            self._move(position, _BLOCK if position < end else 0)
        elif position:
            rest = bytes(view[position:end])
            view[: len(rest)] = rest
            self._filled = len(rest)
        return frames

    def _size(self, position: int) -> int:
        size = int.from_bytes(self._view[position : position + 4], "big", signed=True)
        if size < 0:
            raise ProtocolError(f"a frame of negative size {size}")
        if size > self._max_size:
            raise ProtocolError(f"a frame of {size} bytes: the most is {self._max_size}")
        return size

    def _move(self, position: int, capacity: int) -> None:
        """Move what is unfinished, from `position` on, into a new block of at least `capacity` bytes."""
        rest = self._view[position : self._filled]
        block = memoryview(unfilled(max(capacity, len(rest))))
        block[: len(rest)] = rest
        self._view, self._filled = block, len(rest)
