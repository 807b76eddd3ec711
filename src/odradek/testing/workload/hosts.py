"""A process of its own with some of the clients in it, to be killed.

    python -m odradek.testing.workload.hosts PLAN ADDRESS LIFE

writes what happens to standard output, line by line, and leaves when its input is closed; `finish` on a line
of it ends the writers first.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from odradek.testing.workload.copiers import Copier
from odradek.testing.workload.journal import LocalJournal, RemoteJournal, apply
from odradek.testing.workload.plan import Plan
from odradek.testing.workload.site import Site
from odradek.testing.workload.writers import Writer

_LAST_WORDS_S = 60
_LIVES = 10_000  # more than any process of a host has; so names stay unique


def clients(site: Site, host: bool, life: int = 0) -> tuple[list[Any], list[Any]]:
    """Writers and copiers of a host, or all others of the round."""
    plan = site.plan
    writers = [Writer(site, f"w{n}", n, life) for n in range(plan.writers)]
    copiers = [Copier(site, f"k{n}", life) for n in range(plan.copiers)]
    hosted = -plan.hosted if plan.hosted else len(writers) + len(copiers)
    if host:
        return writers[hosted:], copiers[hosted:]
    return writers[:hosted], copiers[:hosted]


class Host:
    """The process, seen from outside; started again whenever it was killed."""

    def __init__(self, site: Site, journal: LocalJournal) -> None:
        self._site = site
        self._journal = journal
        self._process: asyncio.subprocess.Process | None = None
        self._life = 0
        self._leaving = False

    async def run(self) -> None:
        """Keep one alive, and write down what it says, until it leaves by itself."""
        while not self._leaving:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                __name__,
                self._site.plan.to_json(),
                self._site.address,
                str(self._life * _LIVES),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 24,
            )
            self._life += 1
            if self._site.finishing.is_set():
                self._tell(b"finish\n")
            spoken: set[str] = set()
            assert process.stdout is not None
            async for line in process.stdout:
                if line.endswith(b"\n"):
                    spoken.add(apply(line.decode(), self._journal))
            code = await process.wait()
            self._journal.all_lost(sorted(spoken))
            if code > 0:
                raise RuntimeError(f"the process of hosted clients ended with {code}")
            self._leaving |= code == 0

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def finish(self) -> None:
        """Let writers begin no more transactions."""
        self._tell(b"finish\n")

    def leave(self) -> None:
        """Let it end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _tell(self, words: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(words)


async def _serve(plan: Plan, address: str, life: int) -> None:
    site = Site(plan, address, RemoteJournal(sys.stdout))
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def listen() -> None:
        while await reader.readline():
            site.finishing.set()
        site.finishing.set()
        site.ended.set()
        # Whoever is at the other end may be gone, and the broker with it.
        loop.call_later(_LAST_WORDS_S, os._exit, 3)

    writers, copiers = clients(site, True, life)
    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        for client in (*writers, *copiers):
            group.create_task(client.run())


if __name__ == "__main__":
    asyncio.run(_serve(Plan.from_json(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
