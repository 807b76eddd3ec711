"""The player: serves clients from a transcript, in place of the brokers that it was recorded from."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.testing.transcripts.addresses import Address, addresses, rewritten
from odradek.testing.transcripts.connections import Connections, each_frame
from odradek.testing.transcripts.conversation import Conversation, Spoken
from odradek.testing.transcripts.frames import TOKEN, TranscriptError, with_size
from odradek.testing.transcripts.script import Departure, Script

logger = logging.getLogger(__name__)


class Player:
    """Answers clients by a script. All brokers of the transcript are at its one address.

    Attributes:
        is_over: set when the script is played and the clients have gone.
    """

    def __init__(
        self, script: Script, on_departure: Callable[[Departure], object], *, host: str, port: int
    ) -> None:
        """
        Args:
            script: the transcript's.
            on_departure: told of each departure when the client does it.
            host, port: where to listen; port 0 takes a free one.
        """
        self._script = script
        self._on_departure = on_departure
        self._own = Address(host, port)
        self._connections = Connections()
        self.is_over = asyncio.Event()

    async def start(self) -> Address:
        """Listen; return the address for clients.

        Raises:
            OSError: the port is taken.
        """
        self._own = await self._connections.listen(self._own, self._serve)
        return self._own

    async def close(self) -> None:
        """End all connections."""
        await self._connections.close()

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation()

        async def answer(data: bytes) -> None:
            spoken = conversation.request(data)
            told = len(self._script.departures)
            reply = self._script.reply(spoken)
            for departure in self._script.departures[told:]:
                self._on_departure(departure)
            if reply.is_end:
                raise _EndError
            if reply.answer is None:
                return
            if reply.delay_ms:
                await asyncio.sleep(reply.delay_ms / 1000)
            said = _said(reply.answer, spoken, self._own)
            conversation.response(said)
            writer.write(with_size(said))
            await writer.drain()

        try:
            await each_frame(reader, answer)
        except _EndError:
            pass
        except TranscriptError as error:
            logger.warning("connection %d ends: %s", number, error)
        finally:
            if self._script.is_played and self._connections.open == 1:
                self.is_over.set()


class _EndError(Exception):
    """The connection ends: there is no answer."""


def _said(answer: Spoken, asked: Spoken, own: Address) -> bytes:
    """Return the bytes of an answer to a request of now."""
    if answer.key == TOKEN:
        return answer.data
    answer = answer._replace(correlation=asked.correlation)
    if answer.data and not addresses(answer):
        return asked.correlation.to_bytes(4, "big", signed=True) + answer.data[4:]
    said = rewritten(answer, lambda _: own)
    if not said and answer.message is not None:
        said = answer.saying(answer.message)
    return said
