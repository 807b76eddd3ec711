"""A broker that is alone: what a stop makes of its start."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker, StartError
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster import paths
from odradek.cluster.store.memory import MemoryServer, MemoryStore

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
        await broker.stop()
        store.goes_on.set()
        with pytest.raises(StartError, match="was stopped"):
            await starting

    run(scenario())
