"""The recorder: stands between clients and brokers, and writes down what they say."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import IO

from odradek.errors import OdradekError
from odradek.testing.transcripts.addresses import Address, addresses, rewritten
from odradek.testing.transcripts.connections import Connections, Take, each_frame
from odradek.testing.transcripts.conversation import Conversation, Spoken
from odradek.testing.transcripts.frames import Frame, TranscriptError, with_size
from odradek.testing.transcripts.masking import Mask

logger = logging.getLogger(__name__)

_MOST_BROKERS = 1000


class UnreachableError(OdradekError):
    """No broker can be reached."""


class Recorder:
    """Listens for clients, with a port for each broker: for the first ones from the begin, for others when a
    broker tells of them. Addresses in answers are the recorder's own, so that clients come back.

    What it writes down is what the broker has said, with its own addresses, masked.

    Attributes:
        failure: gets the error by which the transcript could not be written; its connection ends.
    """

    def __init__(
        self, brokers: Sequence[Address], output: IO[str], mask: Mask, *, host: str, port: int
    ) -> None:
        """
        Args:
            brokers: to be asked first: the first that can be reached.
            output: the transcript's file.
            mask: hides what the transcript is not to tell.
            host, port: where to listen; port 0 takes a free one.
        """
        self._brokers = brokers
        self._output = output
        self._mask = mask
        self._own = Address(host, port)
        self._connections = Connections()
        self._ports: dict[Address, asyncio.Task[Address]] = {}
        """By the address of a broker, the one by which clients come to it."""
        self._begin = time.monotonic()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self) -> Address:
        """Listen; return the address for clients.

        Raises:
            UnreachableError: no broker can be reached.
            OSError: the port is taken.
        """
        _, writer = await _connect(self._brokers)
        writer.close()
        own = await self._connections.listen(self._own, lambda *ends: self._relay(self._brokers, *ends))
        for broker in self._brokers[:1]:
            self._ports[broker] = asyncio.ensure_future(_done(own))
        return own

    async def close(self) -> None:
        """End all connections."""
        await self._connections.close()

    async def _relay(
        self,
        brokers: Sequence[Address],
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            from_broker, to_broker = await _connect(brokers)
        except UnreachableError as error:
            logger.warning("connection %d: %s", number, error)
            return
        conversation = Conversation()

        async def ask(data: bytes) -> None:
            spoken = conversation.request(data)
            self._write(number, spoken)
            to_broker.write(with_size(data))
            await to_broker.drain()

        async def answer(data: bytes) -> None:
            spoken = conversation.response(data)
            self._write(number, spoken)
            places = {address: await self._port_of(address) for address in addresses(spoken)}
            writer.write(with_size(rewritten(spoken, places.__getitem__)))
            await writer.drain()

        try:
            await _first_to_end(self._each(number, reader, ask), self._each(number, from_broker, answer))
        finally:
            to_broker.close()

    async def _each(self, number: int, reader: asyncio.StreamReader, take: Take) -> None:
        try:
            await each_frame(reader, take)
        except TranscriptError as error:
            logger.warning("connection %d ends: %s", number, error)

    def _write(self, number: int, spoken: Spoken) -> None:
        if spoken.note:
            logger.warning(
                "connection %d: %s of API %d, version %d: %s",
                *(number, spoken.direction, spoken.key, spoken.version, spoken.note),
            )
        t_ms = (time.monotonic() - self._begin) * 1000
        masked = self._mask.masked(spoken)
        frame = (spoken.direction, spoken.key, spoken.version, spoken.correlation, masked, spoken.note)
        try:
            self._output.write(Frame(t_ms, number, *frame).to_line())
            self._output.flush()
        except OSError as error:
            if not self.failure.done():
                self.failure.set_exception(error)
            raise

    async def _port_of(self, broker: Address) -> Address:
        """Return the address by which clients come to a broker."""
        if broker not in self._ports and len(self._ports) >= _MOST_BROKERS:
            raise TranscriptError(f"more than {_MOST_BROKERS} addresses of brokers")
        if broker not in self._ports:
            place = Address(self._own.host, 0)
            self._ports[broker] = asyncio.ensure_future(
                self._connections.listen(place, lambda *ends: self._relay([broker], *ends))
            )
        return await self._ports[broker]


async def _done(address: Address) -> Address:
    return address


async def _connect(brokers: Sequence[Address]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    problems = []
    for broker in brokers:
        try:
            return await asyncio.open_connection(broker.host, broker.port)
        except OSError as error:
            problems.append(f"{broker.host}:{broker.port}: {error}")
    raise UnreachableError(f"no broker can be reached: {'; '.join(problems)}")


async def _first_to_end(*sides: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(side) for side in sides]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, OSError):
                await task
