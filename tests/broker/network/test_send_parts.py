"""Bytes and ranges of files sent into sockets, by the compiled loop and by its twin."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.network import _pysending
from seeds import each_seed
from waiting import joined

from ..twins import twins

MODULES = twins(_pysending, "odradek.broker.network._sending")
SendParts = Callable[[int, list[Any], int, int], int]
CONTENT = random.Random(7).randbytes(3_000_000)


@pytest.fixture(params=MODULES)
def send_parts(request: pytest.FixtureRequest) -> SendParts:
    function: SendParts = request.param.send_parts
    return function


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "records"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_what_the_socket_takes_is_sent(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    assert send_parts(near.fileno(), [(file, 5, 1000)], 1000, 0) == 1000
    assert far.recv(2000) == CONTENT[5:1005]
    assert send_parts(near.fileno(), [], 0, 0) == 0
    position = 0
    got = b""
    while position < len(CONTENT):
        sent = send_parts(
            near.fileno(), [(file, position, len(CONTENT) - position)], len(CONTENT) - position, 0
        )
        assert sent
        position += sent
        got += far.recv(sent, socket.MSG_WAITALL)
    assert got == CONTENT
    # The file's own position is nobody's business.
    assert os.lseek(file, 0, os.SEEK_CUR) == 0


@pytest.mark.parametrize("most", [1, 4, 5, 304, 305, 311, 2_000_000, 3_000_000])
def test_parts_leave_one_behind_the_other(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket], most: int
) -> None:
    near, far = pair
    parts = [
        b"head",
        (file, 7, 300),
        memoryview(b"a bit"),
        b"more",
        (file, 9, 2_500_000),
        (file, 0, 3),
        bytearray(b"end"),
    ]
    whole = b"".join(CONTENT[one[1] : one[1] + one[2]] if isinstance(one, tuple) else one for one in parts)
    got: list[bytes] = []
    wanted = min(most, len(whole))
    reader = threading.Thread(target=lambda: got.append(far.recv(wanted, socket.MSG_WAITALL)))
    reader.start()
    sent = send_parts(near.fileno(), parts, most, 30_000)
    joined(reader)
    assert sent == wanted
    assert got == [whole[:wanted]]


@each_seed(20)
def test_any_parts_leave_as_far_as_is_asked(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket], seed: int
) -> None:
    near, far = pair
    chance = random.Random(seed)
    parts: list[Any] = []
    expected = []
    for _ in range(chance.randint(1, _pysending.MOST_PARTS)):
        position = chance.randrange(len(CONTENT) - 50_000)
        size = chance.choice([1, 2, 100, 4096, chance.randint(1, 50_000)])
        piece = CONTENT[position : position + size]
        form = chance.choice([bytes, bytearray, memoryview, None])
        parts.append((file, position, size) if form is None else form(piece))
        expected.append(piece)
    whole = b"".join(expected)
    most = chance.choice([len(whole), chance.randint(1, len(whole)), len(whole) + 1])
    wanted = min(most, len(whole))
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(far.recv(wanted, socket.MSG_WAITALL)))
    reader.start()
    sent = send_parts(near.fileno(), parts, most, 30_000)
    joined(reader)
    assert sent == wanted
    assert got == [whole[:wanted]]


@pytest.mark.parametrize("patience_ms", [0, 1])
def test_a_full_socket_is_said_to_be_full(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket], patience_ms: int
) -> None:
    near, _ = pair
    sent = send_parts(near.fileno(), [(file, 0, len(CONTENT))], len(CONTENT), patience_ms)
    assert 0 < sent < len(CONTENT)
    with pytest.raises(BlockingIOError):
        while True:
            send_parts(near.fileno(), [(file, 0, len(CONTENT))], len(CONTENT), patience_ms)


def test_with_patience_a_reader_gets_all_of_it(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(far.recv(len(CONTENT), socket.MSG_WAITALL)))
    reader.start()
    sent = send_parts(near.fileno(), [(file, 0, len(CONTENT))], len(CONTENT), 30_000)
    joined(reader)
    assert sent == len(CONTENT)
    assert got == [CONTENT]


def test_a_file_that_ends_early(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, _ = pair
    os.ftruncate(file, 700)
    assert send_parts(near.fileno(), [(file, 0, 1000)], 1000, 1) == 700
    assert send_parts(near.fileno(), [(file, 700, 300)], 300, 1) == 0


def test_what_went_wrong_comes_after_what_went_well(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    far.close()
    with pytest.raises(BrokenPipeError):
        send_parts(near.fileno(), [(file, 0, 1000)], 1000, 1)
    with pytest.raises(OSError, match=r".*") as raised:
        send_parts(near.fileno(), [(10**6, 0, 1000)], 1000, 1)
    assert raised.value.errno == 9


def test_a_peer_that_goes_in_the_middle(
    send_parts: SendParts, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair

    def read_a_little() -> None:
        far.recv(300_000, socket.MSG_WAITALL)
        far.close()

    reader = threading.Thread(target=read_a_little)
    reader.start()
    sent = send_parts(near.fileno(), [(file, 0, len(CONTENT))], len(CONTENT), 30_000)
    joined(reader)
    assert 300_000 <= sent < len(CONTENT)
    with pytest.raises(BrokenPipeError):
        send_parts(near.fileno(), [(file, sent, len(CONTENT) - sent)], len(CONTENT) - sent, 30_000)
