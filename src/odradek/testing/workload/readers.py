"""Consumers that only read: members of a group, one with partitions of its own, and one at the end."""

from __future__ import annotations

import asyncio
import contextlib

from odradek.client.aio.consumer import AsyncConsumer
from odradek.client.types import TopicPartition
from odradek.errors import OdradekError
from odradek.testing.checker.history import Poll, Record
from odradek.testing.workload.copiers import polled, subscribe
from odradek.testing.workload.plan import COPIES, place_of
from odradek.testing.workload.site import Site, kill

_DEATH = 0.01  # of each poll


async def poll(site: Site, consumer: AsyncConsumer, me: str) -> tuple[Record, ...]:
    """One poll, written down.

    Raises:
        OdradekError: nothing was polled.
    """
    site.notes.invoke(me, "poll", [Poll()])
    try:
        seen = polled(await consumer.poll(100))
    except OdradekError:
        site.notes.complete(me, "info", "poll", [Poll()])
        raise
    site.notes.complete(me, "ok", "poll", [seen])
    return seen.records


class _Reader:
    """A reader that lives again whenever it has died, each time under a name of its own."""

    def __init__(self, site: Site, name: str) -> None:
        self._site = site
        self._name = name
        self._rng = site.rng(name)

    async def run(self) -> None:
        """Live until the round has ended."""
        life = 0
        while not self._site.ended.is_set():
            await self._live(f"{self._name}.{life}")
            life += 1

    async def _live(self, me: str) -> None:
        raise NotImplementedError


class Member(_Reader):
    """A member of a group that reads everything, commits now and then, and dies at random."""

    async def _live(self, me: str) -> None:
        site, rng = self._site, self._rng
        consumer = site.consumer("readers", max_poll_records=rng.choice((5, 50, 500)))
        await subscribe(consumer, site.notes, me, COPIES)
        while not site.ended.is_set():
            try:
                await poll(site, consumer, me)
                if rng.random() < 0.3:
                    await consumer.commit(timeout_ms=500)
            except OdradekError as problem:
                site.notes.count(f"reader: {type(problem).__name__}")
            if rng.random() < _DEATH:
                site.notes.count("crash: reader")
                break
        if site.ended.is_set() or rng.random() < 0.5:
            with contextlib.suppress(OdradekError):
                await consumer.close(1_000)
        await kill(consumer)
        site.notes.lost(me)


class Assigned(_Reader):
    """Reads all partitions, dies, and begins again somewhat before where it was."""

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site, name)
        self._seen: dict[str, int] = {}

    async def _live(self, me: str) -> None:
        site, rng = self._site, self._rng
        consumer = site.consumer(None)
        partitions = await take_all(site, consumer, me)
        seen = self._seen
        try:
            for name in seen:
                await self._go_back(consumer, me, partitions, name)
            while not site.ended.is_set():
                for record in await poll(site, consumer, me):
                    seen[record.partition] = record.offset
                if seen and rng.random() < 0.05:
                    await self._go_back(consumer, me, partitions, rng.choice(sorted(seen)))
                if rng.random() < _DEATH:
                    site.notes.count("crash: assigned reader")
                    break
        except OdradekError as problem:
            site.notes.count(f"assigned reader: {type(problem).__name__}")
        await kill(consumer)
        site.notes.lost(me)

    async def _go_back(
        self, consumer: AsyncConsumer, me: str, partitions: dict[str, TopicPartition], name: str
    ) -> None:
        back = self._rng.randrange(max(0, self._seen[name] - 300), self._seen[name] + 1)
        self._site.notes.control(me, "seek", [name])
        await consumer.seek(partitions[name], back)


async def take_all(site: Site, consumer: AsyncConsumer, me: str) -> dict[str, TopicPartition]:
    """Assign everything there is; partitions by name."""
    partitions = {name: TopicPartition(*place_of(name)) for name in site.plan.names()}
    await consumer.assign(partitions.values())
    await consumer.seek_to_beginning()
    site.notes.control(me, "assign", list(partitions))
    return partitions


async def read_everything(site: Site, me: str) -> list[Record]:
    """All that is committed, from the beginning to what is the end at first."""
    consumer = site.consumer(None)
    try:
        partitions = await take_all(site, consumer, me)
        ends = await consumer.end_offsets(partitions.values(), timeout_ms=30_000)
        records: list[Record] = []
        for tp in partitions.values():
            while await consumer.position(tp, timeout_ms=30_000) < ends[tp]:
                records += await poll(site, consumer, me)
        return records
    finally:
        await kill(consumer)


async def open_transactions(site: Site, patience_s: float = 60) -> dict[TopicPartition, tuple[int, int]]:
    """Partitions whose last stable offset stays below their end, with both: somebody's transaction hangs.

    Raises:
        ClientTimeoutError: the broker does not answer.
    """
    partitions = [TopicPartition(*place_of(name)) for name in site.plan.names()]
    committed, everything = site.consumer(None), AsyncConsumer(bootstrap_servers=site.address)
    hanging = dict.fromkeys(partitions, (-1, -1))
    try:
        async with asyncio.timeout(patience_s):
            while True:
                stable = await committed.end_offsets(partitions)
                ends = await everything.end_offsets(partitions)
                hanging = {tp: (stable[tp], ends[tp]) for tp in partitions if stable[tp] != ends[tp]}
                if not hanging:
                    return {}
                await asyncio.sleep(0.1)
    except TimeoutError:
        return hanging
    finally:
        await kill(committed)
        await kill(everything)
