"""docs/fault_tests.md: a row for each scenario and workload, as they were judged."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from scenarios.faults.elsewhere import ELSEWHERE

HEAD = """# Fault tests

Written by `make faults`: three brokers and a ZooKeeper as processes, replication factor 3,
`min.insync.replicas=2`, `acks=all`, unless the row says otherwise. Producers write all the while, a consumer
reads beside them, another one reads everything at the end, and the checker judges the history
([checker.md](checker.md)). An operation is a batch of records, or a transaction; one that has ended without
an answer is none of the acknowledged, and its records may be there or not. Producers without idempotence may
write a record twice when they send it again: no anomaly there.

"""
COLUMNS = ("fault", "workload", "operations", "acknowledged records", "anomalies", "noted")


@dataclass(frozen=True)
class Row:
    """One scenario with one workload."""

    fault: str
    workload: str
    operations: int
    acknowledged: int
    anomalies: int
    noted: str = ""


@dataclass
class Page:
    """What was done, and what was skipped and why."""

    rows: list[Row] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def text(self) -> str:
        """The page."""
        anomalies = sum(row.anomalies for row in self.rows)
        records = sum(row.acknowledged for row in self.rows)
        lines = [
            f"{len(self.rows)} runs, {records:,} acknowledged records, anomalies: {anomalies}.\n",
            _line(COLUMNS),
            _line(["---"] * len(COLUMNS)),
        ]
        for row in self.rows:
            cells = (row.fault, row.workload, f"{row.operations:,}", f"{row.acknowledged:,}")
            lines.append(_line([*cells, str(row.anomalies), row.noted]))
        lines += ["", "## Not here", "", _line(["situation", "where, or why not"]), _line(["---", "---"])]
        lines += [
            _line(pair) for pair in [*ELSEWHERE, *((what, f"skipped: {why}") for what, why in self.skipped)]
        ]
        return HEAD + "\n".join(lines) + "\n"

    def write(self) -> None:
        """Write the file that `ODRADEK_FAULT_REPORT` names."""
        if path := os.environ.get("ODRADEK_FAULT_REPORT"):
            Path(path).write_text(self.text())


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")
