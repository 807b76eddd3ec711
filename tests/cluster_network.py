"""Ways between the processes of a cluster: each can hold what goes one way, and be slow.

A broker is reached by others, by clients, and reaches its ZooKeeper, over ports of a `Network`. Who opened
a connection is found by its process, so that what one broker sends another can be held apart from all else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from waiting import joined

CLIENTS, ZOOKEEPER = "clients", "zookeeper"
_CHUNK = 65_536
_CHUNKS_UNDER_WAY = 16


class Network:
    """Hands bytes to and fro, in a thread of its own; a context manager is not needed: `close` ends it.

    A cut holds bytes as a network does that has lost its way: connections stand, nothing arrives, and when
    the cut is healed what was sent goes on.

    Attributes:
        passed: bytes by (who sent, who received).
    """

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str]] = Counter()
        self._cuts: set[tuple[str, str]] = set()
        self._delay_s: dict[str, float] = {}
        self._bytes_per_s: dict[str, float] = {}
        self._free_at: dict[tuple[str, str], float] = {}
        self._loop = asyncio.new_event_loop()
        self._healed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def way(self, target: str, port: int, source: str | Callable[[], Mapping[int, str]]) -> int:
        """Open a way.

        Args:
            target: the name of who is reached over it.
            port: where it listens.
            source: the name of who comes this way; or processes and their names, of those who may.

        Returns: the port to connect to.
        """
        return asyncio.run_coroutine_threadsafe(self._open(target, port, source), self._loop).result(60)

    def cut(self, sender: str, receiver: str, *, one_way: bool = False) -> None:
        """Hold what `sender` sends to `receiver`, and the other way round unless `one_way`."""
        both = [(sender, receiver)] if one_way else [(sender, receiver), (receiver, sender)]
        self._do(lambda: self._cuts.update(both))

    def slow(self, name: str, delay_s: float, bytes_per_s: float = 0) -> None:
        """Have all that `name` sends and receives arrive late; at most so many bytes per second each way."""

        def change() -> None:
            self._delay_s[name] = delay_s
            self._bytes_per_s[name] = bytes_per_s

        self._do(change)

    def heal(self) -> None:
        """Take back all cuts and delays."""

        def change() -> None:
            self._cuts.clear()
            self._delay_s.clear()
            self._bytes_per_s.clear()
            self._healed.set()
            self._healed = asyncio.Event()

        self._do(change)

    def close(self) -> None:
        """End it, and all connections over it."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._loop.call_soon(self._loop.stop)

        if self._loop.is_running():
            asyncio.run_coroutine_threadsafe(end(), self._loop)
            joined(self._thread)
            self._loop.close()

    def _do(self, change: Callable[[], None]) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)

    async def _open(self, target: str, port: int, source: str | Callable[[], Mapping[int, str]]) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            try:
                name = (
                    source if isinstance(source, str) else owner(writer.get_extra_info("peername"), source())
                )
                if name:
                    await self._connect(name, target, port, reader, writer)
            except asyncio.CancelledError:
                pass
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def _connect(
        self,
        source: str,
        target: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        await self._may_pass(source, target)
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return
        ways = [
            asyncio.ensure_future(self._pump(reader, to_writer, source, target)),
            asyncio.ensure_future(self._pump(to_reader, writer, target, source)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # At once: who closes everything cancels this task as well, while it waits for the ways to end.
            to_writer.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, receiver: str
    ) -> None:
        """Hand on until either side ends."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_UNDER_WAY)
        taking = asyncio.ensure_future(self._take(reader, under_way, sender, receiver))
        try:
            with contextlib.suppress(OSError):
                while True:
                    due, data = await under_way.get()
                    if (wait := due - self._loop.time()) > 0:
                        await asyncio.sleep(wait)
                    await self._may_pass(sender, receiver)
                    if not data:
                        return
                    self.passed[sender, receiver] += len(data)
                    writer.write(data)
                    await writer.drain()
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

    async def _take(
        self,
        reader: asyncio.StreamReader,
        under_way: asyncio.Queue[tuple[float, bytes]],
        sender: str,
        receiver: str,
    ) -> None:
        data = b"more"
        while data:
            try:
                data = await reader.read(_CHUNK)
            except OSError:
                data = b""
            await under_way.put((self._arrival(sender, receiver, len(data)), data))

    def _arrival(self, sender: str, receiver: str, size: int) -> float:
        now = self._loop.time()
        names = (sender, receiver)
        delay = max(self._delay_s.get(name, 0) for name in names)
        rates = [rate for name in names if (rate := self._bytes_per_s.get(name, 0))]
        if rates:
            now = max(now, self._free_at.get(names, 0)) + size / min(rates)
            self._free_at[names] = now
        return now + delay

    async def _may_pass(self, sender: str, receiver: str) -> None:
        while (sender, receiver) in self._cuts:
            await self._healed.wait()


def owner(peer: tuple[str, int], names: Mapping[int, str]) -> str | None:
    """Which of some processes has opened a connection on loopback.

    Args:
        peer: its end of the connection.
        names: of the processes, by number.

    Returns: the name; None if it was none of them, or has ended.
    """
    end = f"0100007F:{peer[1]:04X}"
    lines = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:])
    inode = next((words[9] for words in lines if words[1] == end), None)
    wanted = Path(f"socket:[{inode}]")
    for pid, name in names.items():
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as files:
            if any(_leads_to(file.path, wanted) for file in files):
                return name
    return None


def _leads_to(file: str, wanted: Path) -> bool:
    try:
        return Path(file).readlink() == wanted
    except OSError:  # closed meanwhile
        return False
