"""All faults at random, under transactions, copies and groups whose clients die as well.

`make faults FAULT_MINUTES=60 SEED=7` says for how long, and with which seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_network import CLIENTS, ZOOKEEPER
from cluster_processes import ClusterProcesses
from odradek.testing.workload.plan import IN, SETTINGS, Plan
from odradek.testing.workload.round import run_round
from scenarios.faults.page import Page, Row

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(0)]
MINUTES = float(os.environ.get("ODRADEK_FAULT_MINUTES", "3"))
SEED = int(os.environ.get("ODRADEK_FAULT_SEED", "0")) or secrets.randbits(32)
TRANSACTIONS, STRIKES, HOST_KILLS = 1_000, 10, 3
SHORTEST_S, LONGEST_S = 0.1, 6.0

Strike = Callable[["Struck", random.Random], str]


class Struck:
    """A cluster for a round of `odradek.testing.workload`, in which anything fails."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self.cluster = cluster
        self.names: list[str] = []

    @property
    def address(self) -> str:
        """What clients are given."""
        return self.cluster.bootstrap_servers

    async def start(self) -> None:
        """It has been started."""

    async def kill(self) -> None:
        """Whoever started it ends it."""

    async def strike(self, chance: random.Random) -> str:
        """Have one thing fail, and undo it; sometimes wait until all is well again."""
        name = await asyncio.to_thread(chance.choice(STRIKES_AT_RANDOM), self, chance)
        self.names.append(name)
        if chance.random() < 0.5:
            await asyncio.to_thread(self.cluster.await_all_whole, IN)
        return f"fault: {name}"

    def some(self, chance: random.Random) -> int:
        """A broker: often the leader of a partition, or the controller."""
        which = chance.random()
        if which < 0.4:
            return self.cluster.await_partition(IN, lambda one: one.leader >= 0).leader
        return self.cluster.controller() if which < 0.6 else chance.choice(self.cluster.live)


def last(chance: random.Random) -> None:
    """Have a fault last for a while that the seed chooses."""
    time.sleep(chance.uniform(SHORTEST_S, LONGEST_S))


def kill_one(struck: Struck, chance: random.Random) -> str:
    broker = struck.some(chance)
    struck.cluster.kill(broker)
    last(chance)
    struck.cluster.start(broker)
    return "kill"


def kill_more(struck: Struck, chance: random.Random) -> str:
    brokers = chance.sample(struck.cluster.live, chance.choice((2, 3)))
    struck.cluster.kill(*brokers)
    last(chance)
    struck.cluster.start(*brokers)
    return f"kill {len(brokers)} at once"


def stop_one(struck: Struck, chance: random.Random) -> str:
    broker = struck.some(chance)
    struck.cluster.stop(broker)
    last(chance)
    struck.cluster.start(broker)
    return "stop"


def pause_one(struck: Struck, chance: random.Random) -> str:
    broker = struck.some(chance)
    struck.cluster.pause(broker)
    try:
        last(chance)
    finally:
        struck.cluster.resume(broker)
    return "pause"


def cut_two(struck: Struck, chance: random.Random) -> str:
    one, other = chance.sample(struck.cluster.live, 2)
    one_way = chance.random() < 0.5
    struck.cluster.network.cut(str(one), str(other), one_way=one_way)
    last(chance)
    struck.cluster.network.heal()
    return "one-way cut" if one_way else "cut"


def cut_off(struck: Struck, chance: random.Random) -> str:
    broker = struck.some(chance)
    others = [str(other) for other in struck.cluster.live if other != broker]
    for other in chance.choice(([*others, ZOOKEEPER, CLIENTS], [*others, ZOOKEEPER], others, [ZOOKEEPER])):
        struck.cluster.network.cut(str(broker), other)
    last(chance)
    struck.cluster.network.heal()
    return "cut off from several"


def slow_down(struck: Struck, chance: random.Random) -> str:
    who = chance.choice((CLIENTS, ZOOKEEPER, str(struck.some(chance))))
    struck.cluster.network.slow(who, chance.uniform(0.01, 0.3))
    last(chance)
    struck.cluster.network.heal()
    return "slow network"


def zookeeper_away(struck: Struck, chance: random.Random) -> str:
    zookeeper = struck.cluster.zookeeper
    if chance.random() < 0.5:
        zookeeper.pause()
        last(chance)
        zookeeper.resume()
        return "ZooKeeper paused"
    zookeeper.kill()
    last(chance)
    zookeeper.start()
    return "ZooKeeper killed"


STRIKES_AT_RANDOM: tuple[Strike, ...] = (
    kill_one,
    kill_one,
    kill_more,
    stop_one,
    pause_one,
    cut_two,
    cut_off,
    slow_down,
    zookeeper_away,
)


def test_every_promise_is_kept(tmp_path: Path, page: Page) -> None:
    until = time.monotonic() + 60 * MINUTES
    seed = SEED
    while seed == SEED or time.monotonic() < until:
        one_round(tmp_path / str(seed), page, seed)
        seed += 1


def one_round(folder: Path, page: Page, seed: int) -> None:
    folder.mkdir()
    sys.stdout.write(f"ODRADEK_FAULT_SEED={seed}, history: {folder / 'history.jsonl'}\n")
    sys.stdout.flush()
    plan = Plan(seed, TRANSACTIONS, broker_kills=STRIKES, host_kills=HOST_KILLS, replicas=3)
    with ClusterProcesses(folder, settings=SETTINGS, network=True) as cluster:
        struck = Struck(cluster)
        verdict = asyncio.run(run_round(plan, folder, struck))
    report = verdict.report
    anomalies = sum(one.name not in report.allowed for one in report.anomalies)
    page.add(
        Row(
            f"at random, seed {seed}: {', '.join(sorted(set(struck.names)))}",
            "transactions, copies, groups; clients killed",
            verdict.counts["transactions"],
            report.acknowledged,
            anomalies + len(verdict.copies) + len(verdict.hanging),
            f"{len(struck.names)} faults, {verdict.crashes} clients killed",
        )
    )
    assert verdict.sound, f"{folder}\n{verdict.summary()}"
