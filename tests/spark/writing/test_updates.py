"""Rows that change: Spark has no output mode "update" for Python sinks; `foreachBatch` does what it does."""

from pathlib import Path
from typing import Any

import pytest

from ..conftest import started_in_time

pytestmark = pytest.mark.spark


def test_counts_as_they_change(new_topic: Any, read_stream: Any, servers: str, tmp_path: Path) -> None:
    words, counts = new_topic(), new_topic()
    words.produce(["a", "b", "a"])

    def changing() -> Any:
        frame = read_stream(subscribe=words.name, startingOffsets="earliest")
        counted = frame.groupBy(frame.value).count()
        return counted.selectExpr("value AS key", "CAST(count AS STRING) AS value").writeStream

    def write(batch: Any, batch_id: int) -> None:
        batch.write.format("odradek").mode("append").option("kafka.bootstrap.servers", servers).option(
            "topic", counts.name
        ).save()

    def run() -> None:
        writer = changing().outputMode("update").foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "each")).start().awaitTermination()

    started_in_time(run)
    assert sorted(counts.values()) == ["1", "2"]
    words.produce(["b"])
    started_in_time(run)
    assert sorted(counts.values()) == ["1", "2", "2"]
    plain = changing().format("odradek").outputMode("update").trigger(availableNow=True)
    plain = plain.option("kafka.bootstrap.servers", servers).option("topic", counts.name)
    with pytest.raises(Exception, match="does not support Update mode"):
        plain.option("checkpointLocation", str(tmp_path / "plain")).start().awaitTermination()
