"""Answers that hold ranges of files: the kernel sends them, nothing is copied through this process.

A transport cannot do that in the middle of its own writes, so a connection that has such an answer hands
it, and every answer behind it, to its `FileSender`. That one waits until the transport has sent what it
holds, and then writes to the socket beside it, through a descriptor of its own:

    idle ──send()──► waiting for the transport ──► sending ──everything is out──► idle
                         (its buffer is empty: at once)  ├──a long range: in a thread, the loop goes on
                                                         └──the peer's window is full: until writable

What a short file would make of the stream cannot be mended: fewer bytes than announced close the connection.
Records that are converted as they are sent (`odradek.broker.conversion.lazy_records`) go the same way, piece
by piece.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from odradek.broker.conversion.lazy_records import LazyRecords
from odradek.broker.network.outbox import Outbox, SendingThreads
from odradek.errors import KafkaError

logger = logging.getLogger(__name__)

LONG_RANGE_BYTES = 128 * 1024
"""From here on a thread sends: handing over costs about what sending a sixth of this does."""


class SendingConnection(Protocol):
    """A sender's connection, as the sender knows it."""

    active_at: float
    monotonic_s: Callable[[], float]
    write_high_water: int

    def sending_went_on(self, left: int) -> None:
        """So many bytes are still to be sent; 0: the transport may write again, or close."""

    def abort(self, reason: str, *, warn: bool = False) -> None:
        """Close at once."""


def can_send_ranges(transport: asyncio.Transport) -> bool:
    """Return whether the bytes of a file may go straight into this transport's socket."""
    return (
        sys.platform == "linux"
        and transport.get_extra_info("socket") is not None
        and transport.get_extra_info("sslcontext") is None
    )


class FileSender:
    """Sends the answers of one connection while there are ranges of files among them.

    Attributes:
        left: bytes that have not been sent yet; 0 when it is idle.
    """

    __slots__ = (
        "_behind",
        "_connection",
        "_in_thread",
        "_limits_are_changed",
        "_loop",
        "_outbox",
        "_stopped",
        "_threads",
        "_transport",
        "_waits",
        "left",
    )

    def __init__(
        self,
        connection: SendingConnection,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        threads: SendingThreads,
    ) -> None:
        """
        Args:
            connection, loop, transport: whose answers are sent, and where.
            threads: those that send long ranges.

        Raises:
            OSError: there is no descriptor to be had.
        """
        self._connection = connection
        self._loop = loop
        self._transport = transport
        self._threads = threads
        # Of its own, because a loop lets nobody else watch a transport's descriptor.
        own = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        own.setblocking(False)
        self._outbox = Outbox(own)
        self._in_thread = False
        """Whether the outbox is a thread's now."""
        self._behind: list[Any] = []
        """What came meanwhile."""
        self._stopped = False
        self._waits = False
        """Whether the loop watches the descriptor."""
        self._limits_are_changed = False
        """Whether the transport is to tell when its buffer is empty."""
        self.left = 0

    def send(self, buffers: Sequence[Any]) -> None:
        """Send an answer, after those that are being sent."""
        was_idle = self.left == 0
        last = self._behind if self._in_thread else self._outbox.parts
        for part in buffers:
            if len(part):
                last.append(part)
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
        if self.left and not self._in_thread and self._write():
            self._connection.sending_went_on(self.left)

    def _write(self) -> bool:
        """Return whether the connection goes on."""
        outbox = self._outbox
        if outbox.first_range_bytes() >= LONG_RANGE_BYTES:
            self._watch(False)
            self._in_thread = True
            self._threads.write(outbox, self._call_back)
            return False
        outbox.write()
        return self._written()

    def _call_back(self) -> None:
        self._loop.call_soon_threadsafe(self._thread_is_done)

    def _thread_is_done(self) -> None:
        self._threads.finished()
        self._in_thread = False
        if self._stopped:
            self._outbox.close()
            return
        self._outbox.parts.extend(self._behind)
        self._behind.clear()
        if self._written():
            self._connection.sending_went_on(self.left)

    def _written(self) -> bool:
        """Take note of what the outbox has done. Whether the connection goes on."""
        outbox = self._outbox
        error = outbox.error
        if outbox.sent:
            self.left -= outbox.sent
            self._connection.active_at = self._connection.monotonic_s()
        waits_for_piece = False
        if error is None and outbox.parts and outbox.parts[0].__class__ is LazyRecords:
            try:
                waits_for_piece = not self._take_piece(outbox.parts[0])
            except (OSError, KafkaError, EOFError) as failure:
                error = failure
        if error is not None:
            self.stop()
            if isinstance(error, ConnectionError):
                self._transport.abort()
            else:
                self._connection.abort(f"records could not be sent: {error}", warn=True)
            return False
        self._watch(bool(outbox.parts) and not waits_for_piece)
        return True

    def _watch(self, waits: bool) -> None:
        """Ask the loop to call when the socket takes more, or to stop that."""
        if waits != self._waits:
            self._waits = waits
            if waits:
                self._loop.add_writer(self._outbox.fileno(), self.go_on)
            else:
                self._loop.remove_writer(self._outbox.fileno())

    def _take_piece(self, records: LazyRecords) -> bool:
        """Put the next piece in front of what is to be sent; false while it is being made."""
        piece = records.take(self.go_on)
        if piece is None:
            return False
        parts = self._outbox.parts
        if not len(records):
            parts.popleft()
        parts.appendleft(memoryview(piece))
        return True

    def stop(self) -> None:
        """Send nothing more, and let go of the descriptor; of one that a thread sends to, once it is done."""
        if self._stopped:
            return
        self._stopped = True
        self._watch(False)
        self.left = 0
        self._behind.clear()
        if not self._in_thread:
            self._outbox.close()
