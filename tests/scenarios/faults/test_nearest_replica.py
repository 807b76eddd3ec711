"""A consumer reads from the replica in its rack, which dies (KIP-392)."""

from __future__ import annotations

import pytest

from cluster_network import CLIENTS
from odradek.replication.replica_selector import RACK_AWARE_SELECTOR
from scenarios.faults.conftest import Judged
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
SETTINGS = {"replica.selector.class": RACK_AWARE_SELECTOR}
#: Broker 0 leads by preference; the reader is in the rack of broker 1.
NEAREST = 1
RECORDS = 500


@pytest.mark.parametrize("how", ["killed", "stopped cleanly", "paused"])
@pytest.mark.parametrize("workload", [Workload(), Workload("lz4", transactional=True)], ids=str)
def test_the_nearest_replica_dies(judged: Judged, how: str, workload: Workload) -> None:
    with judged(
        f"fetch from the nearest replica, which is {how}",
        workload,
        assignment={0: [0, 1, 2]},
        reader={"client_rack": f"rack-{NEAREST}", "metadata_max_age_ms": 500, "request_timeout_ms": 5_000},
        network=True,
        settings=SETTINGS,
        own=lambda broker: {"broker.rack": f"rack-{broker}"},
    ) as run:
        cluster = run.cluster

        def reads_from_nearest() -> bool:
            before = cluster.network.passed[str(NEAREST), CLIENTS]
            run.reading.go_on(RECORDS)
            # No record is shorter than its value of five bytes.
            return cluster.network.passed[str(NEAREST), CLIENTS] - before > RECORDS * 5

        cluster.wait_until(reads_from_nearest)
        if how == "paused":
            cluster.pause(NEAREST)
            run.await_out_of_sync(NEAREST)
        elif how == "killed":
            cluster.kill(NEAREST)
        else:
            cluster.stop(NEAREST)
        run.writing.go_on()
        run.reading.go_on(RECORDS)
        if how == "paused":
            cluster.resume(NEAREST)
        else:
            cluster.start(NEAREST)
        cluster.await_whole(TOPIC)
        cluster.wait_until(reads_from_nearest)
