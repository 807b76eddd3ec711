# compiled: mypyc
"""The other end of a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.metrics.applications import Application, Positions
    from odradek.broker.requests.login_gate import LoginGate

ANONYMOUS = "User:ANONYMOUS"


class Grants:
    """The permissions that a principal at an address surely has, as far as it has been asked; for all of its
    connections.

    Attributes:
        principal: whose.
        valid: whether it still holds; nothing may be taken from it otherwise.
        write, read: names of topics that may be written to, and read.
    """

    __slots__ = ("principal", "read", "valid", "write")

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.valid = True
        self.write: set[str] = set()
        self.read: set[str] = set()


class Peer:
    """The other end of a connection, as handlers and log lines name it.

    Attributes:
        host, port: the peer's address.
        connection_id: Kafka's form, `local_host:local_port-host:port-n`.
        listener_name: the listener that it came in by.
        principal: who it is, in Kafka's form `User:name`.
        sasl: how it has logged in, or is about to; None at listeners without SASL.
        grants: what it was allowed before; None for nothing that is known.
        is_open: whether the connection is there.
        software: name and version of the client's, as it has told (KIP-511); empty before.
        application: what its requests count for; None before the first that is one.
        client_id: by which it has named itself; `named_until_ms`: when that is looked at again, wall clock.
        positions: from where it reads, once it reads.
        unappended: ends when all that it has produced so far is appended or refused; None while nothing of
            that waits (`odradek.broker.requests.append_turn`).
    """

    __slots__ = (
        "application",
        "client_id",
        "connection_id",
        "grants",
        "host",
        "is_open",
        "listener_name",
        "named_until_ms",
        "port",
        "positions",
        "principal",
        "sasl",
        "software",
        "unappended",
    )

    def __init__(self, host: str, port: int, connection_id: str, listener_name: str) -> None:
        self.host = host
        self.port = port
        self.connection_id = connection_id
        self.listener_name = listener_name
        self.principal = ANONYMOUS
        self.sasl: LoginGate | None = None
        self.grants: Grants | None = None
        self.is_open = False
        self.software = ("", "")
        self.application: Application | None = None
        self.client_id: str | None = None
        self.named_until_ms = 0
        self.positions: Positions | None = None
        self.unappended: asyncio.Future[None] | None = None
