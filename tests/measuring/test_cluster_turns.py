"""Clusters that are measured in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import clusters
from benchmarks.clusters import KAFKA_KRAFT, KAFKA_ZK, OURS, in_turns


class Runs:
    """Clusters that only seem to run.

    Attributes:
        absent: those that cannot.
        ended: those that have run, in order.
    """

    def __init__(self) -> None:
        self.absent: set[str] = set()
        self.ended: list[str] = []

    @contextmanager
    def running(self, name: str, skipped: dict[str, str], session_ms: int) -> Iterator[Any]:
        assert session_ms == 3000
        if name in self.absent:
            skipped[name] = name.lower()
            yield None
            return
        try:
            yield SimpleNamespace(name=name, version=f"{name} 1")
        finally:
            self.ended.append(name)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setattr(clusters, "running", runs.running)
    return runs


def test_each_has_its_rounds_and_one_runs_at_a_time(runs: Runs) -> None:
    measured: list[tuple[int, str, int]] = []
    turns = in_turns(
        {OURS: 3, KAFKA_KRAFT: 1, KAFKA_ZK: 2},
        lambda number, cluster: measured.append((number, cluster.name, len(runs.ended))),
        3000,
    )
    order = [(1, OURS), (1, KAFKA_KRAFT), (1, KAFKA_ZK), (2, OURS), (2, KAFKA_ZK), (3, OURS)]
    assert measured == [(*one, before) for before, one in enumerate(order)]
    assert turns.versions == {name: f"{name} 1" for name in (OURS, KAFKA_KRAFT, KAFKA_ZK)}
    assert turns.skipped == {}


def test_who_cannot_run_is_left_out_and_ours_has_to(runs: Runs) -> None:
    runs.absent.add(KAFKA_ZK)
    turns = in_turns({OURS: 2, KAFKA_ZK: 2}, lambda number, cluster: None, 3000)
    assert runs.ended == [OURS, OURS]
    assert (turns.versions, turns.skipped) == ({OURS: f"{OURS} 1"}, {KAFKA_ZK: KAFKA_ZK.lower()})
    runs.absent.add(OURS)
    with pytest.raises(RuntimeError, match=f"{OURS} failed"):
        in_turns({OURS: 1}, lambda number, cluster: None, 3000)


def test_a_cluster_ends_when_measuring_fails(runs: Runs) -> None:
    def fail(number: int, cluster: clusters.Cluster) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        in_turns({OURS: 1}, fail, 3000)
    assert runs.ended == [OURS]
