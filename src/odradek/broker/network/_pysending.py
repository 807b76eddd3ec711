"""A range of a file sent into a socket. Compiled twin: `odradek._sending`."""

from __future__ import annotations

import os
import select


def send_range(out: int, file: int, position: int, size: int, patience_ms: int) -> int:
    """Send bytes of a file until the socket takes no more.

    Args:
        out: descriptor of a non-blocking socket.
        file: descriptor.
        position: of the first byte, in bytes.
        size: bytes to send.
        patience_ms: how long to wait each time that the socket takes no more.

    Returns:
        Bytes that were sent, fewer than `size` where the socket takes no more or the file has ended; 0 if
        it ended before `position`.

    Raises:
        BlockingIOError: the socket takes nothing.
        OSError: of `sendfile(2)`, where nothing was sent before.
    """
    left = size
    while left:
        try:
            count = os.sendfile(out, file, position, left)
        except BlockingIOError:
            if patience_ms and has_room_within(out, patience_ms):
                continue
            if left == size:
                raise
            break
        except OSError:
            if left == size:
                raise
            break
        if not count:
            break
        position += count
        left -= count
    return size - left


def has_room_within(out: int, patience_ms: int) -> bool:
    """Wait until a socket takes something, at most so long; whether it does."""
    room = select.poll()
    room.register(out, select.POLLOUT)
    return bool(room.poll(patience_ms))
