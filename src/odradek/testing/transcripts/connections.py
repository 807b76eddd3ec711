"""Listening, and connections that end with whoever listens: what the recorder and the player share."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from odradek.testing.transcripts.addresses import Address
from odradek.testing.transcripts.frames import Frames

logger = logging.getLogger(__name__)

Serve = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves a connection, of which it gets the number."""

Take = Callable[[bytes], Awaitable[object]]
"""Takes a frame."""

_MOST_CONNECTIONS = 1000
_READ_BYTES = 1 << 16


class Connections:
    """Connections of clients, numbered from 1."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    @property
    def open(self) -> int:
        """The number of connections that there are."""
        return len(self._tasks)

    async def listen(self, place: Address, serve: Serve) -> Address:
        """Listen, and return where.

        Args:
            place: port 0 takes a free one.
            serve: serves each connection, which ends with it.

        Raises:
            OSError: the port is taken.
        """

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            if len(self._tasks) >= _MOST_CONNECTIONS:
                logger.warning("hung up on: there are %d connections", _MOST_CONNECTIONS)
                writer.close()
                return
            self._tasks.add(task)
            try:
                with suppress(OSError, asyncio.CancelledError):
                    await serve(next(self._numbers), reader, writer)
            finally:
                self._tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(accept, place.host, place.port)
        self._servers.append(server)
        return Address(place.host, server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """End all of them."""
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))


async def each_frame(reader: asyncio.StreamReader, take: Take) -> None:
    """Call `take` with each frame that comes, to the end of the connection.

    Raises:
        TranscriptError: what comes is no frame.
        OSError: the connection has broken.
    """
    frames = Frames()
    while data := await reader.read(_READ_BYTES):
        for frame in frames.feed(data):
            await take(frame)
