"""Records of a fetch response that are made while they are sent (KIP-283), one piece after the other.

Their size is known from the beginning. While one piece is being sent, the next is made in a thread; so much
is in memory of each response that is on its way, and no more.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from odradek.errors import KafkaError


class Threads(Protocol):
    """The threads that the pieces are made in."""

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Run `work` in a thread; the future is cancelled where it will not be."""
        ...


logger = logging.getLogger(__name__)


class LazyRecords:
    """`len` is the number of bytes that have not been taken yet.

    Args:
        pieces: gives that many bytes in all; walked in threads, and closed there or never.
        size: how many.
        threads: which.
        on_end: called when the last piece has been made.
    """

    __slots__ = ("_failed", "_left", "_on_end", "_on_ready", "_piece", "_pieces", "_running", "_threads")

    def __init__(
        self,
        pieces: Iterator[bytes],
        size: int,
        threads: Threads,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._pieces = pieces
        self._left = size
        self._threads = threads
        self._on_end = on_end
        self._piece: bytes | None = None
        self._failed: BaseException | None = None
        self._running = False
        self._on_ready: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self._left

    def take(self, on_ready: Callable[[], None]) -> bytes | None:
        """The next piece; None while it is being made: `on_ready` will be called.

        Raises:
            KafkaError: the records cannot be converted.
            OSError: they cannot be read; the broker stops; or something unforeseen, which is logged.
            EOFError: they are fewer bytes than was said.
        """
        if self._failed is not None:
            raise self._failed
        piece, self._piece = self._piece, None
        if piece is None:
            self._on_ready = on_ready
            self._begin()
            return None
        self._left -= len(piece)
        if self._left:
            self._begin()
        elif self._on_end is not None:
            self._on_end()
        return piece

    def _begin(self) -> None:
        if not self._running:
            self._running = True
            self._threads.run(self._next).add_done_callback(self._made)

    def _next(self) -> None:
        try:
            piece = next(self._pieces, b"")
            if not piece:
                raise EOFError(f"{self._left} bytes of converted records are missing")
            self._piece = piece
        except (KafkaError, OSError, EOFError) as error:
            self._failed = error
        except BaseException as error:
            # Senders end the connection upon what reading may raise; anything else would pass them by.
            logger.exception("unforeseen failure while records are converted")
            self._failed = OSError(errno.EIO, f"records could not be converted: {error}")

    def _made(self, done: asyncio.Future[None]) -> None:
        self._running = False
        if done.cancelled():
            # The threads are gone, or the peer is: nothing more is made.
            self._failed = OSError(errno.ECANCELED, "the broker stops, or the peer has gone")
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    def drop(self) -> None:
        """Nobody waits any more."""
        self._on_ready = None

    def read(self) -> bytes:
        """All of it at once, where the pieces cannot be sent one by one.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            whole = b"".join(self._pieces)
        except KafkaError as error:
            raise OSError(errno.EIO, f"records could not be converted: {error}") from error
        self._left = len(whole)
        if self._on_end is not None:
            self._on_end()
        return whole
