"""A broker that is alone: what a stop makes of its start."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker, StartError
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster import paths
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Op, OpResult

from .member import WAIT_S, run, until


class HeldUp(MemoryStore):
    """Does not answer the last question of a controller whose term begins before it is let go on."""

    def __init__(self) -> None:
        super().__init__(MemoryServer())
        self.is_asked = threading.Event()
        self.goes_on = threading.Event()

    def exists(self, path: str) -> Any:
        if path == paths.REASSIGN_PARTITIONS:
            self.is_asked.set()
            assert self.goes_on.wait(WAIT_S)
        return super().exists(path)


def test_a_stop_ends_a_start_that_waits_for_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = HeldUp()
        config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Broker(BrokerConfig(config), store=store)
        starting = asyncio.ensure_future(broker.start())
        await until(store.is_asked.is_set)
        stopping = asyncio.ensure_future(broker.stop())
        # It has told the membership then, and waits for the store itself.
        await asyncio.sleep(0)
        store.goes_on.set()
        await stopping
        with pytest.raises(StartError, match="was stopped"):
            await starting

    run(scenario())


def test_a_start_that_is_cancelled_twice_keeps_its_folder_while_its_thread_writes(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = HeldUp()
        config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        starting = asyncio.ensure_future(Broker(BrokerConfig(config), store=store).start())
        await until(store.is_asked.is_set)
        for _ in range(3):
            starting.cancel()
            # Turns enough for an end that waits for nothing.
            for _ in range(10):
                await asyncio.sleep(0)
        with pytest.raises(StartError, match="is held by"):
            await Broker(BrokerConfig(config), store=MemoryStore(MemoryServer())).start()
        store.goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await starting

    run(scenario())


class SlowToWrite(MemoryStore):
    """Has the controller's thread wait with its writes until it is let go on."""

    def __init__(self) -> None:
        super().__init__(MemoryServer())
        self.is_asked = threading.Event()
        self.goes_on = threading.Event()
        self.writer: threading.Thread | None = None

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        if threading.current_thread().name.startswith("controller"):
            self.writer = threading.current_thread()
            self.is_asked.set()
            assert self.goes_on.wait(WAIT_S)
        return super().multi(ops)


@pytest.mark.parametrize("by", ["a stop", "a signal"])
def test_a_start_that_is_given_up_keeps_its_folder_until_its_controller_writes_no_more(
    tmp_path: Path, by: str
) -> None:
    async def scenario() -> None:
        config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        store = SlowToWrite()
        broker = Broker(BrokerConfig(config), store=store)
        starting = asyncio.ensure_future(broker.start())
        await until(store.is_asked.is_set)
        if by == "a stop":
            stopping = asyncio.ensure_future(broker.stop())
        else:
            stopping = starting
            starting.cancel()
        # Turns enough for a stop that waits for nothing.
        for _ in range(10):
            await asyncio.sleep(0)
        assert not stopping.done()
        with pytest.raises(StartError, match="is held by"):
            await Broker(BrokerConfig(config), store=MemoryStore(MemoryServer())).start()
        store.goes_on.set()
        await asyncio.wait([starting, stopping])
        assert store.writer is not None and not store.writer.is_alive()
        assert store.children(paths.BROKER_IDS) == [], "registered after the controller was stopped"
        other = Broker(BrokerConfig(config), store=MemoryStore(MemoryServer()))
        await other.start()
        await other.stop()

    run(scenario())
