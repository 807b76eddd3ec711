"""Connections that come too fast: turned away after they have waited, or not accepted until it is time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from odradek.broker.network import server
from odradek.broker.quotas.client_quota_manager import Windows
from odradek.broker.quotas.connection_quotas import NO_BOUND, ConnectionQuotas
from odradek.util.clock import ManualClock
from odradek.wire.messages.api_versions import ApiVersionsRequest

from .. import live
from ..net import run, settle


async def is_served(client: live.Client) -> bool:
    return bool((await client.call(ApiVersionsRequest(), 0)).error_code == 0)


def test_an_address_that_connects_too_fast_is_turned_away_and_served_again_later(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with live.running(tmp_path, clock=clock) as broker:
            broker.controller.alter_config("ips/<default>", {"connection_creation_rate": "1"})
            clients = [await live.connect(broker) for _ in range(10)]
            assert all([await is_served(client) for client in clients])
            late = await live.connect(broker)
            assert await late.closed()
            listener = broker.listeners[0]
            assert listener.refused == 1
            assert await is_served(clients[0])
            clock.advance(11_000)
            assert await is_served(await live.connect(broker))
            # A bound of its own, or none.
            broker.controller.alter_config("ips/127.0.0.1", {"connection_creation_rate": "100"})
            assert all([await is_served(await live.connect(broker)) for _ in range(30)])

    run(main)


def test_those_that_wait_to_be_closed_are_bounded_and_end_with_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_DELAYED", 3)

    async def main() -> None:
        clock = ManualClock()
        async with live.running(tmp_path, clock=clock, quota_window_size_seconds=10_000) as broker:
            broker.controller.alter_config("ips/<default>", {"connection_creation_rate": "0"})
            listener = broker.listeners[0]
            waiting = [await live.connect(broker) for _ in range(8)]
            await settle(lambda: listener.refused == 8)
            assert all([await client.closed() for client in waiting[3:]])
            left = [asyncio.ensure_future(client.closed()) for client in waiting[:3]]
            await asyncio.sleep(0)
            assert not any(end.done() for end in left)
            await broker.stop()
            assert all(await asyncio.gather(*left))

    run(main)


def test_a_broker_that_has_taken_enough_takes_the_next_one_later(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with live.running(tmp_path, clock=clock, max_connection_creation_rate=5) as broker:
            first = [await live.connect(broker) for _ in range(50)]
            assert await is_served(first[-1])
            late = await live.connect(broker)
            late.send(ApiVersionsRequest(), 0)
            reading = asyncio.ensure_future(late.receive())
            assert await is_served(first[0])
            # 200 ms later it is its turn.
            await settle(reading.done)
            assert broker.listeners[0].refused == 0
            broker.controller.alter_config("brokers/<default>", {"max.connection.creation.rate": "1000"})
            assert broker.quotas.connections.per_second == 1000

    run(main)


def test_a_listener_has_a_bound_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        own = {"listener.name.plaintext.max.connection.creation.rate": "3"}
        async with live.running(tmp_path, clock=ManualClock(), **own) as broker:
            connections = broker.quotas.connections
            waits = [connections.accepted("PLAINTEXT", "h").wait_ms for _ in range(31)]
            assert waits[:30] == [0] * 30 and waits[30] > 0
            broker.controller.alter_config(
                "brokers/0", {"listener.name.plaintext.max.connection.creation.rate": "1000"}
            )
            assert connections.accepted("PLAINTEXT", "h").wait_ms == 0

    run(main)


def test_an_address_is_the_same_by_whichever_socket_it_comes() -> None:
    quotas = ConnectionQuotas(ManualClock(), Windows(11, 1000))
    quotas.limit_address("10.0.0.1", 5)
    quotas.limit_address("0:0:0:0:0:0:0:1", 7)
    assert quotas.of_address("::ffff:10.0.0.1") == 5
    assert quotas.of_address("::1") == quotas.of_address("0::1%lo") == 7
    assert quotas.of_address("no address: at all") == NO_BOUND
