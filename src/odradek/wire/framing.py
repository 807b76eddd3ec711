# compiled: mypyc
"""From a stream of bytes to frames: four bytes of size, then that many bytes.

The bytes are received where they are read: `get_buffer` gives the memory that the socket is to write to, and
`received` the frames that are whole, as views into it. Nothing is copied but the piece of a small frame that
has not arrived whole.

Small frames are read through one buffer that all connections of a loop share, since only one of them reads at
a time. A frame that would not do there gets a buffer of its own, which is used again for the next large frame
if nobody has kept it.

Frames are lent: a view is good until `take_back`, and until the next call of `get_buffer` of any receiver
with the same buffers. Who needs a frame for longer calls `own`.
"""

from __future__ import annotations

from struct import Struct

from odradek.errors.base import ProtocolError
from odradek.wire.foreign import foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from odradek.wire.primitives import Buffer

SHARED_BYTES: Final = 256 * 1024
"""Of the buffer that is shared: as much as one read of a socket can give."""

LARGE_BYTES: Final = 64 * 1024
"""Frames from this size on, their own size included, get their own buffer unless they come in one piece."""

AFTER_LARGE_BYTES: Final = 16 * 1024
"""How much is read into the shared buffer behind a large frame: the next one is most likely large as well,
and what has come into the shared buffer has to be moved."""

SPARE_BUFFERS: Final = 4
SPARE_BYTES: Final = 2 * 1024 * 1024
"""So many buffers, each up to so large, are kept for the next large frames."""

_unpack_size: Final = Struct(">i").unpack_from


class ReceiveBuffers:
    """The memory that the receivers of one event loop share."""

    __slots__ = ("shared", "spare")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.spare: list[bytearray] = []
        """Buffers that nobody uses, the one that was given back last at the end; at most `SPARE_BUFFERS`."""

    def take(self, size: int, at_least: int) -> bytearray:
        """A buffer of `size` bytes if there is a spare one, else of `at_least`; both may be exceeded."""
        spare = self.spare
        # The last that came back first: its memory is most likely still in the processor's caches.
        for slot in range(len(spare) - 1, -1, -1):
            if len(spare[slot]) >= size:
                return spare.pop(slot)
        return bytearray(at_least)

    def give_back(self, buffer: bytearray) -> None:
        """Keep a buffer that nobody uses any more, if it is not too large to lie around."""
        if len(buffer) <= SPARE_BYTES:
            if len(self.spare) >= SPARE_BUFFERS:
                # The buffer that has been spare for longest is of a size that is not wanted any more.
                del self.spare[0]
            self.spare.append(buffer)


class FrameReceiver:
    """Cuts what comes in into frames.

    At most one frame is kept unfinished, and memory for it grows only with what has arrived: a peer that
    announces a large frame and sends nothing holds nothing.

    Args:
        max_size: the largest frame in bytes that is taken (Kafka's `socket.request.max.bytes`).
        buffers: shared with others of the same event loop.
    """

    __slots__ = ("_after_large", "_buffers", "_filled", "_held", "_max_size", "_size", "large", "lent")

    def __init__(self, max_size: int, buffers: ReceiveBuffers) -> None:
        self._max_size = max_size
        self._buffers = buffers
        self._held = b""
        """The beginning of a small frame, or of one whose size is not known; empty while `large` is set."""
        self.large: bytearray | None = None
        """The buffer of a large frame without its size; `_filled` bytes of `_size` have come."""
        self._filled = 0
        self._size = 0
        self._after_large = False
        """Whether the last whole frame was a large one; see `AFTER_LARGE_BYTES`."""
        self.lent: bytearray | None = None
        """The buffer of the large frame that was handed out last, unless somebody keeps it."""

    def limit(self, max_size: int) -> None:
        """Take no frames of more than `max_size` bytes from now on; a frame that has begun is taken."""
        self._max_size = max_size

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of an unfinished frame have come, its size included."""
        return 4 + self._filled if self.large is not None else len(self._held)

    def get_buffer(self) -> memoryview:
        """Return where the next bytes are to be written to; never empty. What was lent is taken back."""
        if self.lent is not None:
            self.take_back()
        large = self.large
        if large is not None:
            filled = self._filled
            if filled == len(large):
                large = self._grow(large)
            return memoryview(large)[filled : min(len(large), self._size)]
        shared, held = self._buffers.shared, self._held
        if self._after_large:
            shared = shared[: len(held) + AFTER_LARGE_BYTES]
        if held:
            shared[: len(held)] = held
            return shared[len(held) :]
        return shared

    def received(self, count: int) -> list[memoryview]:
        """Take the `count` bytes that were written to the last `get_buffer`.

        Returns:
            The frames that are complete now, without their size, in order; see `own` for how long.

        Raises:
            ProtocolError: a size that is negative or above the maximum. The stream cannot be read on.
        """
        large = self.large
        if large is not None:
            self._filled += count
            if self._filled < self._size:
                return []
            self.lent, self.large = large, None
            self._after_large = True
            return [memoryview(large)[: self._size]]
        shared = self._buffers.shared
        end = len(self._held) + count
        frames: list[memoryview] = []
        position = 0
        while end - position >= 4:
            size: int = _unpack_size(shared, position)[0]
            stop = position + 4 + size
            if stop > end or size < 0:
                # As soon as the size is there: nobody waits for the bytes of a frame that is refused.
                self._check(size)
                if stop - position >= LARGE_BYTES:
                    self._begin_large(shared[position + 4 : end], size)
                    return frames
                break
            frames.append(shared[position + 4 : stop])
            position = stop
            # Also of a frame that is whole already, as with Kafka: the limit is not of what has come at once.
            if size > self._max_size:
                self._check(size)
        self._held = bytes(shared[position:end]) if position < end else b""
        if frames:
            self._after_large = False
        return frames

    def own(self, frame: Buffer) -> Buffer:
        """A frame that `received` has just given, to be kept for as long as it is wanted.

        It is read-only, by which whoever gets a piece of it knows that nobody will write to it any more.
        """
        if self.lent is not None and isinstance(frame, memoryview) and frame.obj is self.lent:
            self.lent = None
            return frame.toreadonly()
        return bytes(frame)

    def take_back(self) -> None:
        """Take back the frames that were lent, but for those that somebody owns by now."""
        lent, self.lent = self.lent, None
        if lent is not None:
            self._buffers.give_back(lent)

    def close(self) -> None:
        """Give back all buffers; for a connection that has ended."""
        self.take_back()
        self._held = b""
        large, self.large = self.large, None
        if large is not None:
            self._buffers.give_back(large)

    def _check(self, size: int) -> None:
        if size < 0:
            raise ProtocolError(f"a frame of negative size {size}")
        if size > self._max_size:
            raise ProtocolError(f"a frame of {size} bytes: the most is {self._max_size}{foreign(size)}")

    def _begin_large(self, arrived: memoryview, size: int) -> None:
        count = len(arrived)
        # Twice of what has come, not of what was announced: a peer that sends nothing more holds little.
        self.large = large = self._buffers.take(size, min(size, max(2 * count, 4096)))
        large[:count] = arrived
        self._held = b""
        self._filled, self._size = count, size

    def _grow(self, full: bytearray) -> bytearray:
        filled = len(full)
        self.large = larger = self._buffers.take(self._size, min(self._size, 2 * filled))
        larger[:filled] = full
        return larger
