"""A listener with handlers of the test's own, and raw frames for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from odradek.broker.apis.registry import Handler, Handlers
from odradek.broker.metrics.metrics import Metrics
from odradek.broker.network.connection import Connection
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.network.limits import NetworkLimits
from odradek.broker.network.server import Listener
from odradek.broker.network.tls_listener import ListenerTls
from odradek.util.clock import SystemClock
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from waiting import until_async

PATIENCE_S = 60
"""How long to wait for what surely comes: far longer than a busy machine takes."""

_streams: dict[int, list[asyncio.StreamWriter]] = {}
"""Open ones, by the port of their listener."""


class BrokerStandIn:
    """What the dispatcher and the context need of a broker."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.metrics = Metrics()
        self.request_log = None
        self.authorizer = None
        self.cluster_id = "kUXVUUdzQnyPmGJlXcUDGA"
        self.broker_id = 1


def receive(connection: Connection, data: bytes) -> None:
    """Hand bytes to a connection as a transport does."""
    while data:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]


async def at_rest(number: Callable[[], int]) -> int:
    """Let the loop run until a number is the same in a hundred looks one after the other; returns it."""
    seen = [number()]

    def look() -> bool:
        seen.append(number())
        return len(seen) > 100 and len(set(seen[-100:])) == 1

    await settle(look, "a number that stays")
    return seen[-1]


@asynccontextmanager
async def listening(
    handlers: dict[ApiKey, Any],
    limits: NetworkLimits | None = None,
    versions: range = range(20),
    tls: ListenerTls | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[Listener]:
    """A listener on a free port of an address, one that connections to 127.0.0.1 reach."""
    broker: Any = BrokerStandIn()
    table = {int(key): Handler(key, versions, function) for key, function in handlers.items()}
    listener = Listener(Dispatcher(broker, Handlers({}, table)), limits or NetworkLimits(), tls=tls)
    listener.bind(host, 0)
    listener.start()
    try:
        yield listener
    finally:
        close_streams(listener.port)
        listener.stop_accepting()
        listener.abort_connections()
        await settle(lambda: not listener.connections)
        listener.sending_threads.close()


async def settle(condition: Callable[[], object], what: str = "") -> None:
    """Let the loop run until `condition` holds; real sockets need real time."""
    await until_async(condition, what, within_s=PATIENCE_S, every_s=0.001)


async def connect(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw connection to it, that reads no more ahead than 128 KiB."""
    return await open_stream(listener.port)


async def open_stream(
    port: int, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, raw or TLS, that `close_streams` closes, should the test fail before it does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    _streams.setdefault(port, []).append(writer)
    return reader, writer


def close_streams(port: int) -> None:
    """Close what is still open to a listener: nothing of a test that failed is left to the next one."""
    for writer in _streams.pop(port, ()):
        writer.close()


def request(message: Any, version: int, correlation_id: int, client_id: str | None = "test") -> bytes:
    """The bytes of a request with its size."""
    return b"".join(encode_request(message.API_KEY, version, correlation_id, client_id, message))


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """One frame."""

    async def read() -> bytes:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

    return await asyncio.wait_for(read(), PATIENCE_S)


async def read_response(reader: asyncio.StreamReader, key: ApiKey, version: int) -> tuple[int, Any]:
    """One response: correlation id and message."""
    return decode_response(await read_frame(reader), key, version)


async def read_eof(reader: asyncio.StreamReader) -> bytes:
    """What the peer still sends before it closes."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionError:
        return b""


def run(main: Callable[[], Awaitable[None]], loop: str = "uvloop") -> None:
    """Run a test's coroutine on the given loop."""

    async def whole() -> None:
        try:
            await main()
        finally:
            # Sockets that were closed last are let go of by the loop's next turns.
            for _ in range(5):
                await asyncio.sleep(0)

    if loop == "uvloop":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(whole())
    else:
        asyncio.run(whole())


def heartbeat(correlation_id: int, group: str = "g") -> bytes:
    """A small request as a frame."""
    return request(HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 0, correlation_id)


def answer_heartbeat(context: Any, message: HeartbeatRequest) -> HeartbeatResponse:
    """A handler that says yes."""
    return HeartbeatResponse(error_code=0)
