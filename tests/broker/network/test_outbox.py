"""Outboxes and the threads that write them: what is sent, by whom, and what happens at the end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.broker.network import outbox as outboxes
from odradek.broker.network.outbox import TURN_BYTES, Outbox, SendingThreads
from odradek.log.storage.files import FileRange
from odradek.log.storage.real_files import RealFileSystem
from waiting import joined

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def ranges(tmp_path: Path) -> Iterator[Callable[[int, int], FileRange]]:
    path = tmp_path / "records"
    path.write_bytes(CONTENT)
    file = RealFileSystem().open(path)
    yield lambda position, size: file.range(size, position)
    file.close()


def drain(outbox: Outbox, far: socket.socket) -> bytes:
    """All of it, as the peer reads it."""
    got = b""
    while outbox.parts:
        outbox.write()
        assert outbox.error is None
        assert outbox.sent
        got += far.recv(outbox.sent, socket.MSG_WAITALL)
    return got


def test_bytes_and_ranges_leave_in_order(
    pair: tuple[socket.socket, socket.socket], ranges: Callable[[int, int], FileRange]
) -> None:
    outbox = Outbox(pair[0])
    parts: list[bytes | FileRange] = [
        b"head",
        ranges(3, 300_000),
        b"x" * 70_000,
        ranges(0, 1),
        ranges(9, 400_000),
        b"end",
    ]
    outbox.parts.extend(parts)
    whole = b"".join(one.read() if isinstance(one, FileRange) else one for one in parts)
    assert drain(outbox, pair[1]) == whole


def test_the_range_that_comes_next(
    pair: tuple[socket.socket, socket.socket], ranges: Callable[[int, int], FileRange]
) -> None:
    outbox = Outbox(pair[0])
    assert outbox.first_range_bytes() == 0
    outbox.parts.extend([b"head", ranges(0, 500), ranges(0, 900)])
    assert outbox.first_range_bytes() == 500
    outbox.parts.popleft()
    assert outbox.first_range_bytes() == 500
    outbox.parts.extendleft([b"1", b"2"])
    assert outbox.first_range_bytes() == 0


def test_what_is_wrong_is_kept(pair: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(CONTENT)
    file = RealFileSystem().open(path)
    outbox = Outbox(pair[0])
    outbox.parts.append(file.range(len(CONTENT), 0))
    path.write_bytes(CONTENT[:1000])
    outbox.write()
    assert outbox.sent == 1000
    outbox.write()
    assert (outbox.sent, type(outbox.error)) == (0, OSError)
    file.close()
    pair[1].close()
    other = Outbox(pair[0])
    other.parts.append(b"nobody reads it")
    other.write()
    assert isinstance(other.error, BrokenPipeError)


def test_a_turn_has_an_end(
    ranges: Callable[[int, int], FileRange],
    pair: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outboxes, "send_parts", lambda out, parts, most, patience: most)
    outbox = Outbox(pair[0])
    outbox.parts.extend(ranges(0, len(CONTENT)) for _ in range(10))
    outbox.write()
    assert outbox.sent == TURN_BYTES
    assert len(outbox.parts) == 10 - TURN_BYTES // len(CONTENT)


class Held(Outbox):
    """Is written when the test lets it."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.begun, self.go, self.done = threading.Event(), threading.Event(), threading.Event()

    def write(self, patience_ms: int = 0) -> None:
        self.begun.set()
        assert self.go.wait(60)
        super().write(patience_ms)


def test_threads_begin_when_they_are_wanted_and_end_on_demand() -> None:
    others = set(threading.enumerate())
    threads = SendingThreads(2)
    pairs = [socket.socketpair() for _ in range(3)]
    held = [Held(near) for near, _ in pairs]
    for number, outbox in enumerate(held):
        outbox.parts.append(b"%d" % number)
        threads.write(outbox, outbox.done.set)
    assert held[0].begun.wait(30)
    assert held[1].begun.wait(30)
    assert not held[2].begun.is_set()
    begun = set(threading.enumerate()) - others
    assert len(begun) == 2
    for outbox in held:
        outbox.go.set()
    for number, ((_, far), outbox) in enumerate(zip(pairs, held, strict=True)):
        assert outbox.done.wait(30)
        assert far.recv(10) == b"%d" % number
        threads.finished()
    # One at a time is enough for what comes one at a time.
    threads.resize(1)
    for _ in range(3):
        again = Held(pairs[0][0])
        again.go.set()
        threads.write(again, again.done.set)
        assert again.done.wait(30)
        threads.finished()
    threads.close()
    assert not any(one.is_alive() for one in begun)
    for near, far in pairs:
        near.close()
        far.close()


def test_without_a_loop_to_come_back_to_the_descriptor_is_let_go() -> None:
    threads = SendingThreads(1)
    near, far = socket.socketpair()
    outbox = Outbox(near)
    outbox.parts.append(b"last words")

    def gone() -> None:
        raise RuntimeError("Event loop is closed")

    threads.write(outbox, gone)
    assert far.recv(100) == b"last words"
    threads.close()
    assert near.fileno() == -1
    far.close()


def test_a_thread_waits_for_a_reader_that_reads_on(
    pair: tuple[socket.socket, socket.socket], ranges: Callable[[int, int], FileRange]
) -> None:
    near, far = pair
    outbox = Outbox(near)
    outbox.parts.append(ranges(0, len(CONTENT)))
    outbox.write()
    assert 0 < outbox.sent < len(CONTENT)
    already = outbox.sent
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(far.recv(len(CONTENT), socket.MSG_WAITALL)))
    reader.start()
    outbox.write(30_000)
    joined(reader)
    assert already + outbox.sent == len(CONTENT)
    assert got == [CONTENT]
    # And no longer than it is told for one that does not.
    outbox.parts.append(ranges(0, len(CONTENT)))
    outbox.write(1)
    assert outbox.sent < len(CONTENT)
    assert outbox.error is None
