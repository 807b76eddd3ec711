"""A console on a port."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from types import TracebackType
from typing import Self

import uvicorn

from odradek.console.app import Console
from odradek.console.settings import ConsoleSettings
from odradek.errors import OdradekError
from odradek.util.clock import Clock

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0


class ConsoleServer:
    """Serves a console from a thread of its own, from its making until `close`.

        with ConsoleServer(settings) as server:
            print(server.url)

    Args:
        settings: of the console.
        host: the address to listen at.
        port: 0 takes a free one.
        clock: as `Console`.

    Attributes:
        url: where it is.

    Raises:
        OdradekError: the port cannot be had.
    """

    def __init__(
        self, settings: ConsoleSettings, host: str = "127.0.0.1", port: int = 0, clock: Clock | None = None
    ) -> None:
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
            )
        except OSError as error:
            raise OdradekError(f"the console cannot listen at {host}:{port}: {error}") from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._settings = settings
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="odradek-console", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S) or self._failure is not None:
            self.close()
            raise OdradekError(f"the console does not start: {self._failure or 'it takes too long'}")

    def close(self) -> None:
        """Stop; requests that are being answered have some seconds left."""
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(STOP_TIMEOUT_S)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        # The clients of the console belong to this loop.
        config = uvicorn.Config(
            Console(self._settings, self._clock).app,
            access_log=False,
            log_config=None,
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
        )
        self._server = uvicorn.Server(config)
        asyncio.get_running_loop().call_soon(self._ready.set)
        await self._server.serve(sockets=[self._socket])


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
