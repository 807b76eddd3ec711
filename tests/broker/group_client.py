"""A broker with time that the test moves, and a blocking exchange of messages with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from . import live
from .net import read_response, request


class Wire:
    """One connection; one request at a time, or several in flight."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._correlation_id = 0
        self._in_flight: list[tuple[int, ApiKey, int]] = []

    def send(self, message: Any, version: int) -> None:
        self._correlation_id += 1
        self._in_flight.append((self._correlation_id, message.API_KEY, version))
        self._writer.write(request(message, version, self._correlation_id, "tester"))

    async def receive(self) -> Any:
        correlation_id, key, version = self._in_flight.pop(0)
        answered, response = await read_response(self._reader, key, version)
        assert answered == correlation_id
        return response

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._in_flight)

    async def ask(self, message: Any, version: int) -> Any:
        self.send(message, version)
        return await self.receive()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Setup:
    """A running broker, its clock and timers."""

    def __init__(self, broker: Broker, clock: ManualClock, timers: ManualTimers) -> None:
        self.broker, self.clock, self.timers = broker, clock, timers
        self._wires: list[Wire] = []

    async def connect(self) -> Wire:
        self._wires.append(Wire(*await asyncio.open_connection("127.0.0.1", self.broker.port)))
        return self._wires[-1]

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()

    def advance(self, ms: int) -> None:
        self.timers.advance(ms)

    async def create_topic(self, name: str, partitions: int = 1) -> bytes:
        return await live.create_topic(self.broker, name, partitions)


@asynccontextmanager
async def running(data: Path, clock: ManualClock | None = None, **config: str) -> AsyncIterator[Setup]:
    """A broker on `data` until the end of the block, stopped in good order."""
    clock = clock or ManualClock(SystemClock().now_ms())
    timers = ManualTimers(clock)
    properties = {
        "log.dirs": str(data),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        **{name.replace("_", "."): value for name, value in config.items()},
    }
    broker = Broker(BrokerConfig(properties), clock=clock, timers=timers, pauses=timers)
    await broker.start()
    setup = Setup(broker, clock, timers)
    try:
        _ = broker.groups
        timers.advance(0)
        yield setup
    finally:
        await setup.close()
        await broker.stop()


async def find(wire: Wire, group: str = "g") -> None:
    """Have the offsets topic made."""
    response = await wire.ask(FindCoordinatorRequest(key=group), 0)
    assert response.error_code == 0


def join_request(member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00metadata")],
        **fields,
    )


def sync_request(member_id: str, generation: int, group: str = "g", **fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"everything")],
        **fields,
    )


async def join_alone(setup: Setup, wire: Wire, request: JoinGroupRequest) -> JoinGroupResponse:
    """Join a group that nobody is in."""
    wire.send(request, 3)
    await _until_parked(setup, request.group_id)
    setup.advance(0)
    joined: JoinGroupResponse = await wire.receive()
    assert joined.error_code == 0
    return joined


async def become_member(setup: Setup, wire: Wire, group: str = "g") -> tuple[str, int]:
    """Join alone and sync; returns member id and generation."""
    joined = await join_alone(setup, wire, join_request(group=group))
    synced = await wire.ask(sync_request(joined.member_id, joined.generation_id, group), 2)
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"everything")
    return joined.member_id, joined.generation_id


async def _until_parked(setup: Setup, group: str) -> None:
    coordinator = setup.broker.groups.coordinator
    shard = coordinator.runtime.shard(coordinator.partition_of(group))

    def parked() -> bool:
        return group in shard.groups and shard.groups[group].awaiting_join_count > 0

    from .net import settle

    await settle(parked, "for the join")
