"""All brokers are restarted one after the other, and clients see no error."""

from __future__ import annotations

import pytest

from scenarios.faults.conftest import Judged
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
PARTITIONS = 6


@pytest.mark.parametrize(
    "workload", [Workload(), Workload("lz4", idempotent=False), Workload("zstd", transactional=True)], ids=str
)
@pytest.mark.parametrize("when", ["first", "last"])
def test_no_error_at_clients(judged: Judged, when: str, workload: Workload) -> None:
    with judged(f"rolling restart, controller {when}", workload, partitions=PARTITIONS) as run:
        run.cluster.await_all_whole(TOPIC)
        controller = run.cluster.controller()
        order = sorted(run.cluster.live, key=lambda one: (one == controller) != (when == "first"))
        assert order[0 if when == "first" else -1] == controller
        run.writing.forget_gaps()
        for broker in order:
            run.cluster.stop(broker)
            run.cluster.start(broker)
            run.cluster.await_all_whole(TOPIC)
        gap = run.writing.longest_gap_s
        failed = run.writing.operations - run.writing.acknowledged
        run.notes.append(f"longest gap {gap * 1000:.0f} ms; operations that failed: {failed}")
        assert failed == 0
