"""How a query is doing, worked out of its progress; and what watches it."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.types import TopicPartition
from odradek.spark.watching.progress import lag_by_partition, line_of, offsets_behind_latest, sight_of

END = {"t": {"0": 5, "1": 10}, "t#ipB6yNIkQdu9ZDXNDDHZXw": {}}
LATEST = {"t": {"0": 9, "1": 10, "2": 2}}
BEHIND = {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "4", "avgOffsetsBehindLatest": "2.0"}
LAG = {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0, TopicPartition("t", 2): 2}
PROGRESS = {
    "id": "7b1f",
    "name": "copy",
    "batchId": 12,
    "numInputRows": 1204,
    "inputRowsPerSecond": 803.4,
    "processedRowsPerSecond": 912.0,
    "durationMs": {"addBatch": 98, "triggerExecution": 1142, "walCommit": 9},
    "sources": [{"endOffset": END, "latestOffset": LATEST}, {"endOffset": 7, "latestOffset": None}],
    "sink": {"description": "x", "numOutputRows": 1204},
}


@pytest.mark.parametrize(
    "progress",
    [
        {"endOffset": END, "latestOffset": LATEST},
        {"endOffset": json.dumps(END), "latestOffset": json.dumps(LATEST)},
        SimpleNamespace(endOffset=json.dumps(END), latestOffset=json.dumps(LATEST)),
        json.dumps({"endOffset": END, "latestOffset": LATEST}),
        # PySpark 4.1 has the text of a Python dict, and JSON beside it.
        SimpleNamespace(
            endOffset=str(END),
            latestOffset=str(LATEST),
            json=json.dumps({"endOffset": END, "latestOffset": LATEST}),
        ),
    ],
)
def test_the_connector_s_figures(progress: Any) -> None:
    assert offsets_behind_latest(progress) == BEHIND
    assert lag_by_partition(progress) == LAG


@pytest.mark.parametrize(
    ("end", "latest"),
    [
        (None, LATEST),
        (END, None),
        ("null", json.dumps(LATEST)),
        (END, {}),
        # Of a rate source, of files, of a socket.
        (5, 7),
        ("5", "7"),
        ({"logOffset": 3}, {"logOffset": 4}),
        ("no json", "no json"),
    ],
)
def test_a_source_that_had_no_part_or_is_no_kafka(end: Any, latest: Any) -> None:
    assert offsets_behind_latest(SimpleNamespace(endOffset=end, latestOffset=latest)) == {}


@pytest.mark.parametrize(
    "given", [PROGRESS, json.dumps(PROGRESS), SimpleNamespace(json=json.dumps(PROGRESS))]
)
def test_a_report_as_a_line(given: Any) -> None:
    sight = sight_of(given)
    assert (sight.behind, sight.most_behind, sight.sink_rows) == (LAG, (("t", 0), 4), 1204)
    assert line_of(sight) == (
        "copy batch 12: 1,204 rows in 1,142 ms, 803 rows/s come, 912 rows/s done, behind 6 (t-0 4)"
    )


def test_a_report_that_says_little() -> None:
    sight = sight_of(
        {"id": "7b1f", "name": None, "sink": {"numOutputRows": -1}, "processedRowsPerSecond": None}
    )
    assert (sight.sink_rows, sight.most_behind) == (None, None)
    assert line_of(sight) == "7b1f batch -1: 0 rows in 0 ms, 0 rows/s come, 0 rows/s done"


class Query:
    """A query that ends after some looks."""

    def __init__(self, looks: int, reports: list[Any], *, problem: BaseException | None = None) -> None:
        self.name, self.id, self.status = "copy", "7b1f", {"message": "Processing new data"}
        self._looks, self._reports, self._problem = looks, reports, problem

    @property
    def isActive(self) -> bool:  # noqa: N802 (Spark's name, as below)
        return self._looks > 0

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        self._looks -= 1
        if self._looks <= 0 and self._problem is not None:
            raise self._problem
        return self._looks <= 0


def watched(query: Query) -> str:
    from rich.console import Console

    from odradek.spark.watching.watch import watch

    console = Console(file=io.StringIO(), width=100)
    watch(query, console=console)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_watching_until_it_ends() -> None:
    text = watched(Query(3, [None, PROGRESS]))
    assert "copy  ended" in text
    assert "batch 12: 1,204 rows in 1,142 ms (walCommit 9  addBatch 98)" in text
    assert "behind by 6 records in 3 partitions" in text


def test_many_partitions_are_summed_up() -> None:
    many = {"t": {str(n): n for n in range(12)}}
    progress = {**PROGRESS, "sources": [{"endOffset": {"t": {"0": 0}}, "latestOffset": many}]}
    text = watched(Query(1, [progress]))
    assert "2 more" in text
    assert "behind by 66 records in 12 partitions" in text


def test_interrupting_leaves_the_query_alone_and_a_failure_is_told() -> None:
    assert "no batch yet" in watched(Query(1, [None], problem=KeyboardInterrupt()))
    with pytest.raises(RuntimeError, match="it failed"):
        watched(Query(1, [PROGRESS], problem=RuntimeError("it failed")))
