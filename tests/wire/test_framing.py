"""Frames come out whole and in order, however the stream was cut, and nothing is held that has not come."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.errors import ProtocolError
from odradek.wire import framing
from odradek.wire.framing import (
    LARGE_BYTES,
    SHARED_BYTES,
    SPARE_BUFFERS,
    SPARE_BYTES,
    FrameReceiver,
    ReceiveBuffers,
)


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def receiver(most: int = 100, buffers: ReceiveBuffers | None = None) -> FrameReceiver:
    return FrameReceiver(most, buffers or ReceiveBuffers())


def pour(into: FrameReceiver, data: bytes, at_once: int = 1 << 30) -> list[bytes]:
    """The frames of a stream that comes in pieces of at most that size, as copies."""
    found: list[bytes] = []
    while data:
        buffer = into.get_buffer()
        count = min(len(buffer), len(data), at_once)
        assert count > 0
        buffer[:count] = data[:count]
        found += [bytes(frame) for frame in into.received(count)]
        data = data[count:]
    return found


@settings(max_examples=150, deadline=None)
@given(
    frames=st.lists(st.binary(max_size=40), max_size=8),
    cuts=st.lists(st.integers(1, 30), min_size=1),
)
def test_any_cutting_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream, reader, found, turn = framed(*frames), receiver(), [], 0
    while stream:
        size = cuts[turn % len(cuts)]
        turn += 1
        found += pour(reader, stream[:size])
        stream = stream[size:]
        assert reader.held_bytes <= 44
    assert found == frames
    assert reader.held_bytes == 0


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(
        st.sampled_from([0, 1, 40, LARGE_BYTES - 5, LARGE_BYTES - 4, LARGE_BYTES, SHARED_BYTES - 4])
        | st.integers(0, 3 * SHARED_BYTES),
        max_size=6,
    ),
    cuts=st.lists(
        st.sampled_from([3, 4, 5, 4096, LARGE_BYTES, SHARED_BYTES, 1 << 30]) | st.integers(1, SHARED_BYTES),
        min_size=1,
        max_size=5,
    ),
    own=st.booleans(),
)
def test_frames_of_all_sizes_on_two_connections_at_once(sizes: list[int], cuts: list[int], own: bool) -> None:
    """Two streams turn about, so that what they share is overwritten between any two reads of one."""
    frames = [bytes([1 + index]) * size for index, size in enumerate(sizes)]
    streams = [framed(*frames), framed(*reversed(frames))]
    buffers = ReceiveBuffers()
    readers = [receiver(1 << 30, buffers), receiver(1 << 30, buffers)]
    found: list[list[bytes]] = [[], []]
    kept: list[list[object]] = [[], []]
    turn = 0
    while any(streams):
        for index, reader in enumerate(readers):
            piece = streams[index][: cuts[turn % len(cuts)]] if streams[index] else b""
            turn += 1
            if not piece:
                continue
            buffer = reader.get_buffer()
            count = min(len(buffer), len(piece))
            buffer[:count] = piece[:count]
            for frame in reader.received(count):
                found[index].append(bytes(frame))
                if own:
                    kept[index].append(reader.own(frame))
            reader.take_back()
            streams[index] = streams[index][count:]
    assert found == [frames, frames[::-1]]
    if own:
        assert [[bytes(one) for one in some] for some in kept] == found  # type: ignore[call-overload]
    assert readers[0].held_bytes == readers[1].held_bytes == 0


@pytest.mark.parametrize("whole", [True, False])
def test_a_negative_size_is_refused(whole: bool) -> None:
    reader = receiver()
    if not whole:
        assert pour(reader, b"\xff\xff\xff") == []
    with pytest.raises(ProtocolError, match="negative"):
        pour(reader, b"\xff\xff\xff\xff" if whole else b"\xff")


@pytest.mark.parametrize("whole", [True, False])
def test_a_size_above_the_maximum_is_refused_before_its_bytes_come(whole: bool) -> None:
    reader = receiver()
    if not whole:
        assert pour(reader, b"\0\0\0") == []
    with pytest.raises(ProtocolError, match="101 bytes"):
        pour(reader, b"\0\0\0\x65" if whole else b"\x65")


def test_a_size_above_the_maximum_is_refused_with_its_bytes() -> None:
    with pytest.raises(ProtocolError, match="101 bytes"):
        pour(receiver(), framed(bytes(101)))


def test_the_maximum_itself_is_taken() -> None:
    assert pour(receiver(3), framed(b"abc")) == [b"abc"]


def test_frames_before_a_bad_size_are_not_handed_out_late() -> None:
    """A bad size ends the stream: what came with it in one piece is not served either."""
    with pytest.raises(ProtocolError):
        pour(receiver(10), framed(b"ok") + b"\xff\xff\xff\xff")


def test_what_is_announced_takes_no_memory() -> None:
    reader = receiver(1 << 30)
    assert pour(reader, (1 << 30).to_bytes(4, "big") + b"x") == []
    assert reader.held_bytes == 5
    assert len(reader.large or b"") <= 4096
    assert pour(reader, bytes(100_000), at_once=1000) == []
    assert reader.held_bytes == 100_005
    assert len(reader.large or b"") <= 2 * 100_001


def test_the_buffer_of_a_large_frame_is_used_again_unless_it_is_kept() -> None:
    buffers = ReceiveBuffers()
    reader = receiver(1 << 30, buffers)
    pour(reader, framed(bytes(500_000)))
    first = reader.lent
    assert first is not None
    reader.take_back()
    (frame,) = take(reader, framed(b"\1" * 500_000))
    assert frame.obj is first
    kept = reader.own(frame)
    assert (kept.obj, kept.readonly) == (frame.obj, True)
    reader.take_back()
    pour(reader, framed(b"\2" * 500_000))
    assert bytes(kept) == b"\1" * 500_000


def take(reader: FrameReceiver, data: bytes) -> list[memoryview]:
    """As `pour`, for one frame; the frame itself."""
    while True:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        frames = reader.received(count)
        data = data[count:]
        if frames or not data:
            return frames


def test_a_small_frame_that_is_owned_is_a_copy() -> None:
    reader = receiver()
    (frame,) = take(reader, framed(b"first"))
    kept = reader.own(frame)
    take(reader, framed(b"other"))
    assert kept == b"first"


def test_few_buffers_are_kept_and_no_giant() -> None:
    buffers = ReceiveBuffers()
    readers = [receiver(1 << 30, buffers) for _ in range(2 * SPARE_BUFFERS)]
    for reader in readers:
        pour(reader, framed(bytes(300_000)))
    for reader in readers:
        reader.close()
    assert len(buffers.spare) == SPARE_BUFFERS
    reader = readers[0]
    pour(reader, framed(bytes(SPARE_BYTES + 1)), at_once=1 << 16)
    reader.close()
    assert all(len(spare) <= SPARE_BYTES for spare in buffers.spare)
    assert len(buffers.spare) == SPARE_BUFFERS


def test_behind_a_large_frame_little_is_read_into_the_shared_buffer() -> None:
    """What arrived there has to be moved when it is the beginning of the next large frame."""
    reader = receiver(1 << 30)
    pour(reader, framed(bytes(300_000)))
    assert len(reader.get_buffer()) == framing.AFTER_LARGE_BYTES
    pour(reader, framed(b"small"))
    assert len(reader.get_buffer()) == SHARED_BYTES


def test_a_connection_that_ends_within_a_large_frame_gives_its_buffer_back() -> None:
    buffers = ReceiveBuffers()
    reader = receiver(1 << 30, buffers)
    pour(reader, framed(bytes(300_000))[:-1])
    reader.close()
    assert reader.held_bytes == 0
    assert len(buffers.spare) == 1
