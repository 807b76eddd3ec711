"""Frames come out whole and in order, however the stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.errors import ProtocolError
from odradek.wire.framing import FrameReader


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@settings(max_examples=150, deadline=None)
@given(
    frames=st.lists(st.binary(max_size=40), max_size=8),
    cuts=st.lists(st.integers(1, 30), min_size=1),
    wrap=st.sampled_from([bytes, bytearray, memoryview]),
)
def test_any_cutting_gives_the_same_frames(frames: list[bytes], cuts: list[int], wrap: type) -> None:
    stream, reader, found, turn = framed(*frames), FrameReader(100), [], 0
    while stream:
        size = cuts[turn % len(cuts)]
        turn += 1
        found += [bytes(frame) for frame in reader.feed(wrap(stream[:size]))]
        stream = stream[size:]
        assert reader.held_bytes <= 104
    assert found == frames
    assert reader.held_bytes == 0


def test_frames_outlive_the_callers_buffer() -> None:
    buffer = bytearray(framed(b"first", b"second") + b"\0\0")
    frames = FrameReader(100).feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert [bytes(frame) for frame in frames] == [b"first", b"second"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_negative_size_is_refused(whole: bool) -> None:
    reader = FrameReader(100)
    if not whole:
        assert reader.feed(b"\xff\xff\xff") == []
    with pytest.raises(ProtocolError, match="negative"):
        reader.feed(b"\xff\xff\xff\xff" if whole else b"\xff")


@pytest.mark.parametrize("whole", [True, False])
def test_a_size_above_the_maximum_is_refused_before_its_bytes_come(whole: bool) -> None:
    reader = FrameReader(100)
    if not whole:
        assert reader.feed(b"\0\0\0") == []
    with pytest.raises(ProtocolError, match="101 bytes"):
        reader.feed(b"\0\0\0\x65" if whole else b"\x65")


def test_the_maximum_itself_is_taken() -> None:
    assert FrameReader(3).feed(framed(b"abc")) == [b"abc"]


def test_frames_before_a_bad_size_are_not_handed_out_late() -> None:
    """A bad size ends the stream: what came with it in one piece is not served either."""
    with pytest.raises(ProtocolError):
        FrameReader(10).feed(framed(b"ok") + b"\xff\xff\xff\xff")


def test_a_large_frame_costs_one_copy_not_one_per_piece() -> None:
    """Pieces are appended to one growing buffer; only the whole is looked at again."""
    reader = FrameReader(1 << 20)
    frame = bytes(1 << 20)
    stream = framed(frame)
    for start in range(0, len(stream), 1 << 16):
        frames = reader.feed(stream[start : start + (1 << 16)])
    assert frames == [frame]
