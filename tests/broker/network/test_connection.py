"""Connections over real sockets: order, bad input, backpressure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from typing import Any

import pytest

from odradek.broker.apis.registry import Handler
from odradek.broker.network.connection import WRITE_HIGH_WATER
from odradek.broker.network.limits import NetworkLimits
from odradek.broker.network.server import AddressInUse, Listener
from odradek.errors import UnknownMemberIdError
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.metadata import MetadataRequest
from seeds import seed

from ..net import (
    answer_heartbeat,
    at_rest,
    connect,
    heartbeat,
    listening,
    read_eof,
    read_frame,
    read_response,
    request,
    run,
    settle,
)

LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


@LOOPS
def test_pipelined_requests_are_answered_in_order(loop: str) -> None:
    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:
            reader, writer = await connect(listener)
            writer.write(b"".join(heartbeat(number) for number in range(1000)))
            for number in range(1000):
                assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == number
            writer.close()
            await settle(lambda: not listener.connections)
            assert listener.queued_bytes == 0

    run(main, loop)


@LOOPS
def test_a_slow_request_holds_back_answers_but_not_processing(loop: str) -> None:
    async def main() -> None:
        waiting: dict[str, Promise[Any]] = {}
        seen: list[str] = []

        def handle(context: Any, message: HeartbeatRequest) -> Any:
            seen.append(message.group_id)
            if message.group_id.startswith("slow"):
                waiting[message.group_id] = Promise(asyncio.get_running_loop())
                return waiting[message.group_id]
            return HeartbeatResponse(error_code=0)

        async with listening({ApiKey.HEARTBEAT: handle}) as listener:
            reader, writer = await connect(listener)
            order = ["quick0", "slow1", "quick2", "slow3", "quick4"]
            writer.write(b"".join(heartbeat(number, name) for number, name in enumerate(order)))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 0
            await settle(lambda: seen == order)
            # The later one is ready first, and still leaves second.
            waiting["slow3"].set_result(HeartbeatResponse(error_code=3))
            await settle(lambda: waiting["slow3"].done())
            waiting["slow1"].set_result(HeartbeatResponse(error_code=1))
            got = [await read_response(reader, ApiKey.HEARTBEAT, 0) for _ in range(4)]
            assert [correlation for correlation, _ in got] == [1, 2, 3, 4]
            assert [message.error_code for _, message in got] == [1, 0, 3, 0]
            writer.close()

    run(main, loop)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 17, 31])
def test_a_frame_may_come_in_any_pieces(cut: int) -> None:
    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:
            reader, writer = await connect(listener)
            data = heartbeat(1) + heartbeat(2)
            for start in range(0, len(data), cut):
                writer.write(data[start : start + cut])
                await writer.drain()
                await asyncio.sleep(0)
            assert [(await read_response(reader, ApiKey.HEARTBEAT, 0))[0] for _ in range(2)] == [1, 2]
            writer.close()

    run(main)


BAD_FRAMES = {
    "negative size": struct.pack(">i", -5) + b"abc",
    "larger than socket.request.max.bytes": struct.pack(">i", 2_000_000) + b"abc",
    "no header": struct.pack(">i", 2) + b"ab",
    "empty": struct.pack(">i", 0),
    "unknown API key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "known key that is not served": request(MetadataRequest(topics=[]), 1, 1),
    "unsupported version": struct.pack(">ihhih", 10, int(ApiKey.HEARTBEAT), 77, 1, -1),
    "negative version": struct.pack(">ihhih", 10, int(ApiKey.HEARTBEAT), -1, 1, -1),
    "truncated body": struct.pack(">ihhih", 12, int(ApiKey.HEARTBEAT), 0, 1, -1) + b"\0\x05",
    "client id longer than the frame": struct.pack(">ihhih", 10, int(ApiKey.HEARTBEAT), 0, 1, 32767),
}


@LOOPS
@pytest.mark.parametrize("kind", BAD_FRAMES)
def test_a_bad_frame_closes_that_connection_alone(
    kind: str, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        limits = NetworkLimits(max_request_bytes=1_000_000)
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}, limits, range(5)) as listener:
            good_reader, good_writer = await connect(listener)
            reader, writer = await connect(listener)
            # What was answered before the bad frame still arrives.
            writer.write(heartbeat(7))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 7
            port = writer.get_extra_info("sockname")[1]
            writer.write(BAD_FRAMES[kind] + heartbeat(8))
            assert await read_eof(reader) == b""
            good_writer.write(heartbeat(9))
            assert (await read_response(good_reader, ApiKey.HEARTBEAT, 0))[0] == 9
            assert len(listener.connections) == 1
            lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
            assert len(lines) == 1, lines
            assert f"peer=127.0.0.1:{port}" in lines[0]
            assert "reason=" in lines[0]
            writer.close()
            good_writer.close()

    with caplog.at_level(logging.INFO, "odradek"):
        run(main, loop)


def test_bytes_behind_a_request_are_passed_over_as_kafka_does() -> None:
    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:
            reader, writer = await connect(listener)
            frame = heartbeat(1)
            writer.write(struct.pack(">i", len(frame) - 4 + 3) + frame[4:] + b"xyz" + heartbeat(2))
            assert [(await read_response(reader, ApiKey.HEARTBEAT, 0))[0] for _ in range(2)] == [1, 2]
            writer.close()

    run(main)


def test_a_bad_frame_behind_good_ones_lets_their_answers_out() -> None:
    async def main() -> None:
        async with listening({ApiKey.HEARTBEAT: answer_heartbeat}) as listener:
            reader, writer = await connect(listener)
            writer.write(heartbeat(1) + BAD_FRAMES["unknown API key"])
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 1
            assert await read_eof(reader) == b""
            writer.close()

    run(main)


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
    async def main() -> None:
        handlers = {ApiKey.API_VERSIONS: lambda context, message: ApiVersionsResponse()}
        async with listening(handlers, versions=range(6)) as listener:
            reader, writer = await connect(listener)
            frame = request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, 42)
            writer.write(frame[:6] + struct.pack(">h", 99) + frame[8:])
            correlation_id, message = await read_response(reader, ApiKey.API_VERSIONS, 0)
            assert correlation_id == 42
            assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(k.api_key, k.min_version, k.max_version) for k in message.api_keys] == [(18, 0, 5)]
            writer.close()

    run(main)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (UnknownMemberIdError(), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_a_handler_that_breaks_is_answered_and_the_connection_lives(
    error: Exception, code: ErrorCode, later: bool
) -> None:
    async def main() -> None:
        def handle(context: Any, message: HeartbeatRequest) -> Any:
            if message.group_id == "ok":
                return HeartbeatResponse()
            if not later:
                raise error
            future: Promise[Any] = Promise(asyncio.get_running_loop())
            asyncio.get_running_loop().call_soon(future.set_exception, error)
            return future

        async with listening({ApiKey.HEARTBEAT: handle}) as listener:
            reader, writer = await connect(listener)
            writer.write(heartbeat(1, "broken") + heartbeat(2, "ok"))
            first = await read_response(reader, ApiKey.HEARTBEAT, 0)
            second = await read_response(reader, ApiKey.HEARTBEAT, 0)
            assert (first[0], first[1].error_code) == (1, code)
            assert (second[0], second[1].error_code) == (2, 0)
            writer.close()

    run(main)


@pytest.mark.parametrize("later", [False, True])
def test_a_cancelled_answer_closes_the_connection(later: bool) -> None:
    async def main() -> None:
        def handle(context: Any, message: HeartbeatRequest) -> Any:
            future: Promise[Any] = Promise(asyncio.get_running_loop())
            if later:
                asyncio.get_running_loop().call_soon(future.cancel)
            else:
                future.cancel()
            return future

        async with listening({ApiKey.HEARTBEAT: handle}) as listener:
            reader, writer = await connect(listener)
            writer.write(heartbeat(1))
            assert await read_eof(reader) == b""
            writer.close()

    run(main)


def test_no_response_and_close() -> None:
    async def main() -> None:
        def handle(context: Any, message: HeartbeatRequest) -> Any:
            if message.group_id == "close":
                context.close_connection = True
            return None

        async with listening({ApiKey.HEARTBEAT: handle}) as listener:
            reader, writer = await connect(listener)
            writer.write(heartbeat(1, "silent"))
            writer.write(heartbeat(2, "close"))
            assert await read_eof(reader) == b""
            writer.close()

    run(main)


BIG = 300_000


def big_fetch(correlation_id: int) -> bytes:
    return request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 4, correlation_id)


@LOOPS
def test_a_peer_that_does_not_read_stops_being_served(loop: str) -> None:
    async def main() -> None:
        served = 0
        waiting: list[int] = []

        def handle(context: Any, message: FetchRequest) -> FetchResponse:
            nonlocal served
            served += 1
            (connection,) = listener.connections
            waiting.append(connection.unsent_bytes)
            data = PartitionData(partition_index=0, high_watermark=1, records=bytes(BIG))
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

        async with listening({ApiKey.FETCH: handle}) as listener:
            reader, writer = await connect(listener)
            total = 500
            writer.write(b"".join(big_fetch(number) for number in range(total)))
            await writer.drain()
            # Nothing is read here, so that the sockets' buffers fill up; then no more requests are taken up.
            await settle(lambda: served > 0)
            assert await at_rest(lambda: served) < total
            for number in range(total):
                frame = await read_frame(reader)
                assert int.from_bytes(frame[:4], "big") == number
                assert len(frame) > BIG
            assert served == total
            assert max(waiting) <= WRITE_HIGH_WATER
            writer.close()

    run(main, loop)


def test_who_waits_for_nobody_is_told() -> None:
    async def main() -> None:
        gone: list[str] = []

        def handle(context: Any, message: HeartbeatRequest) -> Any:
            context.on_disconnect = lambda: gone.append(message.group_id)
            return Promise(asyncio.get_running_loop())

        async with listening({ApiKey.HEARTBEAT: handle}) as listener:
            _, writer = await connect(listener)
            writer.write(heartbeat(1, "a") + heartbeat(2, "b"))
            await settle(lambda: bool(listener.queued_bytes))
            writer.close()
            await settle(lambda: gone == ["a", "b"])
            assert listener.queued_bytes == 0

    run(main)


def test_a_taken_port_is_said_so() -> None:
    async def main() -> None:
        async with listening({}) as listener:
            other = Listener(listener.dispatcher, NetworkLimits())
            with pytest.raises(AddressInUse, match=str(listener.port)):
                other.bind("127.0.0.1", listener.port)

    run(main)


@pytest.mark.fuzz
def test_garbage_never_does_more_than_close(caplog: pytest.LogCaptureFixture) -> None:
    import random

    async def main() -> None:
        rng = random.Random(seed(20261121))
        whole = heartbeat(1, "group-of-the-fuzzer")
        handlers = {ApiKey.HEARTBEAT: answer_heartbeat}
        async with listening(handlers, NetworkLimits(max_request_bytes=10_000), range(5)) as listener:
            for _ in range(200):
                reader, writer = await connect(listener)
                data = bytearray(whole * rng.randrange(1, 4))
                for _ in range(rng.randrange(1, 6)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                writer.write(bytes(data))
                writer.write_eof()
                await read_eof(reader)
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            reader, writer = await connect(listener)
            writer.write(heartbeat(5))
            assert (await read_response(reader, ApiKey.HEARTBEAT, 0))[0] == 5
            writer.close()
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR]

    run(main)


def test_handler_table_rejects_gaps() -> None:
    from odradek.broker.apis.registry import handler

    with pytest.raises(ValueError, match="gaps"):
        handler(ApiKey.HEARTBEAT, versions=range(0, 5, 2))
    with pytest.raises(ValueError, match="gaps"):
        handler(ApiKey.HEARTBEAT, versions=range(0))
    assert Handler(ApiKey.HEARTBEAT, range(5), answer_heartbeat).error_response is None
