"""Answers with parts that are not in memory, where the kernel cannot send them: TLS, or no sendfile.

They are read and written to the transport piece by piece, as fast as the peer takes them, so that a peer that
asks for fifty megabytes and reads nothing holds a piece of them. It stands in for `sending.FileSender`:

    idle ──send()──► writing ──the transport holds enough──► waiting until it has drained ──► writing …
                        └──everything is handed over, and the transport has drained──► idle
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from odradek.broker.conversion.lazy_records import LazyRecords
from odradek.broker.network.sending import SendingConnection
from odradek.errors import KafkaError
from odradek.log.storage.files import FileRange
from odradek.util.gathered_writes import gathering_write

PIECE_BYTES = 256 * 1024
"""Read and written at once."""

ENOUGH_BYTES = 256 * 1024
"""So much the transport may hold before it gets no more."""


class PieceSender:
    """Sends the answers of one connection while there are parts among them that are not in memory.

    Attributes:
        left: bytes that the transport has not got yet; 0 when it is idle.
    """

    __slots__ = (
        "_connection",
        "_loop",
        "_parts",
        "_position",
        "_stopped",
        "_transport",
        "_writelines",
        "left",
    )

    def __init__(
        self, connection: SendingConnection, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport
    ) -> None:
        """
        Args:
            connection, loop, transport: whose answers are sent, and where.
        """
        self._connection = connection
        self._loop = loop
        self._transport = transport
        self._writelines = gathering_write(transport)
        self._parts: deque[Any] = deque()
        self._position = 0
        """How much of the first part has been written."""
        self._stopped = False
        self.left = 0

    def send(self, buffers: Sequence[Any]) -> None:
        """Send an answer, after those that are being sent."""
        was_idle = self.left == 0
        for part in buffers:
            if len(part):
                self._parts.append(part)
                self.left += len(part)
        if was_idle and self.left:
            # From now on it tells at this mark, and calls `go_on` when it has drained.
            self._transport.set_write_buffer_limits(high=ENOUGH_BYTES)
            self._write()

    def go_on(self) -> None:
        """The transport has drained: go on, and tell the connection what is left."""
        if self.left and self._write():
            self._connection.sending_went_on(self.left)

    def _write(self) -> bool:
        """Write until the transport holds enough. Whether the connection goes on."""
        transport, parts = self._transport, self._parts
        try:
            has_piece = True
            while has_piece and parts and transport.get_write_buffer_size() <= ENOUGH_BYTES:
                pieces: list[Any] = []
                size = 0
                while parts and size < PIECE_BYTES:
                    piece = self._next_piece()
                    has_piece = piece is not None
                    if not has_piece:
                        break
                    pieces.append(piece)
                    size += len(piece)
                if pieces:
                    # The peer has taken what came before: it is not idle.
                    self._connection.active_at = self._connection.monotonic_s()
                    self._writelines(pieces)
                if self._stopped:
                    return False
        except (OSError, KafkaError, EOFError) as error:
            self.stop()
            self._connection.abort(f"records could not be sent: {error}", warn=True)
            return False
        if not parts:
            # What is left is the transport's business; but while it is paused, nothing may be added.
            self.left = 1 if transport.get_write_buffer_size() > ENOUGH_BYTES else 0
            if not self.left:
                transport.set_write_buffer_limits(high=self._connection.write_high_water)
        return True

    def _next_piece(self) -> Any:
        """The next bytes to write; None while they are being made."""
        part = self._parts[0]
        piece: Any
        if part.__class__ is LazyRecords:
            piece = part.take(self.go_on)
            if piece is None:
                return None
            if not len(part):
                self._parts.popleft()
            self.left -= len(piece)
            return piece
        size = len(part)
        start = self._position
        end = min(start + PIECE_BYTES, size)
        if part.__class__ is FileRange:
            piece = part.pread(end - start, start)
        else:
            piece = part if end - start == size else memoryview(part)[start:end]
        if end == size:
            self._parts.popleft()
            self._position = 0
        else:
            self._position = end
        self.left -= end - start
        return piece

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        self.left = 0
        for part in self._parts:
            if part.__class__ is LazyRecords:
                part.drop()
        self._parts.clear()
