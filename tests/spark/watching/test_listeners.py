"""Listeners on a real query, and the group in which its offsets show."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ..conftest import batches_of, started_in_time

pytestmark = pytest.mark.spark


def events_are_told(spark: Any) -> None:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def run(frame: Any, name: str, folder: Path) -> Any:
    def once() -> Any:
        writer = frame.writeStream.format("noop").queryName(name).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(folder)).start()
        query.awaitTermination()
        return query

    return started_in_time(once)


def test_what_listeners_tell_of_a_query(spark: Any, new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    from prometheus_client import CollectorRegistry

    from odradek.client import Admin
    from odradek.spark import ProgressListener, PrometheusListener

    topic = new_topic(2)
    topic.produce(["a", "b", "c"], 0)
    topic.produce(["d"], 1)
    lines: list[str] = []
    registry = CollectorRegistry()
    listeners = [ProgressListener(lines.append), PrometheusListener(registry)]
    for listener in listeners:
        spark.streams.addListener(listener)
    try:
        options = {"subscribe": topic.name, "startingOffsets": "earliest", **batches_of(2)}
        frame = read_stream(**options, commitOffsetsToGroup=f"{topic.name}-readers")
        query = run(frame, "sight", tmp_path / "good")
        events_are_told(spark)
        with pytest.raises(Exception, match="too far"):
            run(frame.selectExpr("raise_error('too far')"), "bad", tmp_path / "bad")
        events_are_told(spark)
    finally:
        for listener in listeners:
            spark.streams.removeListener(listener)
    assert lines[0] == "sight started"
    batches = [line for line in lines if line.startswith("sight batch")]
    assert len(batches) >= (2 if batches_of(2) else 1)
    assert "behind 0" in batches[-1]
    assert "sight ended" in lines
    assert [line.split(":")[0] for line in lines if line.startswith("bad failed")] == ["bad failed"]

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"odradek_spark_{name}", {"query": "sight", **labels})

    assert value("input_rows_total") == 4
    assert value("query_active") == 0
    assert value("batch_id") == query.lastProgress.batchId
    assert value("offsets_behind_latest", topic=topic.name, partition="0") == 0
    assert (value("step_seconds", step="triggerExecution") or 0) > 0
    assert registry.get_sample_value("odradek_spark_query_failures_total", {"query": "bad"}) == 1
    # What is committed to the group is what the query has finished.
    with Admin(bootstrap_servers=topic.servers) as admin:
        committed = admin.list_group_offsets(f"{topic.name}-readers")
    assert {tp.partition: one.offset for tp, one in committed.items()} == {0: 3, 1: 1}
