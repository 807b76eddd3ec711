"""`async with`: the loop goes on, and nothing stays behind, whenever it is broken off."""

from __future__ import annotations

import asyncio
import threading

import pytest

from odradek import Producer
from odradek.testing import Broker, Cluster, UnmetFaultError
from odradek.testing.in_block import InBlock
from waiting import WITHIN_S, happened, until_async, within


def test_a_broker_and_a_cluster() -> None:
    async def scenario() -> None:
        async with Broker() as broker, Cluster(1) as cluster:
            for server in (broker, cluster):
                server.create_topic("orders")
                with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
                    assert producer.send("orders", b"tea").result(WITHIN_S).offset == 0
        assert broker.broker is None
        assert cluster.live == []

    asyncio.run(within(scenario(), "both"))


def test_a_fault_that_was_not_met_is_told() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            broker.hang("Fetch")

    with pytest.raises(UnmetFaultError):
        asyncio.run(within(scenario(), "the broker"))


class Slow(InBlock):
    """Starts when it is let."""

    def __init__(self) -> None:
        self.begun = False
        self.let = threading.Event()
        self.life: list[str] = []

    def start(self) -> None:
        self.begun = True
        happened(self.let, "leave to start")
        self.life.append("started")

    def close(self) -> None:
        self.life.append("closed")


def test_what_is_broken_off_while_it_starts_is_closed() -> None:
    async def scenario() -> None:
        slow = Slow()

        async def block() -> None:
            async with slow:
                slow.life.append("in the block")

        task = asyncio.create_task(block())
        await until_async(lambda: slow.begun, "the start")
        task.cancel()
        slow.let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slow.life == ["started", "closed"]

    asyncio.run(within(scenario(), "the block"))
