"""Answers that the kernel sends from a file: their order, slow and vanishing peers, files that shrink."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.network import outbox, sending
from odradek.broker.network.connection import MAX_UNANSWERED, WRITE_HIGH_WATER, Connection
from odradek.broker.network.limits import NetworkLimits
from odradek.broker.network.outbox import send_parts
from odradek.broker.network.server import Listener
from odradek.log.storage.files import FileRange
from odradek.log.storage.real_files import RealFileSystem
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from seeds import each_seed

from ..net import at_rest, connect, listening, read_eof, read_response, request, run, settle

LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
MIB = 1024 * 1024


class FetchesOfAFile:
    """A handler: `max_bytes` says how many bytes to answer, `min_bytes` where they begin.

    `max_wait_ms` is 0 for a range of the file, 1 for the same bytes in memory, 2 for a later answer with
    both in turns.
    """

    def __init__(self, folder: Path, size: int, seed: int = 1) -> None:
        self.content = random.Random(seed).randbytes(size)
        self.files = RealFileSystem()
        self.path = folder / "records"
        self.path.write_bytes(self.content)
        self.file = self.files.open(self.path)
        self.served = 0

    def range(self, position: int, size: int) -> FileRange:
        return self.file.range(size, position)

    def bytes(self, position: int, size: int) -> bytes:
        return self.content[position : position + size]

    def __call__(self, context: Any, message: FetchRequest) -> Any:
        self.served += 1
        position, size = message.min_bytes, message.max_bytes
        records: list[Any]
        if message.max_wait_ms == 0:
            records = [self.range(position, size)]
        elif message.max_wait_ms == 1:
            records = [self.bytes(position, size)]
        else:
            step = max(1, size // 7)
            records = [
                (self.range if number % 2 else self.bytes)(at, min(step, position + size - at))
                for number, at in enumerate(range(position, position + size, step))
            ]
        data = [PartitionData(high_watermark=1, records=one) for one in records]
        response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])
        if message.max_wait_ms < 2:
            return response
        future: Promise[Any] = Promise(asyncio.get_running_loop())
        asyncio.get_running_loop().call_soon(lambda: future.done() or future.set_result(response))
        return future


@asynccontextmanager
async def served(
    handler: FetchesOfAFile,
) -> AsyncIterator[tuple[Listener, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A listener that answers fetches, and a connection to it."""
    async with listening({ApiKey.FETCH: handler}) as listener:
        reader, writer = await connect(listener)
        yield listener, reader, writer
        writer.close()


def ask(number: int, position: int, size: int, kind: int = 0) -> bytes:
    message = FetchRequest(max_wait_ms=kind, min_bytes=position, max_bytes=size, topics=[])
    return request(message, 4, number)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    number, response = await read_response(reader, ApiKey.FETCH, 4)
    return number, b"".join(bytes(one.records) for one in response.responses[0].partitions)


def only(listener: Listener) -> Connection:
    (connection,) = listener.connections
    return connection


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def is_open(path: Path) -> bool:
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if str(link.readlink()).startswith(str(path)):
                return True
    return False


@LOOPS
@each_seed(4)
def test_answers_of_every_kind_leave_in_order(loop: str, seed: int, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 3 * MIB)

    async def main() -> None:
        chance = random.Random(seed)
        async with served(handler) as (listener, reader, writer):
            asked = []
            for number in range(120):
                size = chance.choice((0, 1, 100, 70_000, MIB, 2 * MIB))
                position = chance.randrange(len(handler.content) - size)
                asked.append((position, size))
                writer.write(ask(number, position, size, chance.choice((0, 0, 1, 2))))
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
            for number, (position, size) in enumerate(asked):
                if chance.random() < 0.1:
                    await asyncio.sleep(0.002)
                got, content = await answer(reader)
                assert got == number
                assert content == handler.content[position : position + size]
            await settle(lambda: only(listener).idle)
            assert listener.queued_bytes == 0
            writer.close()
            await settle(lambda: not listener.connections)

    run(main, loop)
    handler.file.close()
    assert not is_open(handler.path)


@LOOPS
@pytest.mark.parametrize("kind", [0, 2])
def test_a_peer_that_does_not_read_stops_being_served(loop: str, kind: int, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, MIB)

    async def main() -> None:
        async with served(handler) as (_, reader, writer):
            total = 300
            writer.write(b"".join(ask(number, 0, MIB, kind) for number in range(total)))
            await writer.drain()
            await settle(lambda: handler.served > 0)
            # Those in work at once would all have been taken up before the first of them is sent.
            assert await at_rest(lambda: handler.served) < (MAX_UNANSWERED if kind == 0 else total)
            for number in range(total):
                got, content = await answer(reader)
                assert got == number
                assert content == handler.content
            assert handler.served == total

    run(main, loop)


