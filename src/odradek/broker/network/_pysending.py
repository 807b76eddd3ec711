"""Bytes and ranges of files sent into a socket. Compiled twin: `_sending`."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.log.storage.files import Buffer

    Part = Buffer | tuple[int, int, int]

MOST_PARTS = 64


def send_parts(out: int, parts: Sequence[Part], most: int, patience_ms: int) -> int:
    """Send parts, one behind the other, until the socket takes no more.

    Args:
        out: descriptor of a non-blocking socket.
        parts: at most `MOST_PARTS`, none of them empty: bytes, or of a file `(descriptor, position, size)`.
        most: how many bytes to send at most.
        patience_ms: how long to wait each time that the socket takes no more.

    Returns:
        Bytes that were sent, fewer than there are where the socket takes no more or a file has ended; 0 if
        the first part is of a file that ends before it.

    Raises:
        BlockingIOError: the socket takes nothing.
        OSError: of `sendfile(2)` or `sendmsg(2)`, where nothing was sent before.
    """
    sent = number = position = 0
    while number < len(parts) and sent < most:
        part = parts[number]
        size = part[2] if isinstance(part, tuple) else len(part)
        to_send = min(size - position, most - sent)
        try:
            if isinstance(part, tuple):
                count = os.sendfile(out, part[0], part[1] + position, to_send)
            else:
                count = os.write(out, memoryview(part)[position : position + to_send])
            if not count:
                break
        except BlockingIOError:
            if not sent and not patience_ms:
                raise
            count = 0
        except OSError:
            if not sent:
                raise
            break
        sent += count
        position += count
        if position == size:
            number, position = number + 1, 0
        # A socket that is full is not asked again before it has room.
        if count < to_send and not (patience_ms and _has_room_within(out, patience_ms)):
            if not sent:
                raise BlockingIOError(errno.EAGAIN, "the socket takes nothing")
            break
    return sent


def _has_room_within(out: int, patience_ms: int) -> bool:
    """Wait until a socket takes something, at most so long; whether it does."""
    room = select.poll()
    room.register(out, select.POLLOUT)
    return bool(room.poll(patience_ms))
