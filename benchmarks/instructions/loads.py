"""The loads whose instructions are counted, and how each is put on a broker."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import load
from benchmarks.instructions.brokers import (
    CountedBroker,
    CountedCluster,
    await_quiet,
    count_start,
)
from benchmarks.instructions.callgrind import Callgrind
from benchmarks.instructions.counts import Counts
from benchmarks.peers import SkippedError, in_memory

TIMEOUT_S = 1200.0
"""Of one load: who is counted takes fifty times as long as who is not, and the machine may be busy."""

START = "start"
LEADER, FOLLOWER = 1, 2
_ONE = {"records": 1, "record_bytes": 100}


@dataclass(frozen=True)
class Load:
    """A load of the generator's.

    Attributes:
        title: for the table.
        mode, options: the generator's.
        requests: how many are counted.
        warm_requests: how many come before.
        fill: options of the produce run that fills the topic first; none where it need not be filled.
        counted: where it is put on a cluster, whose leader has the load: the broker that is counted.
    """

    title: str
    mode: str
    options: Mapping[str, object]
    requests: int
    warm_requests: int
    fill: Mapping[str, object] = field(default_factory=dict)
    counted: int | None = None


LOADS: dict[str, Load] = {
    "produce-1": Load("produce 1 × 100 B, 1 connection", "produce", _ONE, 500, 1000),
    "fetch-1000-bytes": Load(
        "fetch of at most 1,000 B",
        "fetch",
        {"max_bytes": 1000},
        500,
        1000,
        fill=_ONE | {"requests": 3000, "in_flight": 5},
    ),
    "produce-50-partitions": Load(
        "produce 50 partitions × 100 B", "produce", _ONE | {"partitions": 50, "per_request": 50}, 50, 100
    ),
    "produce-100": Load(
        "produce 1 × 100 B, 100 connections", "produce", _ONE | {"connections": 100}, 600, 1200
    ),
    "produce-16-kib": Load("produce 16 KiB (147 × 100 B)", "produce", {"batch_bytes": 16_384}, 300, 600),
    "fetch-1-mib": Load(
        "fetch of 1 MiB",
        "fetch",
        {"max_bytes": 1 << 20},
        200,
        200,
        fill={"batch_bytes": 16_384, "requests": 600},
    ),
    "long-poll": Load("produce 1 × 100 B → long poll", "latency", _ONE, 200, 400),
    "commit": Load("commit of one offset", "commit", {}, 150, 300),
    "transaction": Load("transaction of 1 × 100 B", "transactions", _ONE, 40, 80),
    "acks-all-leader": Load(
        "produce 1 × 100 B, acks=all, the leader of three",
        "produce",
        _ONE | {"acks": -1},
        400,
        300,
        counted=LEADER,
    ),
    "acks-all-follower": Load(
        "produce 1 × 100 B, acks=all, a follower", "produce", _ONE | {"acks": -1}, 200, 200, counted=FOLLOWER
    ),
}
"""By a short name. The order is part of it: one broker has them all, one after the other."""

TITLES = {
    **{name: one.title for name, one in LOADS.items()},
    START: "start of an empty broker, until it is ready",
}


def measure(
    names: Collection[str], skipped: dict[str, str], *, with_caches: bool = True
) -> Iterator[tuple[str, Counts]]:
    """Count the loads of these names, one after the other.

    Args:
        names: of `TITLES`.
        skipped: gets those that cannot run here, with the reason.
        with_caches: see `Callgrind`.

    Yields:
        The name of a load, and what was counted.
    """
    yield from _measure_alone(
        [one for one in LOADS if one in names and LOADS[one].counted is None], with_caches
    )
    for name, one in LOADS.items():
        if name in names and one.counted is not None:
            try:
                yield name, _count_in_cluster(name, one.counted, with_caches)
            except SkippedError as why:
                skipped[name] = str(why)
    if START in names:
        with _folder() as folder:
            start = count_start(folder, with_caches=with_caches)
        yield START, Counts.of(start.profile, 1, start.modules)


def _measure_alone(names: Sequence[str], with_caches: bool) -> Iterator[tuple[str, Counts]]:
    if not names:
        return
    with _folder() as folder, ExitStack() as stack:
        broker = CountedBroker(folder, with_caches=with_caches)
        stack.callback(broker.stop)
        broker.start()
        for name in names:
            await_quiet(broker.pid)
            yield name, _count(name, broker.port, broker.pid, broker.callgrind)


def _count(name: str, port: int, pid: int, callgrind: Callgrind, *, create: bool = True) -> Counts:
    """Put a load on the broker that listens to this port, and count what this process does."""
    one = LOADS[name]
    at: dict[str, object] = {"port": port, "topic": name, "create": create}
    # Every second each log is looked at: those of loads before are not to be in the count.
    after: dict[str, object] = {"delete": create}
    at |= {"partitions": one.options.get("partitions", 1)}
    if one.fill:
        load.run("produce", timeout_s=TIMEOUT_S, **at | dict(one.fill), warmup=0, seconds=TIMEOUT_S)
    figures = load.run_counted(
        one.mode,
        callgrind.counting(pid),
        requests=one.requests,
        warm_requests=one.warm_requests,
        timeout_s=TIMEOUT_S,
        **at | after | dict(one.options),
    )
    if figures["again"]:
        raise RuntimeError(f"{one.title}: {figures['again']} requests were sent again, and are counted, too")
    return Counts.of(callgrind.profile, one.requests)


def _count_in_cluster(name: str, counted: int, with_caches: bool) -> Counts:
    with _folder() as folder, ExitStack() as stack:
        cluster = CountedCluster(folder, counted, with_caches=with_caches)
        stack.callback(cluster.stop)
        cluster.start()
        cluster.create_topic(name, 1, LEADER)
        cluster.await_whole(name)
        pid = cluster.pids[counted]
        await_quiet(pid)
        return _count(name, cluster.ports[LEADER], pid, cluster.callgrind, create=False)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="count-", dir=in_memory()) as folder:
        yield Path(folder)
