"""Three whole brokers over virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from odradek.errors.codes import ErrorCode
from odradek.testing.broker import create_topic
from replication.replicas import batch

from .simulated_broker import Network
from .virtual_loop import VirtualLoop


async def _replicate(network: Network) -> None:
    for broker in network.brokers:
        await asyncio.wait_for(broker.start(), 60)
    await asyncio.sleep(5)
    controller = next(one for one in network.brokers if one.controller.is_active)
    await create_topic(controller, "clicks", 1, {"min.insync.replicas": "2"}, 3)
    await asyncio.sleep(5)
    partitions = [one.replicas.find("clicks", 0) for one in network.brokers]
    (leader,) = [one for one in partitions if one.is_leader]
    for number in range(10):
        leader.append(batch(number + 1), required_acks=-1, now_ms=network.clock.now_ms())
        await asyncio.sleep(0.3)
    assert set(leader.isr) == {0, 1, 2}
    assert leader.committed(55) == (True, ErrorCode.NONE)
    await asyncio.sleep(2)
    assert [(one.log.log_end_offset, one.log.high_watermark) for one in partitions] == [(55, 55)] * 3


def _trace(seed: int) -> list[tuple[float, int, int]]:
    random.seed(seed)
    loop = VirtualLoop(seed)
    try:
        network = Network(loop, 3)
        loop.run_until_complete(_replicate(network))
        return network.trace
    finally:
        loop.close()


@pytest.mark.parametrize("seed", range(5))
def test_what_is_appended_is_committed_everywhere(seed: int) -> None:
    assert _trace(seed)


def test_a_seed_is_one_trace() -> None:
    assert _trace(3) == _trace(3)
    assert _trace(3) != _trace(4)