@LOOPS
def test_a_range_waits_for_what_the_transport_still_has_to_send(loop: str, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 8 * MIB)

    async def main() -> None:
        async with served(handler) as (listener, reader, writer):
            # More than the socket takes, less than would stop the serving; then ranges and bytes behind it.
            sizes = [(900_000, 1), (8 * MIB, 0), (100, 1), (100_000, 0), (100, 1)]
            for number, (size, kind) in enumerate(sizes):
                writer.write(ask(number, 0, size, kind))
            await settle(lambda: handler.served >= 2)
            for number, (size, _) in enumerate(sizes):
                assert await answer(reader) == (number, handler.content[:size])
            # Afterwards the transport has its limits again: as much may wait as before.
            await settle(lambda: only(listener).unsent_bytes == 0)
            writer.write(b"".join(ask(number, 0, 100_000, 1) for number in range(400)))
            await settle(lambda: only(listener).unsent_bytes > WRITE_HIGH_WATER // 4)

    run(main, loop)


@LOOPS
def test_a_file_that_has_become_shorter_closes_the_connection(
    loop: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = FetchesOfAFile(tmp_path, MIB)

    async def main() -> None:
        async with served(handler) as (listener, reader, writer):
            os.truncate(handler.path, 300_000)
            writer.write(ask(1, 0, MIB) + ask(2, 0, 100, 1))
            got = await read_eof(reader)
            assert 300_000 <= len(got) < 300_100
            await settle(lambda: not listener.connections)
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(main, loop)
    assert "the file ended" in caplog.text


@LOOPS
def test_a_file_that_is_closed_or_deleted_is_sent_to_its_end(loop: str, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 4 * MIB)

    async def main() -> None:
        async with served(handler) as (_, reader, writer):
            writer.write(ask(1, 0, 4 * MIB))
            await settle(lambda: handler.served == 1)
            handler.path.unlink()
            handler.file.close()
            assert await answer(reader) == (1, handler.content)
            writer.close()

    assert is_open(handler.path)
    run(main, loop)
    assert not is_open(handler.path)


@LOOPS
@pytest.mark.parametrize("how", ["close", "abort"])
def test_a_peer_that_goes_leaves_nothing_behind(loop: str, how: str, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 4 * MIB)

    async def main() -> None:
        async with listening({ApiKey.FETCH: handler}) as listener:
            before = 0
            for _ in range(12):
                _, writer = await connect(listener)
                writer.write(ask(1, 0, 4 * MIB) + ask(2, 0, 100, 1))
                await settle(lambda: bool(listener.connections) and only(listener).unsent_bytes > 0)
                getattr(writer if how == "close" else writer.transport, how)()
                await settle(lambda: not listener.connections)
                # The loop itself opens something with the first one, of which both ends may still be open.
                before = before or descriptors()
            assert listener.queued_bytes == 0
            await settle(lambda: descriptors() <= before)

    run(main, loop)


@LOOPS
def test_closing_waits_until_what_was_answered_is_sent(loop: str, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 4 * MIB)

    async def main() -> None:
        async with served(handler) as (listener, reader, writer):
            writer.write(ask(1, 0, 4 * MIB))
            await settle(lambda: bool(listener.connections) and only(listener).unsent_bytes > 0)
            listener.close_connections()
            assert await answer(reader) == (1, handler.content)
            assert await read_eof(reader) == b""

    run(main, loop)


@LOOPS
def test_a_peer_that_stops_reading_is_idle(loop: str, tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 8 * MIB)

    async def main() -> None:
        async with listening({ApiKey.FETCH: handler}, NetworkLimits(idle_ms=100)) as listener:
            reader, writer = await connect(listener)
            writer.write(ask(1, 0, 8 * MIB))
            await settle(lambda: handler.served == 1 and not listener.connections)
            assert len(await read_eof(reader)) < 8 * MIB
            writer.close()

    run(main, loop)


@LOOPS
def test_other_transports_get_the_bytes(loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = FetchesOfAFile(tmp_path, MIB)
    monkeypatch.setattr("odradek.broker.network.connection.can_send_ranges", lambda _: False)
    monkeypatch.setattr("odradek.broker.network.connection.FileSender", None)

    async def main() -> None:
        async with served(handler) as (_, reader, writer):
            writer.write(ask(1, 0, MIB) + ask(2, 5, 100_000, 2))
            assert await answer(reader) == (1, handler.content)
            assert await answer(reader) == (2, handler.content[5:100_005])

    run(main, loop)


@LOOPS
@pytest.mark.parametrize("by_the_kernel", [True, False])
def test_a_peer_that_reads_a_long_answer_is_not_idle(
    loop: str, by_the_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = FetchesOfAFile(tmp_path, 32 * MIB)
    if not by_the_kernel:
        monkeypatch.setattr("odradek.broker.network.connection.can_send_ranges", lambda _: False)

    async def main() -> None:
        async with served(handler) as (listener, reader, writer):
            writer.write(ask(1, 0, 32 * MIB))
            await settle(lambda: bool(listener.connections) and only(listener).unsent_bytes > 0)
            connection = only(listener)
            connection.active_at = 0.0
            await reader.readexactly(16 * MIB)
            assert connection.active_at > 0
            await reader.readexactly(16 * MIB)

    run(main, loop)


class SlowDisk:
    """Stands in for `send_parts`: waits until it is told to go on."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> int:
        self.asked.set()
        assert self.go.wait(60)
        return send_parts(*arguments)


@LOOPS
def test_nobody_waits_for_the_disk_of_another(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = FetchesOfAFile(tmp_path, MIB)
    disk = SlowDisk()
    monkeypatch.setattr(outbox, "send_parts", disk)

    async def main() -> None:
        async with served(handler) as (listener, reader, writer):
            writer.write(ask(1, 0, 300_000))
            await settle(disk.asked.is_set)
            writer.write(ask(2, 5, 1000, 1) + ask(3, 7, 200_000, 2))
            other_reader, other = await connect(listener)
            other.write(ask(4, 0, 100, 1))
            assert await answer(other_reader) == (4, handler.content[:100])
            await settle(lambda: handler.served == 4)
            disk.go.set()
            assert await answer(reader) == (1, handler.content[:300_000])
            assert await answer(reader) == (2, handler.content[5:1005])
            assert await answer(reader) == (3, handler.content[7:200_007])
            writer.close()
            other.close()

    run(main, loop)
    handler.file.close()
    assert not is_open(handler.path)


@LOOPS
@pytest.mark.parametrize("how", ["close", "abort", "broker"])
def test_a_peer_that_goes_while_the_disk_is_waited_for(
    loop: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = FetchesOfAFile(tmp_path, MIB)
    disk = SlowDisk()
    monkeypatch.setattr(outbox, "send_parts", disk)

    async def main() -> None:
        async with listening({ApiKey.FETCH: handler}) as listener:
            _, writer = await connect(listener)
            writer.write(ask(1, 0, 300_000) + ask(2, 0, 100, 1))
            await settle(disk.asked.is_set)
            before = descriptors()
            if how == "broker":
                listener.abort_connections()
            else:
                getattr(writer if how == "close" else writer.transport, how)()
            await settle(lambda: not listener.connections)
            disk.go.set()
            writer.close()
            # Both ends, and the sender's own.
            await settle(lambda: descriptors() <= before - 3)

    run(main, loop)
    handler.file.close()
    assert not is_open(handler.path)


def test_who_can_send_ranges() -> None:
    class Transport:
        def __init__(self, **extra: object) -> None:
            self.get_extra_info = extra.get

    assert sending.can_send_ranges(Transport(socket=object()))  # type: ignore[arg-type]
    assert not sending.can_send_ranges(Transport(socket=object(), sslcontext=object()))  # type: ignore[arg-type]
    assert not sending.can_send_ranges(Transport())  # type: ignore[arg-type]


def test_without_sendfile_the_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = FetchesOfAFile(tmp_path, 2 * MIB)
    calls = 0

    def refuse(out: int, parts: list[Any], *how: int) -> int:
        nonlocal calls
        in_memory = list(takewhile(lambda one: not isinstance(one, tuple), parts))
        if in_memory:
            return send_parts(out, in_memory, *how)
        calls += 1
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(outbox, "send_parts", refuse)

    async def main() -> None:
        async with served(handler) as (_, reader, writer):
            writer.write(ask(1, 0, 2 * MIB) + ask(2, 7, MIB))
            assert await answer(reader) == (1, handler.content)
            assert await answer(reader) == (2, handler.content[7 : MIB + 7])

    run(main)
    assert calls == 2


def test_a_range_reads_itself(tmp_path: Path) -> None:
    handler = FetchesOfAFile(tmp_path, 1000)
    assert handler.range(10, 20).read() == handler.content[10:30]
    assert handler.range(10, 0).read() == b""
    with pytest.raises(OSError, match="ends at 1000"):
        handler.range(990, 20).read()
    handler.file.close()
    # Opened again, it has another descriptor.
    assert handler.range(0, 5).read() == handler.content[:5]


def test_without_a_descriptor_the_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = FetchesOfAFile(tmp_path, MIB)

    def refuse(_: int) -> int:
        raise OSError(24, "Too many open files")

    async def main() -> None:
        async with served(handler) as (_, reader, writer):
            monkeypatch.setattr(os, "dup", refuse)
            writer.write(ask(1, 0, MIB))
            assert await answer(reader) == (1, handler.content)

    run(main)


def test_frames_stay_whole_when_each_write_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = FetchesOfAFile(tmp_path, 200_000)
    chance = random.Random(5)

    def little(out: int, parts: list[Any], most: int, patience_ms: int) -> int:
        if chance.random() < 0.3:
            raise BlockingIOError
        return send_parts(out, parts, min(most, chance.randrange(1, 5000)), patience_ms)

    monkeypatch.setattr(outbox, "send_parts", little)

    async def main() -> None:
        async with served(handler) as (_, reader, writer):
            for number in range(10):
                writer.write(ask(number, number, 100_000, chance.choice((0, 2))))
            for number in range(10):
                assert await answer(reader) == (number, handler.content[number : number + 100_000])

    run(main)
