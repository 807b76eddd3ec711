"""The things that all clients of a round share."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.client.aio.consumer import AsyncConsumer
from odradek.client.aio.producer import AsyncProducer
from odradek.client.errors import ClientTimeoutError
from odradek.errors import OdradekError
from odradek.testing.workload.journal import Journal, Notes
from odradek.testing.workload.plan import Plan

_PATIENCE = 30  # calls that timed out, in a row

_COMMON = {
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "request_timeout_ms": 10_000,
}


class Crash(Exception):
    """The client is to die here."""


class Site:
    """The round as its clients see it.

    Attributes:
        plan: the round's.
        address: the broker's.
        notes: where to write down what happens.
        finishing: set when writers are to begin no more transactions.
        ended: set when everybody is to leave.
    """

    def __init__(self, plan: Plan, address: str, journal: Journal) -> None:
        self.plan = plan
        self.address = address
        self.notes = Notes(journal)
        self.finishing = asyncio.Event()
        self.ended = asyncio.Event()

    def rng(self, name: str) -> random.Random:
        """A client's own dice."""
        return random.Random(f"{self.plan.seed} {name}")

    def producer(self, transactional_id: str, timeout_ms: int | None = 60_000) -> AsyncProducer:
        """A transactional producer; without a timeout, one whose transactions may be prepared."""
        more: dict[str, Any] = {"transaction_two_phase_commit_enable": True}
        if timeout_ms is not None:
            more = {"transaction_timeout_ms": timeout_ms}
        return AsyncProducer(
            _COMMON,
            bootstrap_servers=self.address,
            client_id=transactional_id,
            transactional_id=transactional_id,
            max_block_ms=4_000,
            linger_ms=1,
            batch_size=400,
            **more,
        )

    def consumer(self, group: str | None, **more: Any) -> AsyncConsumer:
        """A consumer that reads what is committed, from the beginning."""
        if group is not None:
            more |= {"group_id": group, "session_timeout_ms": 2_500, "heartbeat_interval_ms": 400}
        return AsyncConsumer(
            config=_COMMON,
            bootstrap_servers=self.address,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            default_api_timeout_ms=4_000,
            **{"fetch_max_wait_ms": 100, **more},
        )

    async def sweep(self, transactional_id: str) -> None:
        """End what the last owner of an id left behind."""
        while True:
            producer = self.producer(transactional_id)
            try:
                await again(producer.init_transactions)
                await kill(producer)
                return
            except OdradekError:
                await kill(producer)


async def again(call: Callable[[], Awaitable[Any]]) -> Any:
    """A call of a transactional producer that timed out goes on, and is waited for again."""
    for _ in range(_PATIENCE):
        with contextlib.suppress(ClientTimeoutError):
            return await call()
    return await call()


async def kill(client: AsyncProducer | AsyncConsumer) -> None:
    """End a client as the death of its process would: no abort, no leave, no last word of any kind."""
    engine: Any = client._engine
    if engine is None:
        return
    if isinstance(client, AsyncConsumer):
        engine.closed = True
        engine.fetcher.stop()
        await engine.cluster.close()
    else:
        client._closed = True
        await engine.close()
