"""A broker of a cluster of one, and its sessions with the metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.membership.membership import ClusterAccess
from odradek.cluster import paths
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from waiting import until_async

WAIT_S = 60


class Member:
    """One broker of a cluster of one, and its sessions with the metadata store.

    Attributes:
        sessions: all of them, the last at the end.
        before_open: called before each session is opened.
    """

    def __init__(self, data: Path, server: MemoryServer | None = None, **config: str) -> None:
        self.server = server or MemoryServer()
        self.sessions: list[MemoryStore] = []
        self.before_open: Callable[[], None] = lambda: None
        given = {
            "log.dirs": str(data),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "zookeeper.session.timeout.ms": "200",
            "offsets.topic.replication.factor": "1",
        }
        names = {name.replace("_", "."): text for name, text in config.items()}
        self.broker = Broker(BrokerConfig({**given, **names}), cluster=ClusterAccess(self.open))

    def open(self) -> MemoryStore:
        self.before_open()
        self.sessions.append(MemoryStore(self.server))
        return self.sessions[-1]

    @property
    def registered(self) -> int | None:
        """The epoch under which the broker stands in the store."""
        looking = MemoryStore(self.server)
        stat = looking.exists(paths.broker_id(self.broker.broker_id))
        looking.close()
        return None if stat is None else stat.czxid

    @property
    def open_sessions(self) -> int:
        return len(self.server.sessions)

    def is_member(self) -> bool:
        """The broker is registered, knows it, and controls its cluster of one."""
        controller = self.broker.controller
        return controller.is_active and self.registered == controller.broker_epoch


async def until(look: Callable[[], object]) -> None:
    await until_async(look, within_s=WAIT_S, every_s=0.005)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run it, and see to it that it leaves no task and no complaint behind."""
    complaints: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await scenario
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert complaints == []


def in_member(data: Path, use: Callable[[Member], Awaitable[None]], **config: str) -> None:
    """Start a broker, use it, stop it: nothing is left of it in the store."""

    async def scenario() -> None:
        member = Member(data, broker_id="0", **config)
        await member.broker.start()
        await until(member.is_member)
        await use(member)
        await member.broker.stop()
        assert member.registered is None and member.open_sessions == 0

    run(scenario())
