"""Frames cut out of a stream: whatever the pieces, the same frames, and memory bound by what has arrived."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.core.inbound import InboundFrames
from odradek.errors import ProtocolError

sizes = st.integers(0, 40) | st.integers(8_000, 9_000) | st.integers(60_000, 70_000) | st.just(600_000)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def pour(reader: InboundFrames, stream: bytes, pieces: list[int]) -> list[bytes]:
    """Write the stream piece by piece; the frames, which must stay as they were when they came."""
    frames: list[memoryview | bytes] = []
    seen: list[bytes] = []
    at = 0
    while at < len(stream):
        space = reader.space()
        assert len(space) > 0
        count = min(len(space), pieces[at % len(pieces)], len(stream) - at)
        space[:count] = stream[at : at + count]
        del space
        at += count
        new = reader.written(count)
        frames += new
        seen += [bytes(frame) for frame in new]
    assert [bytes(frame) for frame in frames] == seen, "a frame changed after it was handed out"
    return seen


@settings(max_examples=60, deadline=None)
@given(
    st.lists(sizes, max_size=6),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=5),
    st.integers(0, 255),
)
def test_any_pieces_give_the_same_frames(lengths: list[int], pieces: list[int], fill: int) -> None:
    payloads = [bytes([(fill + n) % 256]) * length for n, length in enumerate(lengths)]
    reader = InboundFrames(1_000_000)
    if min(pieces) < 100:
        pieces = [piece * 100 for piece in pieces]
    assert pour(reader, b"".join(map(framed, payloads)), pieces) == payloads
    assert reader.held_bytes == 0


def test_single_bytes_give_frames_too() -> None:
    payloads = [b"", b"a", b"bc" * 20]
    assert pour(InboundFrames(100), b"".join(map(framed, payloads)), [1]) == payloads


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
def test_sizes_out_of_bounds_are_refused(size: int) -> None:
    reader = InboundFrames(100)
    reader.space()[:4] = struct.pack(">i", size)
    with pytest.raises(ProtocolError, match=str(abs(size))):
        reader.written(4)


def test_an_announcement_alone_holds_no_memory() -> None:
    reader = InboundFrames(2**31 - 1)
    reader.space()[:4] = struct.pack(">i", 2**31 - 1)
    assert reader.written(4) == []
    arrived = 4
    while arrived < 1_000_000:
        space = reader.space()
        assert arrived + len(space) <= max(64 * 1024, 8 * arrived)
        arrived += len(space)
        assert reader.written(len(space)) == []
    assert reader.held_bytes == arrived
