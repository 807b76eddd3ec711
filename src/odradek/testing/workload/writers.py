"""Transactional producers: commits, aborts, and deaths at every step between."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import Sequence
from typing import Any

from odradek.client.aio.producer import AsyncProducer
from odradek.client.types import PreparedTxnState
from odradek.errors import OdradekError
from odradek.testing.checker.history import Send
from odradek.testing.workload.plan import IN, partition_name, place_of
from odradek.testing.workload.site import Crash, Site, again, kill

COMMIT, ABORT = "commit", "abort"
DEATHS = (
    "begun",  # after begin_transaction, before anything was sent
    "sending",  # between two records
    "sent",  # before they are acknowledged
    "acknowledged",  # all are, and the commit is not asked for
    "committing",  # some time after the commit was asked for
    "aborting",
    "zombie",  # it lives on beside its successor, and commits when that one has begun
)
STALL = "stall"  # longer than the transaction's timeout
PREPARE = "prepare"  # prepared, dead, and ended by the successor

_SHORT_MS = 1_200
_LONG_MS = 60_000


class Writer:
    """One transactional id through all its lives.

    Args:
        site: the round.
        transactional_id: its own; each life is a process of the history with a name of its own.
        number: of the writer; the first one's transactions time out, the second one's are prepared.
        life: of which life to begin with.
    """

    def __init__(self, site: Site, transactional_id: str, number: int, life: int = 0) -> None:
        self._site = site
        self._notes = site.notes
        self._transactional_id = transactional_id
        self._life = life
        self._times_out = number == 0
        self._two_phase = number == 1 and site.plan.two_phase
        self._rng = site.rng(f"{transactional_id}/{life}")
        self._zombies: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Live until the round finishes, and leave nothing open."""
        while not self._site.finishing.is_set():
            await self._live(f"{self._transactional_id}.{self._life}")
            self._life += 1
        # An error in one of them is ours.
        await asyncio.gather(*self._zombies)
        await self._site.sweep(self._transactional_id)

    def _producer(self) -> AsyncProducer:
        if self._two_phase:
            return self._site.producer(self._transactional_id, None)
        return self._site.producer(self._transactional_id, _SHORT_MS if self._times_out else _LONG_MS)

    async def _live(self, me: str) -> None:
        producer = self._producer()
        number = 0
        try:
            await again(producer.init_transactions)
            while not self._site.finishing.is_set():
                await self._transaction(producer, f"{me}", number)
                number += 1
        except Crash as death:
            self._notes.count(f"crash: {death}")
            if str(death) in ("zombie", PREPARE):
                return
        except OdradekError as problem:
            self._notes.count(f"given up: {type(problem).__name__}")
        self._notes.lost(me)
        await kill(producer)

    def _fate(self) -> str:
        rng = self._rng
        if rng.random() < self._site.plan.crashes:
            return rng.choice(DEATHS)
        if self._two_phase and rng.random() < 0.1:
            return PREPARE
        if self._times_out and rng.random() < 0.01:
            return STALL
        return COMMIT if rng.random() < 0.75 else ABORT

    def _sends(self, me: str, number: int) -> list[Send]:
        rng = self._rng
        partitions = self._site.plan.partitions[IN]
        return [
            Send(partition_name(IN, rng.randrange(partitions)), f"{me}:{number}:{n}")
            for n in range(rng.choice((1, 1, 2, 3, 8)))
        ]

    async def _transaction(self, producer: AsyncProducer, me: str, number: int) -> None:
        """One transaction.

        Raises:
            Crash: by the plan.
            OdradekError: the producer is of no more use.
        """
        rng, notes = self._rng, self._notes
        fate = self._fate()
        sends = self._sends(me, number)
        late = [Send(sends[0].partition, f"{me}:{number}:late")]
        if fate != "zombie" or rng.random() < 0.5:
            late = []
        notes.invoke(me, "txn", sends + late)
        commit_begun = False
        try:
            producer.begin_transaction()
            if fate == "begun":
                raise Crash(fate)
            futures = await self._send(producer, sends, fate)
            if fate == "sent":
                await a_moment(rng)
                raise Crash(fate)
            if fate in ("acknowledged", "zombie", STALL) or rng.random() < 0.5:
                for future in futures:
                    await future
            if fate == "acknowledged":
                raise Crash(fate)
            if fate == PREPARE:
                await self._prepare(producer, me, sends)
            if fate == "zombie":
                zombie = asyncio.create_task(self._haunt(producer, me, sends, late))
                self._zombies.add(zombie)
                raise Crash(fate)
            if fate == STALL:
                await asyncio.sleep(2 * _SHORT_MS / 1000)
                notes.count("stall")
            if fate in (ABORT, "aborting"):
                await self._end(producer.abort_transaction, fate == "aborting")
                notes.complete(me, "fail", "txn", sends)
                return
            commit_begun = True
            notes.deciding(me)
            await self._end(producer.commit_transaction, fate == "committing")
            notes.complete(me, "ok", "txn", [await told(s, f) for s, f in zip(sends, futures, strict=True)])
        except OdradekError as problem:
            notes.count(f"{'commit' if commit_begun else 'transaction'}: {type(problem).__name__}")
            if problem.fatal:
                raise
            await again(producer.abort_transaction)
            notes.complete(me, "fail", "txn", sends)

    async def _send(self, producer: AsyncProducer, sends: Sequence[Send], fate: str) -> list[Any]:
        futures = []
        for place, send in enumerate(sends):
            if fate == "sending" and place == len(sends) // 2:
                await a_moment(self._rng)
                raise Crash(fate)
            topic, partition = place_of(send.partition)
            futures.append(await producer.send(topic, str(send.value), partition=partition))
            if self._rng.random() < 0.1:
                await a_moment(self._rng)
        return futures

    async def _end(self, call: Any, dies: bool) -> None:
        if not dies:
            await again(call)
            return
        ending = asyncio.ensure_future(call())
        await a_moment(self._rng)
        if ending.done() and ending.exception() is None:
            return
        ending.cancel()
        with contextlib.suppress(asyncio.CancelledError, OdradekError):
            await ending
        raise Crash("committing" if call.__name__.startswith("commit") else "aborting")

    async def _haunt(self, producer: AsyncProducer, me: str, sends: list[Send], late: list[Send]) -> None:
        """Go on as if there were no successor."""
        notes = self._notes
        try:
            await asyncio.sleep(self._rng.random() * 0.5)
            for future in await self._send(producer, late, ""):
                await future
            notes.deciding(me)
            await again(producer.commit_transaction)
            notes.count("zombie committed")
            notes.complete(me, "ok", "txn", sends + late)
        except OdradekError as problem:
            notes.count(f"zombie: {type(problem).__name__}")
            notes.lost(me)
        await kill(producer)

    async def _prepare(self, producer: AsyncProducer, me: str, sends: list[Send]) -> None:
        """Prepare, decide, die; successors carry out what was decided."""
        rng, notes = self._rng, self._notes
        prepared = await producer.prepare_transaction()
        commit = rng.random() < 0.6
        notes.deciding(me)
        await kill(producer)
        while True:
            successor = self._producer()
            try:
                await carry_out(successor, prepared if commit else PreparedTxnState())
                break
            except OdradekError as problem:
                notes.count(f"two-phase: {type(problem).__name__}")
            finally:
                await kill(successor)
        notes.complete(me, "ok" if commit else "fail", "txn", sends)
        raise Crash(PREPARE)


async def carry_out(successor: AsyncProducer, decision: PreparedTxnState) -> None:
    """End the transaction that was left prepared."""
    prepared = await again(functools.partial(successor.init_transactions, keep_prepared=True))
    # Without one, the successor before has ended it, and did not live to hear of that.
    if prepared.has_transaction:
        await again(functools.partial(successor.complete_transaction, decision))


async def told(send: Send, future: Any) -> Send:
    """The send with its offset."""
    offset = (await future).offset
    return Send(send.partition, send.value, offset if offset >= 0 else None)


async def a_moment(rng: random.Random) -> None:
    """Now or a few requests later."""
    await asyncio.sleep(rng.choice((0, 0.001, 0.003, 0.01, 0.03)) * rng.random())
