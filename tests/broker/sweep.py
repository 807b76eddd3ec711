"""Every request of the golden corpus against a live broker, one at a time, time moved by hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey
from odradek.wire.check import read_golden
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.structs import Struct

from . import live
from .net import settle

WIRE = Path(__file__).parent.parent / "golden" / "wire"

_STEPS_MS = (1_000, 100_000, 2**31, 2**33)
"""What time is moved by, in turn, while an answer is outstanding: every timeout of a request is an int32."""


@cache
def golden_requests(key: int) -> tuple[dict[str, Any], ...]:
    """The golden lines of an API's requests."""
    (path,) = WIRE.glob(f"{key:03d}_*.jsonl.gz")
    return tuple(line for line in read_golden(path) if line["kind"] == "request")


def structs(value: Any) -> Iterator[Struct]:
    """A message and every struct inside it."""
    if isinstance(value, Struct):
        yield value
        for field in value.FIELDS:
            yield from structs(getattr(value, field.name))
    elif isinstance(value, list):
        for one in value:
            yield from structs(one)


def error_codes(message: Any) -> list[int]:
    """Every error code anywhere in a message."""
    return [
        getattr(one, field.name)
        for one in structs(message)
        for field in one.FIELDS
        if field.name.endswith("error_code")
    ]


class Complaints(logging.Handler):
    """Collects what the broker logs at ERROR, tracebacks included."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(self.format(record))

    def take(self) -> list[str]:
        """What has come since the last time."""
        records, self.records = self.records, []
        return records


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Sweeper:
    """A broker, and connections that ask it one thing after the other.

    Attributes:
        broker, clock, timers: the broker and its time.
        complaints: what it logged at ERROR.
    """

    def __init__(self, broker: Broker, clock: ManualClock, timers: ManualTimers) -> None:
        self.broker, self.clock, self.timers = broker, clock, timers
        self.complaints = Complaints()
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._other: live.Client | None = None
        self._correlation_id = 0

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._stream is None:
            self._stream = await asyncio.open_connection("127.0.0.1", self.broker.port, limit=2**26)
        return self._stream

    async def disconnect(self) -> None:
        """Close the connection that asks; the next question opens a new one."""
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None
            # A request that nobody waits for any more must not be taken for the next one.
            listener = self.broker.listeners[0]
            await settle(lambda: listener.queued_bytes == 0, "for a connection to go")

    async def ask(self, message: Any, version: int, client_id: str = "sweep") -> Any:
        """A message and its answer; see `ask_raw`."""
        return await self.ask_raw(message.API_KEY, version, message.encode_parts(version), client_id)

    async def send_unanswered(self, version: int, body: Any) -> None:
        """A produce request with acks=0: nothing comes, but the next request is answered.

        Raises:
            Closed: as Kafka has it when such a request fails.
        """
        _, writer = await self._connection()
        self._correlation_id += 1
        writer.writelines(encode_request(0, version, self._correlation_id, "sweep", _Encoded([body])))
        await self.ask(ApiVersionsRequest(), 0)

    async def ask_raw(self, key: int, version: int, body: Any, client_id: str = "sweep") -> Any:
        """Send a request, and move time while its answer is outstanding.

        Raises:
            Closed: the connection was closed instead.
            AssertionError: another correlation id, or no answer whatever the time.
        """
        _, writer = await self._connection()
        self._correlation_id += 1
        parts = body if isinstance(body, list) else [body]
        writer.writelines(encode_request(key, version, self._correlation_id, client_id, _Encoded(parts)))
        frame = await self._receive(f"{ApiKey(key).api_name} {version}")
        if frame is None:
            raise Closed
        correlation_id, response = decode_response(frame, key, version)
        assert correlation_id == self._correlation_id
        return response

    async def send_frame(self, frame: bytes) -> bytes | None:
        """Send any bytes as a frame.

        Returns:
            The frame that came back; empty when none did (but the next request was answered); None when the
            connection was closed.
        """
        _, writer = await self._connection()
        writer.write(len(frame).to_bytes(4, "big") + frame)
        marker = 2**31 - 1
        writer.writelines(encode_request(18, 0, marker, "sweep", ApiVersionsRequest()))
        answer = await self._receive(frame.hex())
        if answer is None or int.from_bytes(answer[:4], "big") == marker != int.from_bytes(frame[4:8], "big"):
            return answer and b""
        await self._receive("what follows")
        return answer

    async def _receive(self, what: str) -> bytes | None:
        """The next frame, moving time until it comes; None when the connection is closed."""
        assert self._stream is not None
        reader, writer = self._stream
        reading = asyncio.ensure_future(_read_frame(reader))
        steps = iter(_STEPS_MS)
        listener, queue = self.broker.listeners[0], self.broker.controller.event_queue

        def is_waiting() -> bool:
            broker = self.broker
            busy = (
                queue.is_busy
                or broker.slicer.is_busy
                or broker.unpacking.is_busy
                or broker.log_starts.is_busy
            )
            return listener.queued_bytes > 0 and not busy

        while not reading.done():
            await settle(lambda: reading.done() or is_waiting(), f"for {what}")
            # What was worked on in slices is answered some turns after its last.
            for _ in range(20):
                await asyncio.sleep(0)
            if not reading.done() and is_waiting():
                step = next(steps, None)
                if step is None:
                    # On a busy machine a thread may take longer than all of these steps.
                    try:
                        await settle(reading.done, f"an answer to {what}")
                    finally:
                        reading.cancel()
                    break
                self.timers.advance(step)
                for _ in range(20):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.001)
        try:
            return reading.result()
        except (asyncio.IncompleteReadError, ConnectionError):
            self._stream = None
            writer.close()
            return None

    async def is_alive(self) -> None:
        """Another connection is still answered."""
        if self._other is None:
            self._other = await live.connect(self.broker)
        assert (await self._other.call(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE

    async def close(self) -> None:
        """Close all connections."""
        if self._other is not None:
            self._other.close()
            self._other = None
        await self.disconnect()


class _Encoded:
    """A body that is encoded already, where a message is expected."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts

    def encode_behind(self, head: bytes, version: int) -> list[Any]:
        size = len(head) - 4 + sum(map(len, self._parts))
        return [size.to_bytes(4, "big") + head[4:], *self._parts]


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


@asynccontextmanager
async def sweeping(data: Path, least_interval_ms: float = 0, **config: Any) -> AsyncIterator[Sweeper]:
    """A broker to ask, its log watched; for `least_interval_ms` see `ManualTimers`."""
    clock = ManualClock(SystemClock().now_ms())
    timers = ManualTimers(clock, least_interval_ms)
    # Months pass while an answer is waited for: what is in the logs stays there.
    config = {"log_retention_ms": -1, **config}
    async with live.running(data, clock=clock, timers=timers, pauses=timers, **config) as broker:
        sweeper = Sweeper(broker, clock, timers)
        logger = logging.getLogger("odradek")
        logger.addHandler(sweeper.complaints)
        try:
            _ = broker.groups
            timers.advance(0)
            yield sweeper
        finally:
            await sweeper.close()
            logger.removeHandler(sweeper.complaints)
