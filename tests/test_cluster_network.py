"""Ways between processes leave nothing open behind them."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from typing import Any

from cluster_network import CLIENTS, Network


class Slow(Network):
    """A network whose ways, when they are told to end, do so only when everything ends."""

    def __init__(self) -> None:
        self.is_ending = threading.Event()
        super().__init__()

    async def _pump(self, *way: Any) -> None:
        try:
            await super()._pump(*way)
        except asyncio.CancelledError:
            self.is_ending.set()
            await asyncio.Event().wait()


def test_a_network_that_ends_while_one_of_its_connections_does() -> None:
    network = Slow()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = network.way("0", server.getsockname()[1], CLIENTS)
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()
            assert network.is_ending.wait(30)
            network.close()
    # What was left open warns now, and a warning is an error.
    gc.collect()
