"""Members of a group that copy what they read, and commit copies and offsets in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from odradek.client.aio.consumer import AsyncConsumer
from odradek.client.aio.producer import AsyncProducer
from odradek.client.errors import IllegalStateError
from odradek.client.types import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
)
from odradek.errors import OdradekError
from odradek.testing.checker.history import Micro, Poll, Record, Send
from odradek.testing.workload.journal import Notes
from odradek.testing.workload.plan import COPIES, partition_name, place_of
from odradek.testing.workload.site import Crash, Site, again, kill
from odradek.testing.workload.writers import a_moment

GROUP = "copiers"
DEATHS = ("polled", "sent", "offsets", "committing")


class Copier:
    """One transactional id and one member of the group, through all their lives.

    Each copy has a value of its own: that of the record, `>`, and who made it; so one record copied twice is
    not one record sent twice.
    """

    def __init__(self, site: Site, transactional_id: str, life: int = 0) -> None:
        self._site = site
        self._notes = site.notes
        self._transactional_id = transactional_id
        self._life = life
        self._rng = site.rng(f"{transactional_id}/{life}")
        self._made = 0

    async def run(self) -> None:
        """Live until the round has ended, and leave nothing open."""
        while not self._site.ended.is_set():
            await self._live(f"{self._transactional_id}.{self._life}")
            self._life += 1
        await self._site.sweep(self._transactional_id)

    async def _live(self, me: str) -> None:
        producer = self._site.producer(self._transactional_id)
        consumer = self._site.consumer(GROUP, max_poll_records=self._rng.choice((10, 40, 100)))
        try:
            await again(producer.init_transactions)
            await subscribe(consumer, self._notes, me, COPIES)
            while not self._site.ended.is_set():
                if records := await consumer.poll(100):
                    await self._transaction(consumer, producer, me, records)
        except Crash as death:
            self._notes.count(f"crash: copier {death}")
        except OdradekError as problem:
            self._notes.count(f"copier given up: {type(problem).__name__}")
        if self._site.ended.is_set() or self._rng.random() < 0.5:
            # In half of its deaths the group learns at once that it is gone.
            with contextlib.suppress(OdradekError):
                await consumer.close(1_000)
        await kill(producer)
        await kill(consumer)
        self._notes.lost(me)

    async def _transaction(
        self, consumer: AsyncConsumer, producer: AsyncProducer, me: str, records: list[ConsumerRecord]
    ) -> None:
        """Copy the records in one transaction.

        Raises:
            Crash: by the plan.
            OdradekError: the producer is of no more use.
        """
        rng, notes = self._rng, self._notes
        death = rng.choice(DEATHS) if rng.random() < self._site.plan.crashes else ""
        sends = self._copies(me, records)
        micro: list[Micro] = [polled(records), *sends]
        notes.invoke(me, "txn", micro)
        try:
            if death == "polled":
                raise Crash(death)
            producer.begin_transaction()
            futures = []
            for send in sends:
                topic, partition = place_of(send.partition)
                futures.append(await producer.send(topic, str(send.value), partition=partition))
            if death == "sent":
                await a_moment(rng)
                raise Crash(death)
            if rng.random() < 0.05:
                await self._take_back(consumer, producer, records)
                notes.complete(me, "fail", "txn", micro)
                return
            await producer.send_offsets_to_transaction(after(records), await consumer.group_metadata())
            if death == "offsets":
                raise Crash(death)
            notes.deciding(me)
            await self._commit(producer, death)
            notes.complete(me, "ok", "txn", micro)
        except OdradekError as problem:
            notes.count(f"copier: {type(problem).__name__}")
            if problem.fatal:
                raise
            await self._take_back(consumer, producer, records)
            notes.complete(me, "fail", "txn", micro)

    async def _commit(self, producer: AsyncProducer, death: str) -> None:
        if not death:
            await again(producer.commit_transaction)
            return
        committing = asyncio.ensure_future(producer.commit_transaction())
        await a_moment(self._rng)
        committing.cancel()
        with contextlib.suppress(asyncio.CancelledError, OdradekError):
            await committing
            return
        raise Crash(death)

    async def _take_back(
        self, consumer: AsyncConsumer, producer: AsyncProducer, records: list[ConsumerRecord]
    ) -> None:
        await again(producer.abort_transaction)
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for tp in first.keys() & await consumer.assignment():
            with contextlib.suppress(IllegalStateError):
                await consumer.seek(tp, first[tp])

    def _copies(self, me: str, records: list[ConsumerRecord]) -> list[Send]:
        sends = []
        for record in records:
            target = COPIES[record.topic]
            if target is not None:
                self._made += 1
                partition = partition_name(target, self._rng.randrange(self._site.plan.partitions[target]))
                sends.append(Send(partition, f"{_text(record)}>{me}:{self._made}"))
        return sends


def _text(record: ConsumerRecord) -> str:
    assert record.value is not None  # these loads write no tombstones
    return record.value.decode()


def polled(records: Iterable[ConsumerRecord]) -> Poll:
    """A poll as a history has it."""
    return Poll(tuple(Record(partition_name(r.topic, r.partition), r.offset, _text(r)) for r in records))


def after(records: Iterable[ConsumerRecord]) -> dict[Any, OffsetAndMetadata]:
    """Return where to go on after these, by partition."""
    return {
        TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1, "", r.leader_epoch)
        for r in records
    }


async def subscribe(consumer: AsyncConsumer, notes: Notes, me: str, topics: Iterable[str]) -> None:
    """Subscribe, and write rebalances down."""

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            notes.control(me, "rebalance", [partition_name(*tp) for tp in revoked])

        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            notes.control(me, "rebalance", [partition_name(*tp) for tp in assigned])

    await consumer.subscribe(list(topics), listener=Listener())
    notes.control(me, "subscribe", list(topics))
