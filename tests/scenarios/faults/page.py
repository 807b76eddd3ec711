"""docs/fault_tests.md: a row for each scenario and workload, as they were judged.

Tests append rows to a file, each a line, so that several processes may run them; this makes a page of it:

    python -m scenarios.faults.page ROWS PAGE [NOTE]

NOTE says what a reader has to know of the machine, for the times in the last column.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from scenarios.faults.elsewhere import ELSEWHERE

HEAD = """# Fault tests

This page shows what became of acknowledged records while brokers were killed, paused, cut off or restarted.
It is for those who want to know what a cluster survives, and is written by `make faults`. A number above 0
under *anomalies* would mean that a promise was broken.

Unless the row says otherwise, three brokers and a ZooKeeper run as processes, with replication factor 3,
`min.insync.replicas=2` and `acks=all`. Producers write all the while and a consumer reads beside them. At
the end another consumer reads everything, and the checker judges the history ([checker.md](checker.md)).

An operation is a batch of records, or a transaction. An operation that ended without an answer does not
count as acknowledged, and its records may be there or not. Producers without idempotence may write a record
twice when they send it again; that is no anomaly.

"""
COLUMNS = ("fault", "workload", "operations", "acknowledged records", "anomalies", "noted")


#: The files of scenarios, as the page has them.
ORDER = (
    "replication",
    "rolling_restart",
    "rolling_security",
    "cuts",
    "zookeeper",
    "log_dirs",
    "offline",
    "truncation",
    "reassignment",
    "topic_life",
    "many_partitions",
    "nearest_replica",
    "groups",
    "round_trip",
    "transactional_copy",
    "spark",
    "random_mix",
    "workers",
)


@dataclass(frozen=True)
class Row:
    """One scenario with one workload."""

    fault: str
    workload: str
    operations: int
    acknowledged: int
    anomalies: int
    noted: str = ""


@dataclass(frozen=True)
class Skipped:
    """A scenario that could not be run here."""

    fault: str
    why: str


class Page:
    """Where the tests of a file tell what was done: in the file that `ODRADEK_FAULT_ROWS` names, if any.

    Args:
        scenarios: the name of the tests' file, without `test_`.
    """

    def __init__(self, scenarios: str) -> None:
        self._scenarios = scenarios

    def add(self, row: Row | Skipped) -> None:
        """Tell of a scenario."""
        if path := os.environ.get("ODRADEK_FAULT_ROWS"):
            line = json.dumps([self._scenarios, type(row).__name__, asdict(row)])
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def text(lines: list[str], note: str = "") -> str:
    """The page of what was told, with what there is to say of the machine."""
    told = [json.loads(line) for line in lines]
    told.sort(key=lambda one: ORDER.index(one[0]))
    rows = [Row(**fields) for _, kind, fields in told if kind == "Row"]
    skipped = [Skipped(**fields) for _, kind, fields in told if kind == "Skipped"]
    anomalies = sum(row.anomalies for row in rows)
    records = sum(row.acknowledged for row in rows)
    page = [f"{len(rows)} runs, {records:,} acknowledged records, anomalies: {anomalies}.\n"]
    page += [f"{note}\n"] if note else []
    page += [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
    for row in rows:
        cells = (row.fault, row.workload, f"{row.operations:,}", f"{row.acknowledged:,}")
        page.append(_line([*cells, str(row.anomalies), row.noted]))
    page += ["", "## Not here", "", _line(["situation", "where, or why not"]), _line(["---", "---"])]
    page += [_line(pair) for pair in ELSEWHERE]
    page += [_line((one.fault, f"skipped: {one.why}")) for one in skipped]
    return HEAD + "\n".join(page) + "\n"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(
        text(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines(), " ".join(sys.argv[3:])),
        encoding="utf-8",
    )
