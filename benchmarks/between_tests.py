"""The time that a test pays for its broker: a new one, or one that is cleaned up behind it.

    python benchmarks/between_tests.py [--rounds N]

Medians of one process, after a first round that imports. `make test` asserts none of them: machines differ.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from odradek import Consumer
from odradek.testing import Broker, Cluster

BARS = {"Broker() ready and gone": 20.0, "clean_up of a broker": 5.0}


def new_broker() -> None:
    """A broker of its own, ready and gone."""
    with Broker():
        pass


def work(server: Broker | Cluster) -> None:
    """A small test: a topic, records, some of them in a transaction, a group that commits."""
    server.create_topic("orders", 3)
    server.seed("orders", [b"tea"] * 10)
    server.seed("orders", [b"milk"] * 10, transaction="committed")
    with Consumer(
        bootstrap_servers=server.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        count = 0
        while count < 20:
            count += len(consumer.poll(0.1))
        consumer.commit()


def timed(
    rounds: int, step: Callable[[], object], before: Callable[[], object] = lambda: None
) -> list[float]:
    """Milliseconds of each round but the first.

    Args:
        rounds: how many count.
        step: is timed.
        before: is done before each, and not timed.
    """
    times = []
    for _ in range(rounds + 1):
        before()
        began = time.perf_counter()
        step()
        times.append((time.perf_counter() - began) * 1000)
    return times[1:]


def show(name: str, times: list[float]) -> None:
    """Print a line."""
    bar = f"{BARS[name]:.0f}" if name in BARS else ""
    quick, slow = min(times), statistics.quantiles(times, n=20)[-1]
    print(f"{name:<34} {statistics.median(times):>7.1f} {quick:>7.1f} {slow:>7.1f} {bar:>5}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    print(f"{'milliseconds':<34} {'median':>7} {'least':>7} {'95 %':>7} {'bar':>5}")
    show("Broker() ready and gone", timed(rounds, new_broker))
    with Broker() as broker:
        show(
            "clean_up of a broker, a topic",
            timed(rounds, broker.clean_up, lambda: broker.create_topic("orders")),
        )
        show("clean_up of a broker", timed(rounds, broker.clean_up, lambda: work(broker)))
    began = time.perf_counter()
    with Cluster(3) as cluster:
        ready = (time.perf_counter() - began) * 1000
        show("Cluster(3) ready", [ready, ready])
        show(
            "clean_up of a cluster of 3", timed(max(2, rounds // 4), cluster.clean_up, lambda: work(cluster))
        )


if __name__ == "__main__":
    main()
