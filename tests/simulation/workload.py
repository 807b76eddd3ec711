"""The clients of a simulation, which write down what they were told for the checker.

Transactional writers, copiers and group members are those of `odradek.testing.workload`; here are producers
without transactions.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odradek.client.aio.producer import AsyncProducer
from odradek.errors import OdradekError
from odradek.testing.checker.history import Send
from odradek.testing.workload.copiers import Copier
from odradek.testing.workload.plan import Plan, partition_name, place_of
from odradek.testing.workload.readers import Assigned, Member
from odradek.testing.workload.site import Site, kill
from odradek.testing.workload.writers import Writer

from .topics import CHECKED, EVENTS, PASSING, SMALL

if TYPE_CHECKING:
    from odradek.testing.workload.journal import LocalJournal

_COMMON = {
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 500,
    "request_timeout_ms": 3_000,
    "max_block_ms": 4_000,
    "linger_ms": 0,
}


class Sender:
    """A producer without transactions, and with or without idempotence; what fails is of unknown end.

    Args:
        topic: where to.
        bursts: how many records at once, one of these.
        configs: of the producer, beside the common ones.
    """

    def __init__(
        self,
        site: Site,
        who: str,
        *,
        is_idempotent: bool,
        topic: str = EVENTS,
        bursts: Sequence[int] = (1, 1, 2, 5),
        **configs: Any,
    ) -> None:
        self._site, self._who, self._is_idempotent = site, who, is_idempotent
        self._topic, self._bursts, self._configs = topic, bursts, configs
        self._chance: random.Random = site.rng(who)

    async def run(self) -> None:
        """Send until the writers are to finish."""
        life = 0
        while not self._site.finishing.is_set():
            await self._live(f"{self._who}.{life}")
            life += 1

    def _producer(self) -> AsyncProducer:
        if self._is_idempotent:
            more: dict[str, Any] = {"delivery_timeout_ms": 15_000}
        else:
            # It may not send again: a record would be there twice.
            more = {"enable_idempotence": False, "retries": 0, "delivery_timeout_ms": 4_000}
        return AsyncProducer(
            {**_COMMON, **self._configs},
            bootstrap_servers=self._site.address,
            client_id=self._who,
            acks=-1,
            **more,
        )

    async def _live(self, me: str) -> None:
        producer = self._producer()
        number = 0
        while not self._site.finishing.is_set():
            count = self._chance.choice(self._bursts)
            sends = [
                Send(
                    partition_name(self._topic, self._chance.randrange(CHECKED[self._topic])),
                    f"{me}:{number}:{n}",
                )
                for n in range(count)
            ]
            number += 1
            if not await self._send(producer, me, sends) and self._chance.random() < 0.3:
                break
            await asyncio.sleep(self._chance.choice((0.01, 0.2, 0.8)) * self._chance.random())
        self._site.notes.lost(me)
        await kill(producer)

    async def _send(self, producer: AsyncProducer, me: str, sends: list[Send]) -> bool:
        notes = self._site.notes
        notes.invoke(me, "send", sends)
        told = []
        for send in sends:
            topic, partition = place_of(send.partition)
            try:
                told.append((send, await producer.send(topic, str(send.value), partition=partition)))
            except OdradekError:
                notes.count("not sent")
        done = []
        for send, future in told:
            try:
                done.append(Send(send.partition, send.value, (await future).offset))
            except OdradekError as problem:
                notes.count(f"send: {type(problem).__name__}")
        known = {one.value for one in done}
        # An offset is an acknowledgement also in an operation of unknown end.
        micro = done + [one for one in sends if one.value not in known]
        notes.complete(me, "ok" if len(done) == len(sends) else "info", "send", micro)
        return len(done) == len(sends)


class Passer:
    """Writes to the topic that comes and goes; no history has it."""

    def __init__(self, site: Site) -> None:
        self._site, self._chance = site, site.rng(PASSING)

    async def run(self) -> None:
        """Send until the writers are to finish."""
        producer = AsyncProducer(
            _COMMON, bootstrap_servers=self._site.address, client_id=PASSING, delivery_timeout_ms=4_000
        )
        number = 0
        while not self._site.finishing.is_set():
            number += 1
            try:
                await (await producer.send(PASSING, f"passing {number}", partition=0))
            except OdradekError:
                self._site.notes.count("passing not sent")
            await asyncio.sleep(self._chance.random())
        await kill(producer)


def clients(site: Site) -> dict[str, Any]:
    """All of them by name, those of transactions by their transactional ids."""
    return {
        "plain": Sender(site, "plain", is_idempotent=False),
        "idem": Sender(site, "idem", is_idempotent=True),
        # What it fills first is too large, what follows in flight is not.
        "small": Sender(site, "small", is_idempotent=True, topic=SMALL, bursts=(1, 20, 25), batch_size=400),
        "w0": Writer(site, "w0", 5),
        "w1": Writer(site, "w1", 0),
        "c0": Copier(site, "c0"),
        "m0": Member(site, "m0"),
        "a": Assigned(site, "a"),
        PASSING: Passer(site),
    }


class SimulatedSite(Site):
    """As `Site`; idle consumers ask seldom, so that a simulation is short."""

    def consumer(self, group: str | None, **more: Any) -> Any:
        """See `Site.consumer`."""
        return super().consumer(group, **{"fetch_max_wait_ms": 500, **more})


def new_site(seed: int, address: str, journal: LocalJournal) -> Site:
    """What they share."""
    return SimulatedSite(Plan(seed, crashes=0.1, two_phase=False, partitions=CHECKED), address, journal)
