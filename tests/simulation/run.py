"""One simulation: a seed, its faults, and what came of it."""

from __future__ import annotations

from . import isolation  # isort: skip

import asyncio
import gc
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.errors import OdradekError
from odradek.testing.checker import Recorder, check
from odradek.testing.workload.journal import LocalJournal
from odradek.testing.workload.readers import open_transactions, read_everything

from .cluster import NotInTime, SimulatedCluster
from .faults import UNTIL_S, Fault, folders, schedule
from .invariants import Hooks
from .topics import CHECKED, PASSING, SMALL, SMALL_BYTES
from .workload import clients, new_site
from .world import Livelock, World

SETTLE_S = 90.0
COPY_S = 60.0


class Broken(Exception):
    """An invariant does not hold."""


@dataclass
class Outcome:
    """How a simulation ended.

    Attributes:
        seed, faults: what it was.
        problems: invariants that did not hold, in words; empty when all is well.
        digest, events: of its trace, and how many events that has.
        forgiven: partitions whose last in-sync replica lost power.
        acknowledged: acks=all requests that were answered well.
        counts: what clients met how often.
    """

    seed: int
    faults: Sequence[Fault]
    problems: list[str] = field(default_factory=list)
    digest: str = ""
    events: int = 0
    forgiven: int = 0
    acknowledged: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] | None = None


class _Problems(logging.Handler):
    """Bugs that code under test has logged."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            formatted = logging.Formatter().format(record)
            self._world.problems.append(f"at {self._world.now_s:.3f} s, logged: {formatted}")


class _Watched(World):
    """Ends at the first problem."""

    def turn(self) -> None:
        super().turn()
        if self.problems:
            raise Broken


def simulate(seed: int, faults: Sequence[Fault] | None = None, *, keep_trace: bool = False) -> Outcome:
    """Run the simulation of a seed.

    Args:
        seed: of all that is left to chance.
        faults: those of the seed when None.
        keep_trace: keep the trace.
    """
    outcome = Outcome(seed, schedule(seed) if faults is None else faults)
    world = _Watched(seed, keep_trace=keep_trace)
    isolation.use(seed, lambda: world.now_s)
    hooks = Hooks()
    handler = _Problems(world)
    logger = logging.getLogger("odradek")
    logger.addHandler(handler)
    world_log = logging.getLogger("simulation")
    world_log.addHandler(handler)
    cluster = SimulatedCluster(world, hooks, folders(outcome.faults))
    journal = LocalJournal(Recorder())
    try:
        world.run(_run(cluster, outcome, journal))
    except Broken:
        pass
    except (NotInTime, Livelock) as late:
        world.problems.append(str(late))
    finally:
        logger.removeHandler(handler)
        world_log.removeHandler(handler)
        outcome.problems = list(world.problems)
        hooks.close()
        _bury(world)
    outcome.digest, outcome.events, outcome.trace = world.digest, world.events, world.trace
    outcome.forgiven = len(cluster.observer.forgiven)
    outcome.acknowledged = cluster.observer.acknowledged
    outcome.counts = journal.counts
    return outcome


def _bury(world: World) -> None:
    """Let go of a world: what was under way in it ends with errors that nobody is to hear of."""
    sys.unraisablehook = lambda _: None
    logging.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world.close()
        gc.collect()
    logging.disable(logging.NOTSET)


async def _run(cluster: SimulatedCluster, outcome: Outcome, journal: LocalJournal) -> None:
    world = cluster.world
    cluster.start()
    await cluster.until(lambda: all(one.is_started for one in cluster.machines), 60, "the start")
    for topic, count in {**CHECKED, PASSING: 1}.items():
        limit = {"max.message.bytes": str(SMALL_BYTES)} if topic == SMALL else None
        await cluster.create_topic(topic, count, limit)
    process = world.loop("clients")
    process.network = cluster.network
    site = new_site(outcome.seed, cluster.bootstrap_servers, journal)
    working = {who: process.create_task(one.run()) for who, one in clients(site).items()}
    await cluster.suffer(list(outcome.faults))
    await asyncio.sleep(max(0.0, UNTIL_S - 5 - world.now_s))
    await cluster.heal()
    site.finishing.set()
    await asyncio.sleep(2)
    site.ended.set()
    await cluster.until(
        lambda: all(one.done() or cluster.gave_up(who) for who, one in working.items()),
        SETTLE_S,
        "the clients' end",
    )
    for one in working.values():
        if one.done():
            one.result()
    await cluster.settle(SETTLE_S)
    judging = process.create_task(_judge(site, journal, outcome))
    await cluster.until(judging.done, SETTLE_S, "everything is read")
    world.problems += [] if cluster.observer.forgiven else judging.result()
    judging.result()
    await asyncio.sleep(0.1)


async def _judge(site: Any, journal: LocalJournal, outcome: Outcome) -> list[str]:
    """Read everything, and ask the checker."""
    hanging = await open_transactions(site, 40)
    while True:
        try:
            await read_everything(site, "last")
            break
        except OdradekError:
            journal.lost("last")
    problems = [f"{tp}: stable up to {lso}, ends at {end}" for tp, (lso, end) in hanging.items()]
    report = check(journal.recorder.events)
    if not report.valid:
        problems.append(report.summary(3))
    return problems
