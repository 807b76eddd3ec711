"""Leaders, controllers and followers that die, are stopped, and are paused, with every kind of producer."""

from __future__ import annotations

import pytest

from scenarios.faults import brokers
from scenarios.faults.conftest import Judged
from scenarios.faults.workloads import Workload

pytestmark = pytest.mark.slow

TWO_LEADERS = "leader paused until another led, then resumed with requests in its buffers, twice"
FAULTS = (
    ("leader killed five times", brokers.kill_leader, 5),
    ("controller killed five times", brokers.kill_controller, 5),
    ("leader stopped cleanly five times", brokers.bounce_leader, 5),
    ("controller stopped cleanly five times", brokers.bounce_controller, 5),
    (TWO_LEADERS, brokers.pause_leader, 2),
    ("follower paused until out of sync, twice", brokers.pause_follower, 2),
)
KINDS = (
    {"idempotent": True},
    {"idempotent": False},
    {"transactional": True},
)
CODECS = ("none", "lz4", "zstd", "gzip", "snappy")
CASES = [
    pytest.param(name, fault, times, workload, id=f"{name}, {workload}")
    for at, (name, fault, times) in enumerate(FAULTS)
    for kind, more in enumerate(KINDS)
    # Each kind meets each codec.
    for workload in [Workload(CODECS[(at + 2 * kind) % len(CODECS)], **more)]
]


def test_a_killed_leader(judged: Judged) -> None:
    with judged("leader killed", Workload()) as run:
        brokers.again(run, brokers.kill_leader, 1)


@pytest.mark.faults
@pytest.mark.parametrize(("name", "fault", "times", "workload"), CASES)
def test_a_broker_fails(
    judged: Judged, name: str, fault: brokers.Fault, times: int, workload: Workload
) -> None:
    with judged(name, workload) as run:
        brokers.again(run, fault, times)
