"""The broker stops while a connection is being taken up: nobody waits for it afterwards."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.broker.network.connection import Connection
from odradek.broker.network.server import Listener
from odradek.broker.network.socket_protocol import SocketProtocol

from ..live import running
from ..net import PATIENCE_S, open_stream, run


async def forgotten(listener: Listener) -> None:
    """See that a listener has no connections any more; a few turns of the loop suffice."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not listener.connections
    assert listener.slots.total == 0


def test_a_connection_that_was_being_taken_up_at_the_stop(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            (listener,) = broker.listeners
            opened = listener.opened
            begun = asyncio.Event()

            def stop_then(connection: Connection) -> None:
                opened(connection)
                listener.stop_accepting()
                begun.set()

            listener.opened = stop_then  # type: ignore[method-assign]
            reader, writer = await open_stream(broker.port)
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            listener.close_connections()
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            writer.close()
            await forgotten(listener)

    run(main)


def test_a_connection_that_was_being_taken_up_when_all_were_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            (listener,) = broker.listeners
            begun = asyncio.Event()

            def cut_off_then(connection: Connection) -> SocketProtocol:
                listener.stop_accepting()
                listener.abort_connections()
                begun.set()
                return SocketProtocol(connection)

            monkeypatch.setattr("odradek.broker.network.server.SocketProtocol", cut_off_then)
            reader, writer = await open_stream(broker.port)
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            writer.close()
            await forgotten(listener)

    run(main)
