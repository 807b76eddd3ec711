"""What goes wrong, and when: a schedule that a seed gives, of faults that end by themselves."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.cluster.controller.topic_manager import NewTopic

from .ambushes import PATIENCE_S, dead_isr, deposed_deletion, late_fetch, late_return, quick_return
from .store_sessions import STORE
from .topics import PARTITIONS, PASSING

if TYPE_CHECKING:
    from .cluster import SimulatedCluster

BROKERS = 3
HOUR_MS = 3_600_000
FROM_S, UNTIL_S = 1.0, 21.0
FIRST_FOR_S = 9.0
"""Longer than a broker waits for others of its in-sync sets."""


class Fault(NamedTuple):
    """One of them.

    Attributes:
        at_s: when it begins, seconds after the workload has.
        kind: a key of `KINDS` or of `AMBUSHES`.
        broker, other: whom it is about.
        lasts_s: when it ends, after that.
        amount: whatever else the kind takes.
    """

    at_s: float
    kind: str
    broker: int
    other: int
    lasts_s: float
    amount: int

    def text(self) -> str:
        """As `parse` reads it."""
        return f"{self.at_s:g}/{self.kind}/{self.broker}/{self.other}/{self.lasts_s:g}/{self.amount}"


def parse(text: str) -> list[Fault]:
    """Read faults from a command line, separated by commas."""
    faults = []
    for part in filter(None, text.split(",")):
        at_s, kind, broker, other, lasts_s, amount = part.split("/")
        faults.append(Fault(float(at_s), kind, int(broker), int(other), float(lasts_s), int(amount)))
    return faults


Undo = Callable[[], object]


def _kill(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    machine.pause(False)
    machine.kill()
    return machine.start


def _lose_power(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    if cluster.observer.would_lose(machine.host):
        return _nothing
    machine.pause(False)
    machine.lose_power()
    cluster.observer.power_lost(machine.host)
    return machine.start


def _crash_in_write(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    machine.disk.crash_after = fault.amount
    return machine.start


def _pause(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    machine.pause()
    return lambda: machine.pause(False)


def _cuts(cluster: SimulatedCluster, pairs: list[tuple[str, str]]) -> Undo:
    cluster.network.cuts.update(pairs)
    return lambda: cluster.network.cuts.difference_update(pairs)


def _cut(cluster: SimulatedCluster, fault: Fault) -> Undo:
    one, other = f"b{fault.broker}", f"b{fault.other}"
    return _cuts(cluster, [(one, other), (other, one)])


def _cut_one_way(cluster: SimulatedCluster, fault: Fault) -> Undo:
    return _cuts(cluster, [(f"b{fault.broker}", f"b{fault.other}")])


def _isolate(cluster: SimulatedCluster, fault: Fault) -> Undo:
    one = f"b{fault.broker}"
    others = [f"b{other}" for other in range(BROKERS) if other != fault.broker]
    if fault.amount % 2:
        others.append(STORE)
    return _cuts(cluster, [pair for other in others for pair in ((one, other), (other, one))])


def _cut_store(cluster: SimulatedCluster, fault: Fault) -> Undo:
    one = f"b{fault.broker}"
    return _cuts(cluster, [[(one, STORE)], [(STORE, one)], [(one, STORE), (STORE, one)]][fault.amount % 3])


def _store_away(cluster: SimulatedCluster, fault: Fault) -> Undo:
    return _cuts(cluster, [(f"b{one}", STORE) for one in range(BROKERS)])


def _late_store(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.server.is_late = True

    def undo() -> None:
        cluster.server.is_late = False

    return undo


def _expire(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.machines[fault.broker].expire()
    return _nothing


def _reset(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.network.reset(f"b{fault.broker}", f"b{fault.other}")
    return _nothing


def _reset_clients(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.network.reset(f"b{fault.broker}", "clients")
    return _nothing


def _slow_disk(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    machine.slow_disk(True)
    return lambda: machine.slow_disk(False)


def _slow_network(cluster: SimulatedCluster, fault: Fault) -> Undo:
    host = f"b{fault.broker}"
    cluster.network.slow.add(host)
    return lambda: cluster.network.slow.discard(host)


def _jump(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.machines[fault.broker].clock.jump(fault.amount)
    return _nothing


def _stop(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    machine.stop()
    return machine.start


def _partitions() -> list[tuple[str, int]]:
    return [(topic, index) for topic, count in sorted(PARTITIONS.items()) for index in range(count)]


def _partition(fault: Fault) -> tuple[str, int]:
    names = _partitions()
    return names[fault.amount % len(names)]


def _break_folder(cluster: SimulatedCluster, fault: Fault) -> Undo:
    machine = cluster.machines[fault.broker]
    machine.break_folder(fault.other, is_full=bool(fault.amount % 2))
    return machine.mend_folder


def _empty_disk(cluster: SimulatedCluster, fault: Fault) -> Undo:
    """A broker comes back with an empty disk: while the others live, or before they are back."""
    machine = cluster.machines[fault.broker]
    if cluster.observer.would_lose(machine.host) or cluster.is_last(fault.broker):
        return _nothing
    killed = cluster.machines if fault.amount % 2 else [machine]
    for one in killed:
        one.pause(False)
        one.kill()
        one.expire()
    # Of two disks only one may have been lost.
    replaced = machine.folders[:1] if fault.other % 2 else machine.folders
    machine.empty(replaced)
    cluster.observer.disk_emptied(machine.host, replaced)
    machine.start()
    for one in killed:
        cluster.world.control.call_later(FIRST_FOR_S, one.start)
    return _nothing


def _elect(cluster: SimulatedCluster, fault: Fault) -> Undo:
    topic, index = _partition(fault)
    cluster.administer(lambda controller: controller.elect_leader(topic, index, unclean=False))
    return _nothing


def _reassign(cluster: SimulatedCluster, fault: Fault) -> Undo:
    """A replica goes, and comes back."""
    topic, index = _partition(fault)
    fewer = [one for one in range(BROKERS) if one != fault.broker]
    replicas = [fault.other, *(one for one in range(BROKERS) if one != fault.other)]
    cluster.administer(lambda controller: controller.reassign(topic, index, fewer))
    return lambda: cluster.administer(lambda controller: controller.reassign(topic, index, replicas))


def _recreate(cluster: SimulatedCluster, fault: Fault) -> Undo:
    """A topic is deleted, and made again under its name."""
    cluster.administer(lambda controller: controller.delete_topics([PASSING]))
    again = NewTopic(PASSING, 1, BROKERS)
    return lambda: cluster.administer(lambda controller: controller.create_topic(again))


def _late_fetch(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.lie_in_wait(late_fetch(cluster, *_partition(fault)))
    return _nothing


def _late_return(cluster: SimulatedCluster, fault: Fault) -> Undo:
    cluster.lie_in_wait(late_return(cluster, cluster.machines[fault.broker]))
    return _nothing


def _deposed_deletion(cluster: SimulatedCluster, fault: Fault) -> Undo:
    away = [cluster.machines[fault.broker], cluster.machines[fault.other]]
    cluster.lie_in_wait(deposed_deletion(cluster, away))
    return _nothing


def _quick_return(cluster: SimulatedCluster, fault: Fault) -> Undo:
    names = _partitions()
    first = fault.amount % len(names)
    cluster.lie_in_wait(quick_return(cluster, names[first:] + names[:first]))
    return _nothing


def _dead_isr(cluster: SimulatedCluster, fault: Fault) -> Undo:
    names = _partitions()
    first = fault.amount % len(names)
    cluster.lie_in_wait(dead_isr(cluster, names[first:] + names[:first]))
    return _nothing


def _nothing() -> None:
    pass


KINDS: dict[str, tuple[Callable[[SimulatedCluster, Fault], Undo], float]] = {
    "kill": (_kill, 3),
    "power": (_lose_power, 2),
    "crash": (_crash_in_write, 2),
    "pause": (_pause, 2),
    "cut": (_cut, 2),
    "cut-one-way": (_cut_one_way, 3),
    "isolate": (_isolate, 2),
    "cut-store": (_cut_store, 2),
    "store-away": (_store_away, 0.5),
    "late-store": (_late_store, 1),
    "expire": (_expire, 2),
    "reset": (_reset, 2),
    "reset-clients": (_reset_clients, 1),
    "slow-disk": (_slow_disk, 1),
    "slow-network": (_slow_network, 1),
    "jump": (_jump, 1),
    "stop": (_stop, 1),
    "elect": (_elect, 1),
    "reassign": (_reassign, 1),
    "recreate": (_recreate, 1),
}
"""What each kind does, and how often it comes."""

FOLDER = "folder"
QUICK_RETURN = "quick-return"

LATER: dict[str, tuple[Callable[[SimulatedCluster, Fault], Undo], float, float]] = {
    FOLDER: (_break_folder, 0.15, UNTIL_S),
    "empty-disk": (_empty_disk, 0.2, UNTIL_S - 5 - FIRST_FOR_S),
    "dead-isr": (_dead_isr, 0.15, UNTIL_S - PATIENCE_S),
}
"""Those that were added later, how many seeds have one, and until when: all others stay as they are."""

AMBUSHES: dict[str, Callable[[SimulatedCluster, Fault], Undo]] = {
    "late-fetch": _late_fetch,
    "late-return": _late_return,
    "deposed-deletion": _deposed_deletion,
    QUICK_RETURN: _quick_return,
}
"""Those of `ambushes`. A seed has three at most: each takes seconds, and others may spoil it meanwhile."""

QUICK_RETURNS = 0.1
"""How many seeds have one, drawn behind all else: what the other seeds do is what it was before."""


def begin(cluster: SimulatedCluster, fault: Fault) -> Undo:
    """Have a fault happen; gives what ends it."""
    happen = AMBUSHES.get(fault.kind) or (KINDS.get(fault.kind) or LATER[fault.kind])[0]
    return happen(cluster, fault)


def folders(faults: Sequence[Fault]) -> list[str]:
    """The data folders of each machine: two where one fails alone."""
    return ["/data", "/more"] if any(fault.kind == FOLDER for fault in faults) else ["/data"]


def schedule(seed: int) -> list[Fault]:
    """The faults of a seed, in the order of their times."""
    rng = random.Random(f"faults {seed}")
    # Each seed prefers some kinds: all of them at once hide each other.
    chosen = rng.sample(sorted(KINDS), rng.randint(3, 8))
    weights = [KINDS[kind][1] for kind in chosen]
    faults = []

    def add(kinds: list[str], weights: list[float], until_s: float) -> None:
        broker, other = rng.sample(range(BROKERS), 2)
        (kind,) = rng.choices(kinds, weights)
        lasts_s = rng.choice((rng.uniform(0.1, 2), rng.uniform(1, 8), rng.uniform(5, 14)))
        amount = rng.choice((-60_000, -2_000, 2_000, 6 * HOUR_MS)) if kind == "jump" else rng.randint(0, 60)
        faults.append(
            Fault(round(rng.uniform(FROM_S, until_s), 3), kind, broker, other, round(lasts_s, 3), amount)
        )

    for _ in range(rng.randint(3, 12)):
        add(chosen, weights, UNTIL_S)
    others = sorted(AMBUSHES.keys() - {QUICK_RETURN})
    for _ in range(rng.choice((0, 1, 2))):
        add(others, [1.0] * len(others), UNTIL_S - PATIENCE_S)
    if rng.random() < QUICK_RETURNS:
        add([QUICK_RETURN], [1.0], UNTIL_S - PATIENCE_S)
    rng = random.Random(f"behind {seed}")
    for kind, (_, share, until_s) in LATER.items():
        if rng.random() < share:
            add([kind], [1.0], until_s)
    return sorted(faults)
