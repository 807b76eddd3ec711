"""One round: a broker or several, clients, kills, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from odradek.client.aio.admin import AsyncAdmin
from odradek.client.types import NewTopic, TopicPartition
from odradek.errors import OdradekError
from odradek.testing.checker import Recorder, check
from odradek.testing.checker.history import Record
from odradek.testing.checker.report import Report
from odradek.testing.workload.hosts import Host, clients
from odradek.testing.workload.journal import LocalJournal
from odradek.testing.workload.plan import COPIES, SETTINGS, Plan, place_of
from odradek.testing.workload.readers import Assigned, Member, open_transactions, read_everything
from odradek.testing.workload.server import Server
from odradek.testing.workload.site import Site

_STUCK_S = 90  # without the end of any transaction
_COPYING_S = 90  # after the last one was written
_MOST_TOLD = 10


@dataclass(frozen=True)
class Verdict:
    """The end of a round.

    Attributes:
        seed: the round's.
        report: the checker's, over the whole history.
        copies: what was copied never, or more than once, in words.
        hanging: partitions with a transaction that nobody ends: last stable offset and end.
        counts: what happened how often.
    """

    seed: int
    report: Report
    copies: tuple[str, ...]
    hanging: Mapping[TopicPartition, tuple[int, int]]
    counts: Counter[str]

    @property
    def sound(self) -> bool:
        """Return whether every promise was kept."""
        return self.report.valid and not self.copies and not self.hanging

    @property
    def crashes(self) -> int:
        """Clients, processes of clients and brokers that were killed."""
        return sum(n for name, n in self.counts.items() if name.startswith(("crash", "kill")))

    def summary(self) -> str:
        """For people."""
        lines = [f"seed {self.seed}: {self.crashes} crashes"]
        lines += [f"  {n:>6} {name}" for name, n in sorted(self.counts.items())]
        # Of what is allowed (G0) the number is enough.
        lines += [self.report.summary(0 if self.report.valid else 3)]
        lines += [f"not copied exactly once: {copy}" for copy in self.copies[:_MOST_TOLD]]
        lines += [f"{tp}: stable up to {lso}, ends at {end}" for tp, (lso, end) in self.hanging.items()]
        lines += ["sound" if self.sound else "NOT SOUND"]
        return "\n".join(lines)


def wrong_copies(records: Iterable[Record]) -> list[str]:
    """Return which records do not have exactly one copy.

    Args:
        records: all that is committed.
    """
    values: dict[str, list[str]] = {topic: [] for topic in COPIES}
    for record in records:
        values[place_of(record.partition)[0]].append(str(record.value))
    wrong = []
    for source, target in COPIES.items():
        if target is None:
            continue
        copies = Counter(value.rpartition(">")[0] for value in values[target])
        wrong += [
            f"{value!r} of {source} is {copies[value]} times in {target}"
            for value in values[source]
            if copies[value] != 1
        ]
        strange = copies.keys() - set(values[source])
        wrong += [f"{value!r} is in {target}, and was never in {source}" for value in sorted(strange)]
    return wrong


class StuckError(RuntimeError):
    """Nothing goes on any more."""


class Brokers(Protocol):
    """The brokers that a round's clients work on, and what fails beneath them."""

    @property
    def address(self) -> str:
        """The bootstrap servers for clients."""

    async def start(self) -> None:
        """Return when clients are served."""

    async def strike(self, rng: random.Random) -> str:
        """Make something fail, and undo it. Returns what it was, for the round's numbers."""

    async def kill(self) -> None:
        """End it."""


async def run_round(plan: Plan, folder: Path, brokers: Brokers | None = None) -> Verdict:
    """Run it.

    Args:
        folder: for the broker's data and log, and `history.jsonl`.
        brokers: default: one broker, in a process of its own, which is killed with SIGKILL.

    Raises:
        StuckError: for a long time no transaction ended.
        RuntimeError: a broker did not start.
    """
    server = Server(folder, {**SETTINGS, **plan.settings}) if brokers is None else brokers
    with (folder / "history.jsonl").open("w", encoding="utf-8") as stream:
        try:
            await server.start()
            return await _on(plan, server, LocalJournal(Recorder(stream)))
        finally:
            await server.kill()


async def _on(plan: Plan, server: Brokers, journal: LocalJournal) -> Verdict:
    site = Site(plan, server.address, journal)
    async with AsyncAdmin(bootstrap_servers=site.address) as admin:
        await admin.create_topics(
            [NewTopic(name, count, plan.replicas) for name, count in plan.partitions.items()]
        )
    host = Host(site, journal)
    writers, copiers = clients(site, False)
    readers: list[Any] = [Member(site, f"m{n}") for n in range(plan.members)] + [Assigned(site, "a")]
    async with asyncio.TaskGroup() as group:
        for client in (*writers, *copiers, *readers):
            group.create_task(client.run())
        if plan.hosted:
            group.create_task(host.run())
        try:
            await _kill_now_and_then(plan, server, host, journal)
            site.finishing.set()
            host.finish()
            await _until_copied(site)
        finally:
            site.finishing.set()
            site.ended.set()
            host.leave()
    hanging = await open_transactions(site)
    records = await read_everything(site, "last")
    report = check(journal.recorder.events)
    return Verdict(plan.seed, report, tuple(wrong_copies(records)), hanging, journal.counts)


async def _kill_now_and_then(plan: Plan, server: Brokers, host: Host, journal: LocalJournal) -> None:
    """Wait until that many transactions have ended; meanwhile have brokers and the host fail."""
    rng = random.Random(f"{plan.seed} kills")
    hosted = plan.host_kills if plan.hosted else 0
    whens = rng.sample(range(plan.transactions // 20, plan.transactions), plan.broker_kills + hosted)
    kills = sorted(zip(whens, ["broker"] * plan.broker_kills + ["host"] * hosted, strict=True))
    for when, victim in kills:
        await _reached(journal, when)
        if victim == "host":
            journal.count("kill -9: host")
            host.kill()
        else:
            journal.count(await server.strike(rng))
    await _reached(journal, plan.transactions)


async def _reached(journal: LocalJournal, number: int) -> None:
    await _until(lambda: journal.counts["transactions"] >= number, lambda: journal.counts["transactions"])


async def _until(done: Callable[[], bool], progress: Callable[[], int]) -> None:
    seen, since = progress(), asyncio.get_running_loop().time()
    while not done():
        await asyncio.sleep(0.01)
        if progress() != seen:
            seen, since = progress(), asyncio.get_running_loop().time()
        elif asyncio.get_running_loop().time() - since > _STUCK_S:
            raise StuckError(f"no transaction ended for {_STUCK_S} s, after {seen}")


async def _until_copied(site: Site) -> None:
    """Copiers go on until everything is copied; what is not by then, they will not be blamed for in vain."""
    deadline = asyncio.get_running_loop().time() + _COPYING_S
    reading = 0
    while asyncio.get_running_loop().time() < deadline:
        reading += 1
        with contextlib.suppress(OdradekError):
            records: list[Record] = await read_everything(site, f"looking.{reading}")
            if not wrong_copies(records) and not await open_transactions(site, 2):
                return
        await asyncio.sleep(0.3)
