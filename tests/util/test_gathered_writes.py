"""Several buffers in one write: flow control, empty buffers and lost connections, on both loops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from odradek.util.gathered_writes import Writelines, gathering_write
from waiting import within

HIGH_WATER = 100_000

LOOPS = pytest.mark.parametrize("factory", [uvloop.new_event_loop, None], ids=["uvloop", "stock"])


class Writer(asyncio.Protocol):
    """The writing end: what its transport has told it."""

    def __init__(self) -> None:
        self.pauses = 0
        self.resumed = asyncio.Event()
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        transport.set_write_buffer_limits(HIGH_WATER)
        self.write: Writelines = gathering_write(transport)

    def pause_writing(self) -> None:
        self.pauses += 1

    def resume_writing(self) -> None:
        self.resumed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Writer, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A writer, and the reader at the other end."""
    near, far = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, writer = await loop.create_connection(Writer, sock=near)
    reader, other = await asyncio.open_connection(sock=far)
    try:
        yield writer, reader, other
    finally:
        other.close()
        writer.transport.abort()
        await within(writer.lost.wait(), "the end of the connection")
        await other.wait_closed()


def run(factory: Any, main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(bounded())


@LOOPS
def test_a_peer_that_does_not_read_pauses_the_protocol_once_and_goes_on_later(factory: Any) -> None:
    async def main() -> None:
        async with connected() as (writer, reader, _):
            sent = 0
            while not writer.pauses:
                assert sent < 100_000_000, "never paused"
                writer.write([bytes(70_000), bytes(70_000)])
                sent += 140_000
            writer.write([b"one", b"more"])
            await reader.readexactly(sent)
            await within(writer.resumed.wait(), "the other side to read on")
            assert await reader.readexactly(7) == b"onemore"
            assert writer.pauses == 1
            assert writer.transport.get_write_buffer_limits()[1] == HIGH_WATER

    run(factory, main)


@LOOPS
@pytest.mark.parametrize("buffers", [[b"a", b""], [b"", b"a"], [b"", b"a", b"", memoryview(b"")]])
def test_empty_buffers_leave_nothing_behind(factory: Any, buffers: list[Any]) -> None:
    async def main() -> None:
        async with connected() as (writer, reader, _):
            writer.write(buffers)
            writer.write([b""])
            writer.write([])
            assert await reader.readexactly(1) == b"a"
            assert writer.transport.get_write_buffer_size() == 0
            writer.transport.close()
            await within(writer.lost.wait(), "the end of the connection")
            assert await reader.read() == b""

    run(factory, main)


@LOOPS
def test_what_is_written_to_a_connection_that_is_being_lost_is_dropped(factory: Any) -> None:
    async def main() -> None:
        async with connected() as (writer, _, _):
            descriptor = writer.transport.get_extra_info("socket").fileno()
            writer.transport.abort()
            writer.write([b"a", b"b"])
            await within(writer.lost.wait(), "the end of the connection")
            # A socket that gets this number next must not find that somebody waits for it already.
            assert not asyncio.get_running_loop().remove_writer(descriptor)

    run(factory, main)
