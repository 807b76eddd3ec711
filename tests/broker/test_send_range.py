"""Ranges of files sent into sockets, by the compiled loop and by its twin."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.broker.network import _pysending

from .twins import twins

MODULES = twins(_pysending, "odradek._sending")
SendRange = Callable[[int, int, int, int, int], int]
CONTENT = random.Random(7).randbytes(3_000_000)


@pytest.fixture(params=MODULES)
def send_range(request: pytest.FixtureRequest) -> SendRange:
    function: SendRange = request.param.send_range
    return function


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "records"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_what_the_socket_takes_is_sent(
    send_range: SendRange, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    assert send_range(near.fileno(), file, 5, 1000, 0) == 1000
    assert far.recv(2000) == CONTENT[5:1005]
    assert send_range(near.fileno(), file, 5, 0, 0) == 0
    position = 0
    got = b""
    while position < len(CONTENT):
        sent = send_range(near.fileno(), file, position, len(CONTENT) - position, 0)
        assert sent
        position += sent
        got += far.recv(sent, socket.MSG_WAITALL)
    assert got == CONTENT
    # The file's own position is nobody's business.
    assert os.lseek(file, 0, os.SEEK_CUR) == 0


@pytest.mark.parametrize("patience_ms", [0, 1])
def test_a_full_socket_is_said_to_be_full(
    send_range: SendRange, file: int, pair: tuple[socket.socket, socket.socket], patience_ms: int
) -> None:
    near, _ = pair
    sent = send_range(near.fileno(), file, 0, len(CONTENT), patience_ms)
    assert 0 < sent < len(CONTENT)
    with pytest.raises(BlockingIOError):
        while True:
            send_range(near.fileno(), file, 0, len(CONTENT), patience_ms)


def test_with_patience_a_reader_gets_all_of_it(
    send_range: SendRange, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(far.recv(len(CONTENT), socket.MSG_WAITALL)))
    reader.start()
    sent = send_range(near.fileno(), file, 0, len(CONTENT), 30_000)
    reader.join()
    assert sent == len(CONTENT)
    assert got == [CONTENT]


def test_a_file_that_ends_early(
    send_range: SendRange, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, _ = pair
    os.ftruncate(file, 700)
    assert send_range(near.fileno(), file, 0, 1000, 1) == 700
    assert send_range(near.fileno(), file, 700, 300, 1) == 0


def test_what_went_wrong_comes_after_what_went_well(
    send_range: SendRange, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair
    far.close()
    with pytest.raises(BrokenPipeError):
        send_range(near.fileno(), file, 0, 1000, 1)
    with pytest.raises(OSError, match=r".*") as raised:
        send_range(near.fileno(), 10**6, 0, 1000, 1)
    assert raised.value.errno == 9


def test_a_peer_that_goes_in_the_middle(
    send_range: SendRange, file: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    near, far = pair

    def read_a_little() -> None:
        far.recv(300_000, socket.MSG_WAITALL)
        far.close()

    reader = threading.Thread(target=read_a_little)
    reader.start()
    sent = send_range(near.fileno(), file, 0, len(CONTENT), 30_000)
    reader.join()
    assert 300_000 <= sent < len(CONTENT)
    with pytest.raises(BrokenPipeError):
        send_range(near.fileno(), file, sent, len(CONTENT) - sent, 30_000)
