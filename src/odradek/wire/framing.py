"""From a stream of bytes to frames: four bytes of size, then that many bytes."""

from __future__ import annotations

from odradek.errors.base import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.wire.primitives import Buffer


class FrameReader:
    """Cuts what comes in into frames.

    At most one frame is kept unfinished, and memory for it grows only with what has arrived: a peer that
    announces a large frame and sends nothing holds nothing.

    Args:
        max_size: the largest frame in bytes that is taken (Kafka's `socket.request.max.bytes`).
    """

    __slots__ = ("_held", "_max_size", "_wanted")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._held = bytearray()
        self._wanted = -1  # the size of the frame at the start of `_held`, -1 while it is not known

    @property
    def held_bytes(self) -> int:
        """How many bytes of an unfinished frame are kept, its size included."""
        return len(self._held)

    def feed(self, data: Buffer) -> list[Buffer]:
        """Take what has arrived.

        Args:
            data: any number of bytes; the frames returned may be views into it if it is `bytes`.

        Returns:
            The frames that are complete now, without their size, in order.

        Raises:
            ProtocolError: a size that is negative or above the maximum. The stream cannot be read on.
        """
        if not self._held and isinstance(data, bytes):
            return self._cut(data)
        self._held += data
        if len(self._held) < (4 if self._wanted < 0 else 4 + self._wanted):
            if self._wanted < 0 or len(self._held) >= 4:
                self._look()
            return []
        whole = bytes(self._held)
        self._held = bytearray()
        self._wanted = -1
        return self._cut(whole)

    def _look(self) -> None:
        if self._wanted < 0 and len(self._held) >= 4:
            self._wanted = self._size(self._held, 0)

    def _size(self, data: Buffer, position: int) -> int:
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        if size < 0:
            raise ProtocolError(f"a frame of negative size {size}")
        if size > self._max_size:
            raise ProtocolError(f"a frame of {size} bytes: the most is {self._max_size}")
        return size

    def _cut(self, data: bytes) -> list[Buffer]:
        """Cut whole frames off the front and hold the rest."""
        frames: list[Buffer] = []
        position, end = 0, len(data)
        view = None
        while end - position >= 4:
            size = self._size(data, position)
            stop = position + 4 + size
            if stop > end:
                self._wanted = size
                break
            if view is None:
                view = memoryview(data)
            frames.append(view[position + 4 : stop])
            position = stop
        if position < end:
            self._held = bytearray(data[position:])
        return frames
