"""A scenario's cluster, its clients, and the verdict on what they were told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster_processes import ClusterProcesses
from odradek import NewTopic
from odradek.testing.checker import Recorder, Send, check
from scenarios.faults.page import Page, Row
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Reading, Workload, Writing

Judged = Callable[..., AbstractContextManager[Run]]


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page:
    """Takes what was done."""
    return Page(request.path.stem.removeprefix("test_"))


@pytest.fixture
def judged(tmp_path: Path, page: Page) -> Judged:
    """Runs a cluster with clients for the length of a block, and judges what they were told.

    `judged(fault, workload, …)` gives a `Run`; see `_judged`.
    """

    def judged(fault: str, workload: Workload, **more: Any) -> AbstractContextManager[Run]:
        return _judged(tmp_path, page, fault, workload, **more)

    return judged


def lost_since_read(recorder: Recorder) -> int:
    """How many acknowledged records the last reader did not find: others may have seen them before."""
    acknowledged: set[object] = set()
    found: set[object] = set()
    for event in recorder.events:
        for one in event.micro if event.type == "ok" else ():
            if isinstance(one, Send):
                acknowledged.add(one.value)
            elif event.process == "last":
                found.update(record.value for record in one.records)
    return len(acknowledged - found)


@contextmanager
def _judged(
    directory: Path,
    page: Page,
    fault: str,
    workload: Workload,
    *,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
    assignment: Mapping[int, list[int]] | None = None,
    reader: Mapping[str, object] | None = None,
    last: int = 10,
    **cluster: Any,
) -> Iterator[Run]:
    """Have a workload go on during a block, then read everything, and judge.

    Args:
        fault: what the page calls the block.
        partitions: of the topic.
        configs: of the topic.
        assignment: its replicas; default: three each.
        reader: configs of the consumer that reads meanwhile.
        last: operations that must be acknowledged after the block.
        cluster: arguments of `ClusterProcesses`.
    """
    history = directory / "history.jsonl"
    sys.stdout.write(f"history: {history}\n")
    with history.open("w", encoding="utf-8") as stream, ClusterProcesses(directory, **cluster) as processes:
        recorder = Recorder(stream)
        with processes.admin() as admin:
            topic = (
                NewTopic(TOPIC, partitions, 3, configs=configs or {})
                if assignment is None
                else NewTopic(TOPIC, replica_assignment=assignment, configs=configs or {})
            )
            admin.create_topics([topic])
        processes.await_all_whole(TOPIC)
        with Writing(processes, recorder, workload, partitions) as writing:
            reading = Reading(processes, recorder, workload, writing, "reader", **(reader or {})).start()
            run = Run(processes, writing, reading, recorder)
            try:
                writing.go_on()
                yield run
                writing.go_on(last)
            except BaseException:
                reading.leave()
                raise
        if run.lost:
            # Who has read what is gone has nothing more to say.
            reading.leave()
        else:
            reading.finish()
        Reading(processes, recorder, workload, writing, "last").start().finish(run.since)
    report = check(recorder.events, allowed=workload.allowed | run.lost | {"G0"})
    anomalies = sum(one.name not in report.allowed for one in report.anomalies)
    if run.lost:
        run.notes.append(f"{lost_since_read(recorder)} acknowledged records are lost, as configured")
    noted = "; ".join(run.notes)
    page.add(Row(fault, str(workload), writing.operations, report.acknowledged, anomalies, noted))
    assert report.valid, f"{history}\n{report.summary()}"
    assert report.acknowledged >= writing.acknowledged * workload.batch > 0
