"""The broker of a round: a process of its own on one folder and one port, through all its lives."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

_PATIENCE_S = 60


class Server:
    """One broker.

    Args:
        folder: for its data and `server.log`.
        settings: its configs.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._folder = folder
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """The bootstrap servers for clients."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Return when it accepts connections.

        Raises:
            RuntimeError: it does not start.
        """
        arguments = ["--data", str(self._folder / "data"), "--port", str(self.port)]
        for name, value in self._settings.items():
            arguments += ["--set", f"{name}={value}"]
        with (self._folder / "server.log").open("ab") as errors:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "odradek", "server", *arguments),
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert process.stdout is not None
        async with asyncio.timeout(_PATIENCE_S):
            line = await process.stdout.readline()
        if not line.startswith(b"ready "):
            raise RuntimeError(f"the broker did not start, see {self._folder / 'server.log'}")

    async def strike(self, rng: random.Random) -> str:  # noqa: ARG002
        """SIGKILL, and start it again."""
        await self.kill()
        await self.start()
        return "kill -9: broker"

    async def kill(self) -> None:
        """SIGKILL."""
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        process = self._process
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(_PATIENCE_S):
            return await process.wait()
