"""The protocol that asyncio calls for one accepted socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.network.connection import Connection
    from odradek.broker.network.tls import TlsLayer


class SocketProtocol(asyncio.BufferedProtocol):
    """A `Connection`, or its TLS, as a class that asyncio knows: its methods are the other's own.

    The stock loop wants an instance of asyncio's class, which the compiled class of a connection cannot be.
    """

    __slots__ = (
        "buffer_updated",
        "connection_lost",
        "connection_made",
        "eof_received",
        "get_buffer",
        "pause_writing",
        "resume_writing",
    )

    def __init__(self, connection: Connection | TlsLayer) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(connection, name))
