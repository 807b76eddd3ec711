"""Faults of brokers' processes, each undone before it returns, with acknowledgements meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC

Fault = Callable[[Run], None]


def kill_leader(run: Run) -> None:
    kill(run, run.leader())


def kill_controller(run: Run) -> None:
    run.leader()
    kill(run, run.cluster.controller())


def bounce_leader(run: Run) -> None:
    bounce(run, run.leader())


def bounce_controller(run: Run) -> None:
    run.leader()
    bounce(run, run.cluster.controller())


def kill(run: Run, broker: int) -> None:
    """Kill a broker, and start it again when others have gone on."""
    run.cluster.kill(broker)
    run.writing.go_on()
    run.cluster.start(broker)


def bounce(run: Run, broker: int) -> None:
    """Stop a broker in good order, and start it again when others have gone on."""
    run.cluster.stop(broker)
    run.writing.go_on()
    run.cluster.start(broker)


def pause_leader(run: Run) -> None:
    """Until its session has ended and another leads; it goes on with requests in its buffers."""
    broker = run.leader()
    run.cluster.pause(broker)
    try:
        run.await_other_leader(broker)
        run.writing.go_on()
    finally:
        run.cluster.resume(broker)


def pause_follower(run: Run) -> None:
    """Until it is not in sync."""
    broker = run.follower()
    run.cluster.pause(broker)
    try:
        run.await_out_of_sync(broker)
        run.writing.go_on()
    finally:
        run.cluster.resume(broker)


def again(run: Run, fault: Fault, times: int) -> None:
    """Have a fault so many times, each when all are in sync again."""
    for _ in range(times):
        fault(run)
        run.cluster.await_all_whole(TOPIC)
