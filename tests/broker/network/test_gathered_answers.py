"""Answers to what came in one read leave together: in how many writes, in which order, and at an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.network.connection import GATHERED_BYTES, Connection
from odradek.broker.network.server import Listener
from odradek.util.gathered_writes import Writelines
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

from ..net import connect, listening, read_eof, read_response, request, run, settle

LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


class Writes:
    """A transport that counts."""

    def __init__(self, transport: asyncio.Transport, writelines: Writelines) -> None:
        self._transport = transport
        self._writelines = writelines
        self.sizes: list[int] = []

    def write(self, data: Any) -> None:
        self.sizes.append(len(data))
        self._transport.write(data)

    def writelines(self, parts: list[Any]) -> None:
        self.sizes.append(sum(map(len, parts)))
        self._writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def watched(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Writes]:
    """A connection, and what is written to it."""
    reader, writer = await connect(listener)
    writer.write(heartbeat(0))
    await read_response(reader, ApiKey.HEARTBEAT, 0)
    (connection,) = listener.connections
    assert isinstance(connection, Connection)
    transport: Any = connection._transport
    writes = Writes(transport, connection._writelines)
    connection._transport = writes  # type: ignore[assignment]
    connection._writelines = writes.writelines  # type: ignore[assignment]
    return reader, writer, writes


def heartbeat(number: int, group: str = "") -> bytes:
    return request(HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 0, number)


KEPT: list[Promise] = []
"""What waits for a request that has it answered."""


def answer_heartbeat(context: Any, message: HeartbeatRequest) -> Any:
    context.close_connection = message.group_id.startswith("close")
    if message.group_id == "close silently":
        return None
    if message.group_id == "kept":
        promise: Promise[Any] = Promise(asyncio.get_running_loop())
        KEPT.append(promise)
        return promise
    if message.group_id == "answer what is kept":
        while KEPT:
            KEPT.pop(0).set_result(HeartbeatResponse(error_code=0))
    if message.group_id == "later":
        future: Promise[Any] = Promise(asyncio.get_running_loop())
        asyncio.get_running_loop().call_soon(future.set_result, HeartbeatResponse(error_code=0))
        return future
    return HeartbeatResponse(error_code=0)


def answer_fetch(context: Any, message: FetchRequest) -> FetchResponse:
    data = PartitionData(high_watermark=1, records=bytes(message.max_bytes))
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def fetch(number: int, size: int) -> bytes:
    return request(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=size, topics=[]), 4, number)


HANDLERS = {ApiKey.HEARTBEAT: answer_heartbeat, ApiKey.FETCH: answer_fetch}


@LOOPS
def test_what_came_together_is_answered_together(loop: str) -> None:
    async def main() -> None:
        async with listening(HANDLERS) as listener:
            reader, writer, writes = await watched(listener)
            writer.write(b"".join(heartbeat(number) for number in range(20)))
            for number in range(20):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            assert len(writes.sizes) == 1
            # And alone what came alone.
            writer.write(heartbeat(20))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 20
            assert writes.sizes == [writes.sizes[1] * 20, writes.sizes[1]]
            writer.close()

    run(main, loop)


@LOOPS
def test_no_more_is_kept_than_allowed(loop: str) -> None:
    async def main() -> None:
        async with listening(HANDLERS) as listener:
            reader, writer, writes = await watched(listener)
            writer.write(b"".join(fetch(number, GATHERED_BYTES // 4) for number in range(30)) + heartbeat(30))
            for number in range(30):
                got, response = await read_response(reader, ApiKey.FETCH, 4)
                assert got == number
                assert bytes(response.responses[0].partitions[0].records) == bytes(GATHERED_BYTES // 4)
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 30
            assert 7 <= len(writes.sizes) <= 9
            assert max(writes.sizes) < GATHERED_BYTES * 1.3
            writer.close()

    run(main, loop)


@LOOPS
def test_answers_that_come_later_keep_the_order(loop: str) -> None:
    async def main() -> None:
        async with listening(HANDLERS) as listener:
            reader, writer, writes = await watched(listener)
            groups = ["", "", "later", "", "later", ""]
            writer.write(b"".join(heartbeat(number, group) for number, group in enumerate(groups)))
            for number in range(6):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            assert writes.sizes[0] == 2 * writes.sizes[1]
            writer.close()

    run(main, loop)


@LOOPS
def test_what_one_request_has_answered_on_another_connection_leaves_together(loop: str) -> None:
    async def main() -> None:
        async with listening(HANDLERS) as listener:
            reader, writer, writes = await watched(listener)
            writer.write(b"".join(heartbeat(number, "kept") for number in range(20)))
            await settle(lambda: len(KEPT) == 20)
            other_reader, other_writer = await connect(listener)
            other_writer.write(heartbeat(1, "answer what is kept"))
            for number in range(20):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            assert len(writes.sizes) == 1
            assert (await read_response(other_reader, ApiKey.HEARTBEAT, 0))[0] == 1
            # One that no request has answered leaves by itself.
            writer.write(heartbeat(20, "kept"))
            await settle(lambda: len(KEPT) == 1)
            KEPT.pop().set_result(HeartbeatResponse(error_code=0))
            assert len(writes.sizes) == 2
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 20
            writer.close()
            other_writer.close()

    run(main, loop)


ENDS = {
    "answered and closed": (heartbeat(3, "close"), 3),
    "closed without an answer": (heartbeat(3, "close silently"), 2),
    "no such key": (b"\0\0\0\x0a" + b"\x12\x34\0\0\0\0\0\1\xff\xff", 2),
}


@LOOPS
@pytest.mark.parametrize("end", ENDS)
def test_an_end_in_the_middle_lets_out_what_was_answered(loop: str, end: str) -> None:
    last, answers = ENDS[end]

    async def main() -> None:
        async with listening(HANDLERS) as listener:
            reader, writer, _ = await watched(listener)
            writer.write(heartbeat(1) + heartbeat(2) + last + heartbeat(4))
            for number in range(1, answers + 1):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            assert await read_eof(reader) == b""
            await settle(lambda: not listener.connections)
            assert listener.queued_bytes == 0
            writer.close()

    run(main, loop)
