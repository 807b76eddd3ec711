"""What is unpacked on the event loop between two of its turns, in bytes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from odradek.broker.requests.peer import Peer
from odradek.records.builder import BatchBuilder
from odradek.records.codecs import TooLargeError, gzip, lz4, snappy, zstd
from odradek.records.compression import Codec
from odradek.util.clock import SystemClock
from records.message_set_builder import MessageSetBuilder

LARGE_BYTES = 16 * 1024 * 1024
"""What a packed batch unpacks to here; packed it is below a megabyte, mostly of some kilobytes."""

TIME_MS = SystemClock().now_ms()
"""Of its record."""

PACKED = [codec for codec in Codec if codec is not Codec.NONE]


@cache
def large_batch(codec: Codec) -> bytes:
    """A batch in order that unpacks to much."""
    builder = BatchBuilder(codec=codec)
    builder.append(TIME_MS, None, bytes(LARGE_BYTES), ())
    return bytes(builder.build())


@cache
def large_set(magic: int, codec: Codec, size: int = LARGE_BYTES) -> bytes:
    """A message set in one wrapper that unpacks to so many bytes, of 16 messages."""
    builder = MessageSetBuilder(magic, codec)
    for _ in range(16):
        builder.append(TIME_MS, None, bytes(size // 16))
    return bytes(builder.build())


def connected(name: str) -> Peer:
    """Whoever has sent something, and still waits for the answer."""
    peer = Peer("127.0.0.1", 1, name, "PLAINTEXT")
    peer.is_open = True
    return peer


Unpack = Callable[[memoryview, int], memoryview]
Pieces = Callable[[memoryview, int], Iterator[Any]]


class Unpacked:
    """Counts bytes.

    Attributes:
        most: the most between two turns of the loop so far.
        beside: all that other threads have unpacked.
    """

    def __init__(self) -> None:
        self.most = 0
        self.beside = 0
        self._now = 0
        self._thread = threading.get_ident()

    def count(self, size: int) -> None:
        """Note that so much has been unpacked here."""
        if threading.get_ident() == self._thread:
            self._now += size
        else:
            self.beside += size

    def counted(self, unpack: Unpack) -> Unpack:
        """The same function, whose results are counted."""

        def counting(data: memoryview, max_size: int) -> memoryview:
            try:
                found = unpack(data, max_size)
            except TooLargeError:
                self.count(max_size)
                raise
            self.count(len(found))
            return found

        return counting

    def counted_pieces(self, pieces: Pieces) -> Pieces:
        """The same for what unpacks piece by piece."""

        def counting(data: memoryview, max_size: int) -> Iterator[Any]:
            for piece in pieces(data, max_size):
                self.count(len(piece))
                yield piece

        return counting

    def turn(self) -> None:
        """The loop comes by."""
        self.most = max(self.most, self._now)
        self._now = 0


@contextmanager
def counting_unpacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unpacked]:
    """Count what is unpacked in the block; on asyncio's own loop."""
    unpacked = Unpacked()
    whole = asyncio.Handle._run

    def run_counted(handle: Any) -> None:
        try:
            whole(handle)
        finally:
            unpacked.turn()

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", run_counted)
        for form in (gzip, snappy, lz4, zstd):
            patched.setattr(form, "pieces", unpacked.counted_pieces(form.pieces))
            if form is not snappy:  # which unpacks by its pieces
                patched.setattr(form, "unpack", unpacked.counted(form.unpack))
        yield unpacked
