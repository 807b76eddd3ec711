"""Answers that hold ranges of files: the kernel sends them, nothing is copied through this process.

A transport cannot do that in the middle of its own writes, so a connection that has such an answer hands
it, and every answer behind it, to its `FileSender`. That one waits until the transport has sent what it
holds, and then writes to the socket beside it, through a descriptor of its own:

    idle ──send()──► waiting for the transport ──► sending ──everything is out──► idle
                         (its buffer is empty: at once)  └──the peer's window is full: until writable

What a short file would make of the stream cannot be mended: fewer bytes than announced close the connection.
Records that are converted as they are sent (`odradek.broker.lazy_records`) go the same way, piece by piece.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from odradek.broker.lazy_records import LazyRecords
from odradek.errors import KafkaError
from odradek.log.files import FileRange

log = logging.getLogger(__name__)

TURN_BYTES = 4 * 1024 * 1024
"""What one connection may send before others get their turn; the socket's buffer is usually full before."""

_BUFFERS_AT_ONCE = 64
_NO_SENDFILE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
_MSG_MORE = getattr(socket, "MSG_MORE", 0)


UNREAD = (FileRange, LazyRecords)
"""Parts of an answer that are not in memory."""


class SendingConnection(Protocol):
    """What a sender needs of its connection."""

    active_at: float
    write_high_water: int

    def sending_went_on(self, left: int) -> None:
        """So many bytes are still to be sent; 0: the transport may write again, or close."""

    def abort(self, reason: str, *, warn: bool = False) -> None:
        """Close at once."""


def can_send_ranges(transport: asyncio.Transport) -> bool:
    """Whether the bytes of a file may go straight into this transport's socket."""
    return (
        sys.platform == "linux"
        and transport.get_extra_info("socket") is not None
        and transport.get_extra_info("sslcontext") is None
    )


def read_ranges(buffers: Sequence[Any]) -> list[Any]:
    """The same answer in memory. Raises `OSError`, `KafkaError` for what cannot be converted."""
    return [one.read() if one.__class__ in UNREAD else one for one in buffers]


class FileSender:
    """Sends the answers of one connection while there are ranges of files among them.

    Attributes:
        left: bytes that have not been sent yet; 0 when it is idle.
    """

    __slots__ = (
        "_connection",
        "_fd",
        "_limits_are_changed",
        "_loop",
        "_parts",
        "_position",
        "_socket",
        "_transport",
        "_waits",
        "left",
    )

    def __init__(
        self, connection: SendingConnection, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport
    ) -> None:
        """Raises `OSError` where there is no descriptor to be had."""
        self._connection = connection
        self._loop = loop
        self._transport = transport
        # Of its own, because a loop lets nobody else watch a transport's descriptor.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._parts: deque[Any] = deque()
        self._position = 0
        """How much of the first part has been sent."""
        self._waits = False
        """Whether the loop watches the descriptor."""
        self._limits_are_changed = False
        """Whether the transport is to tell when its buffer is empty."""
        self.left = 0

    def send(self, buffers: Sequence[Any]) -> None:
        """Send an answer, after those that are being sent."""
        was_idle = self.left == 0
        for part in buffers:
            if len(part):
                self._parts.append(part)
                self.left += len(part)
        if was_idle and self.left:
            if self._transport.get_write_buffer_size() == 0:
                self._write()
            else:
                # Its connection is told when the buffer is empty, and calls `go_on`.
                self._transport.set_write_buffer_limits(high=0)
                self._limits_are_changed = True

    def go_on(self) -> None:
        """Send as much as the socket takes now, and tell the connection what is left."""
        if self._limits_are_changed:
            self._limits_are_changed = False
            self._transport.set_write_buffer_limits(high=self._connection.write_high_water)
        if self.left and self._write():
            self._connection.sending_went_on(self.left)

    def _write(self) -> bool:
        """Whether the connection goes on."""
        parts = self._parts
        connection = self._connection
        turn = TURN_BYTES
        waits_for_piece = False
        try:
            while parts and turn > 0:
                part = parts[0]
                if part.__class__ is LazyRecords:
                    if not self._take_piece(part):
                        waits_for_piece = True
                        break
                    continue
                size = len(part) - self._position
                count = self._send_range(part, size) if part.__class__ is FileRange else self._send_bytes()
                turn -= count
                self.left -= count
                if count < size:
                    # The socket takes no more; asking it again would only cost.
                    break
        except BlockingIOError:
            pass
        except ConnectionError:
            self.stop()
            self._transport.abort()
            return False
        except (OSError, KafkaError, EOFError) as error:
            self.stop()
            connection.abort(f"records could not be sent: {error}", warn=True)
            return False
        if turn != TURN_BYTES:
            connection.active_at = self._loop.time()
        if parts and not waits_for_piece:
            if not self._waits:
                self._waits = True
                self._loop.add_writer(self._fd, self.go_on)
        elif self._waits:
            self._waits = False
            self._loop.remove_writer(self._fd)
        return True

    def _take_piece(self, records: LazyRecords) -> bool:
        """Put the next piece in front of what is to be sent; false while it is being made."""
        piece = records.take(self.go_on)
        if piece is None:
            return False
        if not len(records):
            self._parts.popleft()
        self._parts.appendleft(memoryview(piece))
        return True

    def _send_range(self, part: FileRange, size: int) -> int:
        position = self._position
        try:
            count = os.sendfile(self._fd, part.fileno(), part.position + position, size)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            # A file system without it.
            self._parts[0] = memoryview(part.read())
            return self._send_bytes()
        if count == size:
            self._parts.popleft()
            self._position = 0
        elif count:
            self._position = position + count
        else:
            raise OSError(errno.EIO, f"the file ended {size} bytes before what was announced")
        return count

    def _send_bytes(self) -> int:
        parts = self._parts
        run: list[Any] = []
        for part in parts:
            if part.__class__ in UNREAD or len(run) == _BUFFERS_AT_ONCE:
                break
            run.append(part)
        # What has to be made first may keep the peer waiting.
        more = _MSG_MORE if len(run) < len(parts) and parts[len(run)].__class__ is not LazyRecords else 0
        if self._position:
            run[0] = memoryview(run[0])[self._position :]
        count = left = self._socket.sendmsg(run, (), more)
        for part in run:
            if left < len(part):
                self._position += left
                break
            left -= len(part)
            parts.popleft()
            self._position = 0
        return count

    def stop(self) -> None:
        """Send nothing more, and let go of the descriptor."""
        if self._waits:
            self._waits = False
            self._loop.remove_writer(self._fd)
        for part in self._parts:
            if part.__class__ is LazyRecords:
                part.drop()
        self._parts.clear()
        self.left = 0
        self._socket.close()
